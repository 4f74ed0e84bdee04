//! The launcher process: takes requests, clones sandboxes, outlives none.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socketpair, sockopt};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::init::{self, Inherited, Work};
use super::probe::{self, PROBE_ARGUMENT};
use super::protocol::{Call, Event, Request};
use super::ready::{MountTable, Ready};
use super::wire::{self, WireError};
use super::{SetupFailure, Stage, reap};
use crate::kernel::{self, Cloned};
use crate::plan::{SandboxPlan, Shape};

/// The one argument that makes a process a launcher. Its standard input is then the socket.
pub(super) const LAUNCHER_ARGUMENT: &str = "--stockade-launcher";

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Becomes the launcher when this process was started as one, and otherwise returns at once.
///
/// A program that embeds the executor calls this first thing in `main`, before threads, allocations of note or secrets:
/// the executor then starts launchers by re-executing the program itself, so no second binary has to be installed.
pub fn enter() {
    ENTERED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    let asked = first.as_deref() == Some(OsStr::new(LAUNCHER_ARGUMENT));
    let probed = first.as_deref() == Some(OsStr::new(PROBE_ARGUMENT));
    match arguments.next() {
        None if asked => kernel::exit_now(i32::from(serve_stdin().is_err())),
        Some(name) if probed => kernel::exit_now(probe::run(&name)),
        _ => {}
    }
}

/// Whether this program can serve as its own launcher.
pub(super) fn can_reexecute() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Why a launcher could not begin. Nobody is told but by the closed socket: standard error may be anybody's.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("standard input is not the socket of an executor")]
    NotASocket,
    #[error(transparent)]
    Errno(#[from] Errno),
    #[error("/proc is not mounted: {0}")]
    Proc(#[from] std::io::Error),
}

/// Forks a launcher from a program that has only just started, which is cheaper than executing it a second time.
///
/// The fork holds what the program held at that moment: no heap of note, and its arguments and environment, which it
/// overwrites. Returns the host's end of the socket and the launcher's pid.
pub(super) fn fork_launcher(shape: impl FnOnce() -> Option<Shape>) -> Result<(OwnedFd, Pid), Errno> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    match kernel::clone_process(CloneFlags::empty(), false)? {
        Cloned::Parent { pid, .. } => Ok((ours, pid)),
        Cloned::Child => {
            drop(ours);
            let served = leave_caller(&theirs).and_then(|()| serve(theirs, shape(), true));
            kernel::exit_now(i32::from(served.is_err()))
        }
    }
}

/// For a forked launcher: what an executed one has not got in the first place.
fn leave_caller(socket: &OwnedFd) -> Result<(), StartError> {
    prctl::set_dumpable(false)?;
    kernel::wipe_arguments_and_environment()?;
    settle(socket)
}

fn serve_stdin() -> Result<(), StartError> {
    let socket = isolate()?;
    serve(socket, None, false)
}

fn serve(socket: OwnedFd, wanted: Option<Shape>, one_shot: bool) -> Result<(), StartError> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let inherited = Inherited { open_files: raise_open_files()?, fresh_keyring: fresh_keyring()? };
    let mount_table = MountTable::watch()?;
    let (plans, runs) = (HashMap::new(), HashMap::new());
    Server { socket, children, mount_table, inherited, plans, runs, ready: None, wanted, one_shot }.run()
}

/// Leaves the caller's session, terminal, directory and descriptors behind, and closes the door to other processes.
fn isolate() -> Result<OwnedFd, StartError> {
    prctl::set_dumpable(false)?;
    let stdin = kernel::adopt(0);
    if getsockopt(&stdin, sockopt::SockType) != Ok(SockType::SeqPacket) {
        return Err(StartError::NotASocket);
    }
    let socket = kernel::adopt(fcntl(&stdin, FcntlArg::F_DUPFD_CLOEXEC(3))?);
    std::mem::forget(stdin);
    settle(&socket)?;
    Ok(socket)
}

/// A session, directory and standard descriptors of its own, and every other descriptor closed.
fn settle(socket: &OwnedFd) -> Result<(), StartError> {
    if nix::unistd::getsid(None) != Ok(nix::unistd::getpid()) {
        setsid()?;
    }
    chdir("/")?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    drop(null);
    kernel::close_all_but(socket)?;
    prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Policies may name thousands of paths, and each bind holds a descriptor while a sandbox is built. Returns the soft
/// limit that commands get back.
fn raise_open_files() -> Result<u64, Errno> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(soft)
}

/// Leaves the caller's session keyring. False where the kernel has no keyrings or a filter already refuses the calls:
/// then nothing started from here can reach one either.
fn fresh_keyring() -> Result<bool, Errno> {
    match kernel::join_fresh_session_keyring() {
        Ok(()) => Ok(true),
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(false),
        Err(errno) => Err(errno),
    }
}

struct Run {
    number: u64,
    pidfd: OwnedFd,
    /// A copy of the sandbox's end of its socket. The kernel closes the descriptors of an init that is killed before it
    /// ends the processes beneath it; the host is to see the end of the socket when nothing is left.
    _socket: OwnedFd,
}

struct Server {
    socket: OwnedFd,
    children: SignalFd,
    mount_table: MountTable,
    inherited: Inherited,
    plans: HashMap<u64, SandboxPlan>,
    /// By the pid of each init.
    runs: HashMap<Pid, Run>,
    ready: Option<Ready>,
    /// The shape to have one ready of.
    wanted: Option<Shape>,
    /// One is enough.
    one_shot: bool,
}

impl Server {
    fn run(mut self) -> Result<(), StartError> {
        loop {
            let idle_work = self.ready.is_none() && self.wanted.is_some();
            let patience = if idle_work { PollTimeout::ZERO } else { PollTimeout::NONE };
            let mut ready = [
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.mount_table.as_fd(), PollFlags::POLLPRI),
            ];
            let events = match poll(&mut ready, patience) {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let [request, child, mounts] = ready.map(|fd| fd.any().unwrap_or(false));
            if mounts {
                self.discard_ready();
            }
            if child {
                self.reap()?;
            }
            if request && !self.serve_one() {
                self.shut_down();
                return Ok(());
            }
            if events == 0 && idle_work {
                self.prepare();
            }
        }
    }

    /// Serves one request; false when the host is gone or speaks nonsense, either of which ends everything.
    fn serve_one(&mut self) -> bool {
        match wire::receive::<Request>(&self.socket) {
            Ok((Request::Define { plan, data }, _)) => {
                self.plans.insert(plan, *data);
            }
            Ok((Request::Forget { plan }, _)) => {
                self.plans.remove(&plan);
            }
            Ok((Request::Kill { run }, _)) => self.kill(run),
            Ok((Request::Prepare { shape }, _)) => self.want(shape),
            Ok((Request::Spawn { run, plan, call }, fds)) => self.spawn(run, plan, call, fds),
            Err(WireError::NotReady) => {}
            Err(_) => return false,
        }
        true
    }

    fn want(&mut self, shape: Option<Shape>) {
        self.wanted = shape;
        if self.ready.as_ref().is_some_and(|ready| Some(ready.shape) != shape) {
            self.discard_ready();
        }
    }

    fn discard_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.discard();
        }
    }

    /// Starts on the next sandbox. A failure leaves none ready; the next spawn builds its own and reports why it cannot.
    fn prepare(&mut self) {
        let Some(shape) = self.wanted else { return };
        if self.one_shot {
            self.wanted = None;
        }
        let Ok((ours, theirs)) = Ready::inbox() else {
            self.wanted = None;
            return;
        };
        match kernel::clone_process(namespace_flags(Some(shape)), true) {
            Ok(Cloned::Parent { pid, pidfd: Some(pidfd) }) => self.ready = Some(Ready::new(shape, pid, pidfd, ours)),
            Ok(Cloned::Child) => {
                let inherited = self.inherited;
                self.forget_everything();
                drop(ours);
                init::wait_and_run(shape, theirs, inherited)
            }
            Ok(Cloned::Parent { pidfd: None, .. }) | Err(_) => self.wanted = None,
        }
    }

    fn spawn(&mut self, number: u64, plan: u64, call: Call, fds: Vec<OwnedFd>) {
        let Ok(fds) = <[OwnedFd; 4]>::try_from(fds) else { return };
        let Some(plan) = self.plans.get(&plan).cloned() else {
            report(&fds[0], Stage::Request, Errno::ENOKEY);
            return;
        };
        if let Some(fault) = plan.fault.filter(|fault| matches!(fault.stage, Stage::Request | Stage::Namespaces)) {
            report(&fds[0], fault.stage, Errno::from_raw(fault.errno));
            return;
        }
        let fits = |ready: &mut Ready| plan.fault.is_none() && Some(ready.shape) == plan.shape();
        if let Some(ready) = self.ready.take_if(fits) {
            match ready.order(plan.clone(), call.clone(), &fds) {
                Ok(()) => {
                    let [socket, ..] = fds;
                    self.runs.insert(ready.pid, Run { number, pidfd: ready.pidfd, _socket: socket });
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "the prepared sandbox did not take its order");
                    ready.discard();
                }
            }
        }
        self.spawn_cold(number, plan, call, fds);
    }

    fn spawn_cold(&mut self, number: u64, plan: SandboxPlan, call: Call, fds: [OwnedFd; 4]) {
        match kernel::clone_process(namespace_flags(plan.shape()), true) {
            Ok(Cloned::Parent { pid, pidfd: Some(pidfd) }) => {
                let [socket, ..] = fds;
                self.runs.insert(pid, Run { number, pidfd, _socket: socket });
            }
            Ok(Cloned::Parent { pid, pidfd: None }) => {
                // A kernel that ignores CLONE_PIDFD (before 5.2) has no Landlock and no mount_setattr either; refuse it.
                let killed = nix::sys::signal::kill(pid, Signal::SIGKILL);
                report(&fds[0], Stage::Namespaces, killed.err().unwrap_or(Errno::ENOSYS));
            }
            Ok(Cloned::Child) => {
                let inherited = self.inherited;
                self.forget_everything();
                let [socket, stdin, stdout, stderr] = fds;
                init::run(Work { plan, call, socket, stdio: [stdin, stdout, stderr] }, inherited)
            }
            Err(errno) => report(&fds[0], Stage::Namespaces, errno),
        }
    }

    /// In the child: closes what belongs to the launcher, so that nothing of it lives on in a sandbox.
    fn forget_everything(&mut self) {
        self.runs.clear();
        self.plans.clear();
        self.ready = None;
        if let Ok(null) = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()) {
            self.socket = null;
        }
    }

    fn kill(&self, number: u64) {
        if let Some(run) = self.runs.values().find(|run| run.number == number) {
            // ESRCH: it has just ended by itself.
            if let Err(errno) = kernel::pidfd_kill(&run.pidfd) {
                tracing::debug!(%errno, number, "the sandbox was gone already");
            }
        }
    }

    fn reap(&mut self) -> Result<(), Errno> {
        while self.children.read_signal()?.is_some() {}
        // Held until what was beneath them is told to end too.
        let mut ended = Vec::new();
        for pid in reap::collect() {
            ended.extend(self.runs.remove(&pid));
            if self.ready.take_if(|ready| ready.pid == pid).is_some() {
                // It failed while it was built; another would too.
                self.wanted = None;
            }
        }
        self.kill_strays();
        drop(ended);
        Ok(())
    }

    /// Kills processes that fell to this subreaper because the init of a sandbox without a PID namespace was killed.
    fn kill_strays(&self) {
        let ours =
            |pid: &Pid| self.runs.contains_key(pid) || self.ready.as_ref().is_some_and(|ready| ready.pid == *pid);
        for pid in reap::children().into_iter().filter(|pid| !ours(pid)) {
            reap::kill_one(pid);
        }
    }

    fn shut_down(mut self) {
        self.discard_ready();
        for run in self.runs.values() {
            if let Err(errno) = kernel::pidfd_kill(&run.pidfd) {
                tracing::debug!(%errno, "the sandbox was gone already");
            }
        }
        reap::kill_all_children();
    }
}

fn namespace_flags(shape: Option<Shape>) -> CloneFlags {
    let Some(Shape { namespaces, .. }) = shape else { return CloneFlags::empty() };
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    flags.set(CloneFlags::CLONE_NEWUSER, namespaces.user.is_some());
    flags.set(CloneFlags::CLONE_NEWNET, namespaces.network);
    flags
}

fn report(socket: &OwnedFd, stage: Stage, errno: Errno) {
    let failure = SetupFailure { stage, errno: errno as i32, path: None };
    if let Err(error) = wire::send(socket, &Event::Failed(failure), &[]) {
        // The host has given the run up; it sees the closed socket.
        tracing::debug!(%error, "a failure could not be reported");
    }
}
