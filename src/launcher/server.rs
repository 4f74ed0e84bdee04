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
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::init::{self, Inherited};
use super::protocol::{Call, Event, Request};
use super::wire::{self, WireError};
use super::{SetupFailure, Stage, reap};
use crate::kernel::{self, Cloned};
use crate::plan::{Backend, SandboxPlan};

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
    let asked = arguments.next().as_deref() == Some(OsStr::new(LAUNCHER_ARGUMENT));
    if asked && arguments.next().is_none() {
        kernel::exit_now(i32::from(serve().is_err()));
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
}

fn serve() -> Result<(), StartError> {
    let socket = isolate()?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let inherited = Inherited { open_files: raise_open_files()?, fresh_keyring: fresh_keyring()? };
    let server = Server { socket, children, inherited, plans: HashMap::new(), runs: HashMap::new() };
    server.run()
}

/// Leaves the caller's session, terminal, directory and descriptors behind, and closes the door to other processes.
fn isolate() -> Result<OwnedFd, StartError> {
    prctl::set_dumpable(false)?;
    let stdin = kernel::adopt(0);
    if getsockopt(&stdin, sockopt::SockType) != Ok(SockType::SeqPacket) {
        return Err(StartError::NotASocket);
    }
    let socket = kernel::adopt(fcntl(&stdin, FcntlArg::F_DUPFD_CLOEXEC(3))?);
    if nix::unistd::getpgrp() != nix::unistd::getpid() || nix::unistd::getsid(None) != Ok(nix::unistd::getpid()) {
        setsid()?;
    }
    chdir("/")?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    std::mem::forget(stdin);
    drop(null);
    kernel::close_all_but(&socket)?;
    prctl::set_child_subreaper(true)?;
    Ok(socket)
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
}

struct Server {
    socket: OwnedFd,
    children: SignalFd,
    inherited: Inherited,
    plans: HashMap<u64, SandboxPlan>,
    /// By the pid of each init.
    runs: HashMap<Pid, Run>,
}

impl Server {
    fn run(mut self) -> Result<(), StartError> {
        loop {
            let mut ready = [
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [request, child] = ready.map(|fd| fd.any().unwrap_or(false));
            if child {
                self.reap()?;
            }
            if request && !self.serve_one() {
                self.shut_down();
                return Ok(());
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
            Ok((Request::Spawn { run, plan, call }, fds)) => self.spawn(run, plan, call, fds),
            Err(WireError::NotReady) => {}
            Err(_) => return false,
        }
        true
    }

    fn spawn(&mut self, number: u64, plan: u64, call: Call, fds: Vec<OwnedFd>) {
        let Ok([socket, stdin, stdout, stderr]) = <[OwnedFd; 4]>::try_from(fds) else { return };
        let Some(plan) = self.plans.get(&plan) else {
            report(&socket, Stage::Request, Errno::ENOKEY);
            return;
        };
        if let Some(fault) = plan.fault.filter(|fault| matches!(fault.stage, Stage::Request | Stage::Namespaces)) {
            report(&socket, fault.stage, Errno::from_raw(fault.errno));
            return;
        }
        match kernel::clone_process(namespace_flags(plan), true) {
            Ok(Cloned::Parent { pid, pidfd: Some(pidfd) }) => {
                self.runs.insert(pid, Run { number, pidfd });
            }
            Ok(Cloned::Parent { pid, pidfd: None }) => {
                // A kernel that ignores CLONE_PIDFD cannot have namespaces.time or Landlock either; refuse it.
                let killed = nix::sys::signal::kill(pid, Signal::SIGKILL);
                report(&socket, Stage::Namespaces, killed.err().unwrap_or(Errno::ENOSYS));
            }
            Ok(Cloned::Child) => {
                let plan = plan.clone();
                let inherited = self.inherited;
                self.forget_everything();
                init::run(&plan, &call, socket, [stdin, stdout, stderr], inherited)
            }
            Err(errno) => report(&socket, Stage::Namespaces, errno),
        }
    }

    /// In the child: closes what belongs to the launcher, so that nothing of it lives on in a sandbox.
    fn forget_everything(&mut self) {
        self.runs.clear();
        self.plans.clear();
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
        for pid in reap::collect() {
            self.runs.remove(&pid);
        }
        self.kill_strays();
        Ok(())
    }

    /// Kills processes that fell to this subreaper because the init of a sandbox without a PID namespace was killed.
    fn kill_strays(&self) {
        for pid in reap::children().into_iter().filter(|pid| !self.runs.contains_key(pid)) {
            reap::kill_one(pid);
        }
    }

    fn shut_down(mut self) {
        for run in self.runs.values() {
            if let Err(errno) = kernel::pidfd_kill(&run.pidfd) {
                tracing::debug!(%errno, "the sandbox was gone already");
            }
        }
        self.runs.clear();
        reap::kill_all_children();
    }
}

fn namespace_flags(plan: &SandboxPlan) -> CloneFlags {
    let Some(namespaces) = plan.namespaces.filter(|_| plan.backend == Backend::Namespaces) else {
        return CloneFlags::empty();
    };
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
