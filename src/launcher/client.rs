//! The host's side: starting a launcher, asking it for sandboxes, hearing from each.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;

use super::early;
use super::protocol::{Call, Control, Event, Request};
use super::server::{LAUNCHER_ARGUMENT, can_reexecute};
use super::wire::{self, WireError};
use crate::kernel;
use crate::plan::{SandboxPlan, Shape};

/// Where the launcher's executable is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LauncherPath {
    /// This program itself, when its `main` called [`enter`](super::enter); else a `stockade` beside it or on PATH.
    #[default]
    Auto,
    /// This executable.
    Exact(PathBuf),
}

/// Why there is no launcher.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// None was found.
    #[error(
        "no launcher was found: call stockade::launcher::enter() first thing in main, configure a launcher path, or \
         install the stockade binary beside {beside} or on PATH"
    )]
    NotFound {
        /// The executable beside which it was looked for.
        beside: PathBuf,
    },
    /// It could not be started.
    #[error("the launcher {path} could not be started: {source}")]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The kernel refused a socket or its setting.
    #[error("a socket for the launcher could not be made: {0}")]
    Socket(#[source] std::io::Error),
    /// The launcher is gone or cannot be spoken to.
    #[error("the launcher cannot be reached: {0}")]
    Unreachable(String),
}

impl LauncherPath {
    pub(super) fn resolve(&self) -> Result<PathBuf, LauncherError> {
        match self {
            Self::Exact(path) => Ok(path.clone()),
            Self::Auto if can_reexecute() => Ok(PathBuf::from("/proc/self/exe")),
            Self::Auto => find_installed(),
        }
    }
}

fn find_installed() -> Result<PathBuf, LauncherError> {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().map(|directory| directory.join("stockade"));
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("stockade")).collect::<Vec<_>>()
    });
    beside.into_iter().chain(on_path).find(|path| is_executable(path)).ok_or(LauncherError::NotFound { beside: own })
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// A connection to one launcher.
#[derive(Debug)]
pub(crate) struct LauncherClient {
    /// `None` once closed.
    socket: Mutex<Connection>,
    process: Mutex<Process>,
    /// Nobody waits for the launcher's end.
    released: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    socket: Option<OwnedFd>,
    /// Numbers of the plans that the launcher knows, by the plan itself, and when each was last used.
    plans: HashMap<SandboxPlan, (u64, u64)>,
    next: u64,
    /// The launcher keeps sandboxes of this shape ready.
    prepared: Option<Shape>,
    /// It serves one command and prepares nothing further.
    one_shot: bool,
}

/// How the launcher came to be.
#[derive(Debug)]
enum Process {
    Executed(Child),
    Forked(Pid),
}

impl Process {
    /// True once it has ended and been collected.
    fn has_ended(&mut self) -> bool {
        match self {
            Self::Executed(child) => !matches!(child.try_wait(), Ok(None)),
            Self::Forked(pid) => !matches!(waitpid(*pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)),
        }
    }

    fn kill(&mut self) -> std::io::Result<()> {
        match self {
            Self::Executed(child) => child.kill().and_then(|()| child.wait().map(drop)),
            Self::Forked(pid) => {
                kill(*pid, Signal::SIGKILL)?;
                waitpid(*pid, None)?;
                Ok(())
            }
        }
    }
}

/// Plans kept by the launcher at any one time.
const MOST_PLANS: usize = 64;

impl LauncherClient {
    /// Starts a launcher.
    pub(crate) fn start(path: &LauncherPath) -> Result<Self, LauncherError> {
        if let Some((socket, pid)) = early::take().filter(|_| *path == LauncherPath::Auto) {
            return Ok(Self::new(socket, Process::Forked(pid), true));
        }
        let path = path.resolve()?;
        let socket_error = |errno: nix::errno::Errno| LauncherError::Socket(errno.into());
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).map_err(socket_error)?;
        // Room for bursts of requests; the kernel caps it where it must.
        setsockopt(&ours, sockopt::SndBuf, &(1 << 20)).map_err(socket_error)?;
        let process = Command::new(&path)
            .arg(LAUNCHER_ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| LauncherError::Start { path, source })?;
        Ok(Self::new(ours, Process::Executed(process), false))
    }

    fn new(socket: OwnedFd, process: Process, one_shot: bool) -> Self {
        let connection = Connection { socket: Some(socket), plans: HashMap::new(), next: 0, prepared: None, one_shot };
        Self { socket: Mutex::new(connection), process: Mutex::new(process), released: AtomicBool::new(false) }
    }

    /// Asks for one run. The descriptors are the command's standard input, output and error; `cgroup` is the entrance of
    /// its control group, when the plan has it enter one. The returned channel hears how it goes.
    pub(crate) fn spawn(
        &self,
        plan: &SandboxPlan,
        call: Call,
        stdio: [&OwnedFd; 3],
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<RunChannel, LauncherError> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(|errno| LauncherError::Socket(errno.into()))?;
        if let Some(entrance) = cgroup {
            wire::send(&ours, &Control::Cgroup, &[entrance.as_raw_fd()])
                .map_err(|error| LauncherError::Unreachable(error.to_string()))?;
        }
        let channel = RunChannel::new(ours)?;
        let fds = [theirs.as_raw_fd(), stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()];
        let mut connection = self.connection();
        let number = connection.define(plan)?;
        connection.next += 1;
        let run = connection.next;
        connection.send(&Request::Spawn { run, plan: number, call }, &fds)?;
        connection.prepare(plan.shape())?;
        Ok(RunChannel { run, ..channel })
    }

    /// Kills the sandbox of a run from outside, for when its init does not answer.
    pub(crate) fn kill(&self, run: u64) -> Result<(), LauncherError> {
        self.connection().send(&Request::Kill { run }, &[])
    }

    /// Closes the connection, upon which the launcher kills every sandbox and exits, and does not wait for that: for a
    /// program that is about to end itself.
    pub(crate) fn release(&self) {
        self.connection().socket = None;
        self.released.store(true, Ordering::Relaxed);
    }

    /// Closes the connection, upon which the launcher kills every sandbox and exits, and waits for that.
    pub(crate) fn close(&self) {
        self.connection().socket = None;
        let mut process = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let patience = Instant::now() + Duration::from_secs(5);
        while Instant::now() < patience {
            if process.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        // It is stuck in the kernel. Killing it takes its sandboxes along, by their parent-death signal.
        if let Err(error) = process.kill() {
            tracing::warn!(%error, "the launcher could not be ended");
        }
    }

    fn connection(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for LauncherClient {
    fn drop(&mut self) {
        if !self.released.load(Ordering::Relaxed) {
            self.close();
        }
    }
}

impl Connection {
    fn send(&self, request: &Request, fds: &[i32]) -> Result<(), LauncherError> {
        let socket = self.socket.as_ref().ok_or_else(|| LauncherError::Unreachable("it was closed".to_owned()))?;
        wire::send(socket, request, fds).map_err(|error| LauncherError::Unreachable(error.to_string()))
    }

    /// The next command is likely to want a sandbox like this one's, so the launcher builds the part that no policy
    /// changes while it has nothing else to do.
    fn prepare(&mut self, shape: Option<Shape>) -> Result<(), LauncherError> {
        if self.one_shot || shape.is_none() || self.prepared == shape {
            return Ok(());
        }
        self.prepared = shape;
        self.send(&Request::Prepare { shape }, &[])
    }

    /// The launcher's number for a plan, telling it the plan when it is new.
    fn define(&mut self, plan: &SandboxPlan) -> Result<u64, LauncherError> {
        self.next += 1;
        let now = self.next;
        if let Some((number, used)) = self.plans.get_mut(plan) {
            *used = now;
            return Ok(*number);
        }
        if self.plans.len() >= MOST_PLANS {
            self.forget_oldest()?;
        }
        self.send(&Request::Define { plan: now, data: Box::new(plan.clone()) }, &[])?;
        self.plans.insert(plan.clone(), (now, now));
        Ok(now)
    }

    fn forget_oldest(&mut self) -> Result<(), LauncherError> {
        let oldest =
            self.plans.iter().min_by_key(|(_, (_, used))| *used).map(|(plan, (number, _))| (plan.clone(), *number));
        if let Some((plan, number)) = oldest {
            self.plans.remove(&plan);
            self.send(&Request::Forget { plan: number }, &[])?;
        }
        Ok(())
    }
}

/// The socket between the host and one sandbox. Dropping it ends the sandbox.
#[derive(Debug)]
pub(crate) struct RunChannel {
    run: u64,
    socket: AsyncFd<OwnedFd>,
}

impl RunChannel {
    fn new(socket: OwnedFd) -> Result<Self, LauncherError> {
        let nonblocking = fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        nonblocking.map_err(|errno| LauncherError::Socket(errno.into()))?;
        Ok(Self { run: 0, socket: kernel::watch(socket).map_err(LauncherError::Socket)? })
    }

    /// Number of the run, for [`LauncherClient::kill`].
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// The next event, with the descriptors it carries.
    ///
    /// # Errors
    /// [`WireError::Closed`] when the sandbox is gone without having said so.
    pub(crate) async fn next(&self) -> Result<(Event, Vec<OwnedFd>), WireError> {
        loop {
            let mut ready = self.socket.readable().await?;
            match wire::receive::<Event>(self.socket.get_ref()) {
                Err(WireError::NotReady) => ready.clear_ready(),
                received => return received,
            }
        }
    }

    /// Tells the sandbox something; an ended one does not mind.
    pub(crate) fn tell(&self, control: Control) -> Result<(), WireError> {
        match wire::send(self.socket.get_ref().as_fd(), &control, &[]) {
            Err(WireError::Closed) => Ok(()),
            sent => sent,
        }
    }
}
