//! Commands on a pseudo-terminal of their own.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::SandboxedExecutor;
use super::attached::nothing;
use super::child::SandboxChild;
use crate::executor::engine::{Launched, Outcome};
use crate::executor::{BashProcess, BoxFuture, ExecError, ExecSpec, ProcessStatus, RunResult};
use crate::kernel;
use crate::launcher::Terminal;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    /// 80 by 24.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// A command running on a pseudo-terminal inside its sandbox.
///
/// It has the terminal as standard input, output, error and controlling terminal, so job control and `/dev/tty` work. What
/// it writes reaches the caller raw: a caller that shows it to a person passes it through
/// [`TerminalFilter`](crate::output::TerminalFilter) first. Output must be read, else the command waits. Dropping the
/// handle hangs the terminal up.
pub struct PtyProcess {
    terminal: AsyncFd<OwnedFd>,
    child: Arc<SandboxChild>,
    process: Arc<dyn BashProcess>,
    /// A copy of what was read: evidence for denials. `None` at the end of output.
    copy: Mutex<Option<File>>,
}

impl std::fmt::Debug for PtyProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PtyProcess").field("status", &self.process.status()).finish_non_exhaustive()
    }
}

impl SandboxedExecutor {
    /// Starts a command on a terminal of its own; no time limit applies. `stdin` of the spec is not used.
    ///
    /// In its result, `stdout` is empty and `stderr` holds the end of what the terminal showed, as far as it was read.
    ///
    /// # Errors
    /// As [`start`](crate::executor::BashExecutor::start): infrastructure only.
    pub async fn start_pty(&self, spec: ExecSpec, size: TerminalSize) -> Result<PtyProcess, ExecError> {
        self.start_pty_beside(spec, size, [None, None, None]).await
    }

    /// As [`start_pty`](Self::start_pty), with descriptors of the caller's in place of the terminal where there are some:
    /// a pipe stays a pipe for the command, and a terminal of the caller's never reaches it.
    ///
    /// # Errors
    /// As [`start_pty`](Self::start_pty).
    pub async fn start_pty_beside(
        &self,
        spec: ExecSpec,
        size: TerminalSize,
        stdio: [Option<OwnedFd>; 3],
    ) -> Result<PtyProcess, ExecError> {
        let ticket = self.engine.admit(&spec)?;
        let began = Instant::now();
        let null = File::open("/dev/null").map_err(|source| ExecError::io("opening /dev/null", source))?;
        let null = OwnedFd::from(null);
        let stands_for = stdio.each_ref().map(Option::is_none);
        let terminal = Terminal { columns: size.columns, rows: size.rows, stands_for };
        let passed = stdio.each_ref().map(|fd| fd.as_ref().unwrap_or(&null));
        let (child, mut context) = self.launch_with(passed, &spec, Some(terminal)).await?;
        drop(stdio);
        let terminal = context.terminal.take();
        let terminal = terminal.ok_or_else(|| ExecError::SandboxLost { reason: "it has no terminal".to_owned() })?;
        let setting_up = |source: io::Error| ExecError::io("setting the terminal up", source);
        let terminal = kernel::watch(nonblocking(terminal).map_err(setting_up)?).map_err(setting_up)?;
        let (stderr, copy) = io::pipe().map_err(setting_up)?;
        let copy = nonblocking(copy.into()).map_err(setting_up)?;
        let child = Arc::new(child);
        let launched =
            Launched { child: Arc::clone(&child), stdout: nothing()?, stderr: stderr.into(), stdin: None, began };
        let finish =
            Box::new(move |outcome: Outcome| -> BoxFuture<'static, RunResult> { Box::pin(context.finish(outcome)) });
        let process = self.engine.start(ticket, launched, spec, finish);
        Ok(PtyProcess { terminal, child, process, copy: Mutex::new(Some(copy.into())) })
    }
}

impl PtyProcess {
    /// Types: all of `bytes`, waiting while the terminal's input queue is full.
    ///
    /// # Errors
    /// `EIO` when the command has closed the terminal.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.terminal.writable().await?;
            match ready.try_io(|terminal| Ok(nix::unistd::write(terminal.get_ref(), bytes)?)) {
                Ok(written) => bytes = &bytes[written?..],
                Err(_not_ready) => {}
            }
        }
        Ok(())
    }

    /// What the terminal shows next; 0 when nothing has it open any more.
    ///
    /// # Errors
    /// What the kernel says of the terminal.
    pub async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.terminal.readable().await?;
            match ready.try_io(|terminal| Ok(nix::unistd::read(terminal.get_ref(), into)?)) {
                Ok(Ok(length @ 1..)) => {
                    self.keep(&into[..length]);
                    return Ok(length);
                }
                // Linux says EIO when the last descriptor of the other side is closed.
                Ok(Err(error)) if error.raw_os_error() != Some(Errno::EIO as i32) => return Err(error),
                Ok(_) => {
                    *self.copy() = None;
                    return Ok(0);
                }
                Err(_not_ready) => {}
            }
        }
    }

    /// Tells the command that the terminal has another size; its foreground group gets SIGWINCH.
    ///
    /// # Errors
    /// What the kernel says of the terminal.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_col: size.columns, ws_row: size.rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(self.terminal.get_ref(), size)?)
    }

    /// Signals the process group of the command itself. What runs in the foreground is reached by typing: Ctrl-C is
    /// `\x03`.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// Where it stands now.
    #[must_use]
    pub fn status(&self) -> ProcessStatus {
        self.process.status()
    }

    /// Resolves when it has ended.
    ///
    /// # Errors
    /// When it could not be followed to its end.
    pub async fn done(&self) -> Result<RunResult, ExecError> {
        self.process.done().await
    }

    /// Hangs up, then ends it as any command: SIGTERM, grace, SIGKILL to all it started. `false` when it had ended already.
    pub async fn kill(&self) -> bool {
        // An interactive shell ignores SIGTERM and obeys this.
        self.signal(Signal::SIGHUP);
        self.process.kill().await
    }

    /// The owner token it was started with.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.process.owner()
    }

    /// Evidence that finds no room is not waited for.
    fn keep(&self, bytes: &[u8]) {
        if let Some(copy) = &mut *self.copy()
            && let Err(error) = copy.write_all(bytes)
        {
            tracing::debug!(%error, "part of a terminal's output is not kept as evidence");
        }
    }

    fn copy(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(fd)
}
