//! The launcher process: takes requests, clones sandboxes, outlives none.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::init::{self, EXPIRED, Inherited, Work};
use super::network::Networks;
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
pub(super) enum StartError {
    #[error("standard input is not the socket of an executor")]
    NotASocket,
    #[error(transparent)]
    Errno(#[from] Errno),
    #[error("/proc is not mounted: {0}")]
    Proc(#[from] std::io::Error),
}

fn serve_stdin() -> Result<(), StartError> {
    let socket = isolate()?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let inherited = inherit()?;
    let mount_table = MountTable::watch()?;
    let server = Server {
        socket,
        children,
        mount_table,
        inherited,
        plans: HashMap::new(),
        runs: HashMap::new(),
        ready: None,
        wanted: None,
        idle: true,
        ahead: VecDeque::new(),
        due: Instant::now(),
        networks: Networks::default(),
    };
    server.run()
}

/// What sandboxes get from the process that makes them, which leaves the caller's session keyring on the way.
pub(super) fn inherit() -> Result<Inherited, Errno> {
    Ok(Inherited { open_files: raise_open_files()?, fresh_keyring: fresh_keyring()? })
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
    prctl::set_child_subreaper(true)?;
    Ok(socket)
}

/// A session, directory and standard descriptors of its own, and every other descriptor closed.
pub(super) fn settle(socket: &OwnedFd) -> Result<(), StartError> {
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
    _socket: Option<OwnedFd>,
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
    /// The last one that stood ready was not wanted; until there is another request there will be none.
    idle: bool,
    /// Sandboxes to build ahead, by run, plan and descriptors.
    ahead: VecDeque<(u64, u64, Vec<OwnedFd>)>,
    /// When to go on building ahead.
    due: Instant,
    networks: Networks,
}

/// How long after a request nothing is built ahead, unless a sandbox ends before: the command that was just started is
/// what the machine is wanted for.
const QUIET: Duration = Duration::from_millis(10);

impl Server {
    fn run(mut self) -> Result<(), StartError> {
        loop {
            let building = !self.ahead.is_empty() || self.ready.is_none() && self.wanted.is_some() && !self.idle;
            let patience = if building { self.patience() } else { PollTimeout::NONE };
            let mut ready = vec![
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.mount_table.as_fd(), PollFlags::POLLPRI),
            ];
            let ahead = self.ahead.iter().filter_map(|(_, _, fds)| fds.first());
            ready.extend(ahead.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
            let events = match poll(&mut ready, patience) {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let spoke: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            let (request, child, mounts) = (spoke[0], spoke[1], spoke[2]);
            // One got its call before it was begun.
            let called = spoke[3..].iter().position(|spoke| *spoke).and_then(|at| self.ahead.remove(at));
            if let Some((run, plan, fds)) = called {
                self.spawn(run, plan, None, fds);
            }
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
            if events == 0 && building {
                self.build_ahead();
            }
        }
    }

    /// Until it is time to build ahead.
    fn patience(&self) -> PollTimeout {
        let left = self.due.saturating_duration_since(Instant::now());
        // Rounded up, so that the time has come when nothing else has.
        PollTimeout::try_from(left.as_millis() + u128::from(!left.is_zero())).unwrap_or(PollTimeout::ZERO)
    }

    /// One sandbox that waits for its call, or else the foundation of one for whatever comes.
    fn build_ahead(&mut self) {
        match self.ahead.pop_front() {
            Some((run, plan, fds)) => self.spawn(run, plan, None, fds),
            None => self.prepare(),
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
            Ok((Request::Spawn { run, plan, call }, fds)) => {
                self.due = Instant::now() + QUIET;
                self.spawn(run, plan, Some(call), fds);
            }
            Ok((Request::Warm { run, plan }, fds)) => {
                self.due = Instant::now() + QUIET;
                self.ahead.push_back((run, plan, fds));
            }
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
        let Ok((ours, theirs)) = Ready::inbox() else {
            self.wanted = None;
            return;
        };
        match self.networks.begin(Some(shape)) {
            Ok((Cloned::Parent { pid, pidfd: Some(pidfd) }, _)) => {
                self.ready = Some(Ready::new(shape, pid, pidfd, ours));
            }
            Ok((Cloned::Child, network)) => {
                let inherited = self.inherited;
                self.forget_everything();
                drop(ours);
                init::wait_and_run(shape, theirs, inherited, network)
            }
            Ok((Cloned::Parent { pidfd: None, .. }, _)) | Err(_) => self.wanted = None,
        }
    }

    fn spawn(&mut self, number: u64, plan: u64, call: Option<Call>, fds: Vec<OwnedFd>) {
        self.idle = false;
        if fds.is_empty() {
            return;
        }
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
            let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
            match ready.order(plan.clone(), call.clone(), &raw) {
                Ok(()) => {
                    let run = Run { number, pidfd: ready.pidfd, _socket: fds.into_iter().next() };
                    self.runs.insert(ready.pid, run);
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

    fn spawn_cold(&mut self, number: u64, plan: SandboxPlan, call: Option<Call>, fds: Vec<OwnedFd>) {
        match self.networks.begin(plan.shape()) {
            Ok((Cloned::Parent { pid, pidfd: Some(pidfd) }, _)) => {
                self.runs.insert(pid, Run { number, pidfd, _socket: fds.into_iter().next() });
            }
            Ok((Cloned::Parent { pid, pidfd: None }, _)) => {
                // A kernel that ignores CLONE_PIDFD (before 5.2) has no Landlock and no mount_setattr either; refuse it.
                let killed = nix::sys::signal::kill(pid, Signal::SIGKILL);
                report(&fds[0], Stage::Namespaces, killed.err().unwrap_or(Errno::ENOSYS));
            }
            Ok((Cloned::Child, network)) => {
                let inherited = self.inherited;
                self.forget_everything();
                match Work::new(plan, call, fds) {
                    Some(work) => init::run(work, inherited, network),
                    None => kernel::exit_now(1),
                }
            }
            Err(errno) => report(&fds[0], Stage::Namespaces, errno),
        }
    }

    /// In the child: closes what belongs to the launcher, so that nothing of it lives on in a sandbox.
    fn forget_everything(&mut self) {
        self.runs.clear();
        self.plans.clear();
        self.ahead.clear();
        self.ready = None;
        self.networks.clear();
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
        for (pid, code) in reap::collect() {
            if let Some(run) = self.runs.remove(&pid) {
                self.due = Instant::now();
                ended.push(run);
            }
            if self.ready.take_if(|ready| ready.pid == pid).is_some() {
                if code == Some(EXPIRED) {
                    self.idle = true;
                } else {
                    // It failed while it was built; another would too.
                    self.wanted = None;
                }
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

/// The namespaces that a process can only be born into. The rest it makes for itself, which takes a millisecond of its time
/// instead of ours.
pub(super) fn namespace_flags(shape: Option<Shape>) -> CloneFlags {
    let Some(Shape { namespaces, .. }) = shape else { return CloneFlags::empty() };
    let mut flags = CloneFlags::CLONE_NEWPID;
    flags.set(CloneFlags::CLONE_NEWUSER, namespaces.user.is_some());
    flags
}

fn report(socket: &OwnedFd, stage: Stage, errno: Errno) {
    let failure = SetupFailure { stage, errno: errno as i32, path: None };
    if let Err(error) = wire::send(socket, &Event::Failed(failure), &[]) {
        // The host has given the run up; it sees the closed socket.
        tracing::debug!(%error, "a failure could not be reported");
    }
}
