//! The host's side: starting a launcher, asking it for sandboxes, ending it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::wait::waitpid;

use super::channel::RunChannel;
use super::connection::Connection;
use super::early;
use super::locate::{LauncherError, LauncherPath};
use super::protocol::{Call, Request};
use super::ready::Ready;
use super::server::LAUNCHER_ARGUMENT;
use super::warm::{Pool, numbers};
use crate::kernel;
use crate::plan::{SandboxPlan, Standing};

/// Number of the run in the sandbox that was begun early; the launcher's own begin with 1.
const EARLY_RUN: u64 = 0;

/// Whoever makes the sandboxes of one executor: a launcher, and before it the one sandbox that was begun early.
#[derive(Debug)]
pub(crate) struct LauncherClient {
    path: LauncherPath,
    early: Mutex<Early>,
    /// Started when first needed.
    launcher: Mutex<Option<Launcher>>,
    /// Nobody waits for the launcher's end.
    released: AtomicBool,
}

#[derive(Debug)]
enum Early {
    None,
    Waiting(Ready),
    Running(Ready),
}

#[derive(Debug)]
struct Launcher {
    connection: Connection,
    process: Child,
    /// `None` where the mount table cannot be watched.
    pool: Option<Pool>,
}

impl LauncherClient {
    /// Takes the sandbox that was begun early, or starts a launcher.
    pub(crate) fn start(path: &LauncherPath) -> Result<Self, LauncherError> {
        let early = early::take().filter(|_| *path == LauncherPath::Auto);
        let launcher = if early.is_some() { None } else { Some(Launcher::start(path)?) };
        Ok(Self {
            path: path.clone(),
            early: Mutex::new(early.map_or(Early::None, Early::Waiting)),
            launcher: Mutex::new(launcher),
            released: AtomicBool::new(false),
        })
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
        let call = match self.spawn_early(plan, call, stdio, cgroup)? {
            Ok(channel) => return Ok(channel),
            Err(call) => call,
        };
        let mut launcher = lock(&self.launcher);
        let launcher = match &mut *launcher {
            Some(launcher) => launcher,
            none => none.insert(Launcher::start(&self.path)?),
        };
        launcher.spawn(plan, call, stdio, cgroup)
    }

    /// Gives the run to the sandbox that was begun early, when it fits; the call back when it does not.
    fn spawn_early(
        &self,
        plan: &SandboxPlan,
        call: Call,
        stdio: [&OwnedFd; 3],
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Result<RunChannel, Call>, LauncherError> {
        let mut early = lock(&self.early);
        let Early::Waiting(ready) = std::mem::replace(&mut *early, Early::None) else { return Ok(Err(call)) };
        if plan.fault.is_some() || Some(ready.shape) != plan.shape() {
            end(ready);
            return Ok(Err(call));
        }
        let (ours, theirs) = RunChannel::ends()?;
        let channel = RunChannel::new(EARLY_RUN, ours)?;
        channel.show_cgroup(cgroup)?;
        let [stdin, stdout, stderr] = numbers(stdio);
        let fds = [theirs.as_raw_fd(), stdin, stdout, stderr];
        if let Err(error) = ready.order(plan.clone(), Some(call.clone()), &fds) {
            tracing::debug!(%error, "the sandbox that was begun early did not take its order");
            end(ready);
            return Ok(Err(call));
        }
        *early = Early::Running(ready);
        Ok(Ok(channel))
    }

    /// Kills the sandbox of a run from outside, for when its init does not answer.
    pub(crate) fn kill(&self, run: u64) -> Result<(), LauncherError> {
        if run == EARLY_RUN {
            if let Early::Running(ready) = &*lock(&self.early)
                && let Err(errno) = kernel::pidfd_kill(&ready.pidfd)
            {
                tracing::debug!(%errno, "the sandbox was gone already");
            }
            return Ok(());
        }
        lock(&self.launcher).as_ref().map_or(Ok(()), |launcher| launcher.connection.send(&Request::Kill { run }, &[]))
    }

    /// Closes the connection, upon which the launcher kills every sandbox and exits, and does not wait for that: for a
    /// program that is about to end itself.
    pub(crate) fn release(&self) {
        if let Some(launcher) = &mut *lock(&self.launcher) {
            launcher.connection.close();
        }
        self.released.store(true, Ordering::Relaxed);
    }

    /// Closes the connection, upon which the launcher kills every sandbox and exits, and waits for that.
    pub(crate) fn close(&self) {
        match std::mem::replace(&mut *lock(&self.early), Early::None) {
            Early::None => {}
            Early::Waiting(ready) | Early::Running(ready) => end(ready),
        }
        if let Some(mut launcher) = lock(&self.launcher).take() {
            launcher.end();
        }
    }
}

impl Drop for LauncherClient {
    fn drop(&mut self) {
        if !self.released.load(Ordering::Relaxed) {
            self.close();
        }
    }
}

impl Launcher {
    fn start(path: &LauncherPath) -> Result<Self, LauncherError> {
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
        Ok(Self { connection: Connection::new(ours), process, pool: Pool::new().ok() })
    }

    fn spawn(
        &mut self,
        plan: &SandboxPlan,
        call: Call,
        stdio: [&OwnedFd; 3],
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<RunChannel, LauncherError> {
        let stdio = numbers(stdio);
        if !Pool::is_for(plan) || call.terminal.is_some() {
            return self.spawn_cold(plan, call, stdio, cgroup);
        }
        let world = Standing::of(plan);
        let channel = match self.give(plan, &world, &call, &stdio)? {
            Some(channel) => channel,
            None => self.spawn_cold(plan, call, stdio, None)?,
        };
        self.warm(plan, world)?;
        Ok(channel)
    }

    /// Gives the call to a sandbox that waits for one like it, where there is one.
    fn give(
        &mut self,
        plan: &SandboxPlan,
        world: &Standing,
        call: &Call,
        stdio: &[i32; 3],
    ) -> Result<Option<RunChannel>, LauncherError> {
        let Some(pool) = &mut self.pool else { return Ok(None) };
        while let Some((run, socket)) = pool.take(plan, world) {
            let channel = RunChannel::new(run, socket)?;
            match channel.order(call, stdio) {
                Ok(()) => return Ok(Some(channel)),
                Err(error) => tracing::debug!(%error, "a sandbox had ended while it waited"),
            }
        }
        Ok(None)
    }

    fn spawn_cold(
        &mut self,
        plan: &SandboxPlan,
        call: Call,
        stdio: [i32; 3],
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<RunChannel, LauncherError> {
        let (ours, theirs) = RunChannel::ends()?;
        let channel = RunChannel::new(0, ours)?;
        channel.show_cgroup(cgroup)?;
        let [stdin, stdout, stderr] = stdio;
        let run = self.connection.spawn(plan, Some(call), &[theirs.as_raw_fd(), stdin, stdout, stderr])?;
        self.connection.prepare(plan.shape())?;
        Ok(channel.numbered(run))
    }

    /// The next call is likely to be like this one, so its sandbox is built while there is nothing else to do.
    fn warm(&mut self, plan: &SandboxPlan, world: Standing) -> Result<(), LauncherError> {
        let Some(pool) = self.pool.as_mut().filter(|pool| pool.wants(plan)) else { return Ok(()) };
        let (ours, theirs) = RunChannel::ends()?;
        let run = self.connection.spawn(plan, None, &[theirs.as_raw_fd()])?;
        pool.keep(plan.clone(), world, run, ours);
        Ok(())
    }

    fn end(&mut self) {
        self.connection.close();
        let patience = Instant::now() + Duration::from_secs(5);
        while Instant::now() < patience {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        // It is stuck in the kernel. Killing it takes its sandboxes along, by their parent-death signal.
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            tracing::warn!(%error, "the launcher could not be ended");
        }
    }
}

/// Kills a sandbox of our own making and waits until it is gone.
fn end(ready: Ready) {
    let pid = ready.pid;
    ready.discard();
    if let Err(errno) = waitpid(pid, None) {
        tracing::debug!(%errno, "the sandbox was collected already");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
