//! Giving the caller's terminal back when this process is killed.
//!
//! SIGKILL leaves nobody to do it, so a second process holds the terminal beside the first and waits for the end of a
//! socket between the two. It is in a session of its own: a signal to the job does not reach it, and the kernel lets it
//! set a terminal that is not its controlling one whoever is in the foreground. It sets only what is still as it was left,
//! raw: a shell that has taken its terminal back by itself is not disturbed.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

use super::exit::Failure;

/// Name of the hidden command that is the second process.
pub(crate) const NAME: &str = "guard-terminal";
/// What it says once it would survive the job.
const READY: u8 = b'+';
/// The line that tells it that the terminal has been given back.
const DONE: &[u8] = b".\n";
/// How long its start is waited for.
const START: Duration = Duration::from_secs(5);

/// A process that gives the terminal back when this one is killed.
pub(crate) struct Guard {
    child: Child,
    line: UnixStream,
    /// What it would write to the screen.
    reset: Vec<u8>,
}

impl Guard {
    /// Starts one for a terminal that has its own settings still; `None` when it is no terminal.
    pub(crate) fn start(terminal: &impl AsFd) -> Option<Self> {
        tcgetattr(terminal).ok()?;
        Self::spawn(terminal)
            .inspect_err(|error| tracing::warn!(%error, "SIGKILL would leave the terminal raw: it has no guard"))
            .ok()
    }

    fn spawn(terminal: &impl AsFd) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg(NAME)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(terminal.as_fd().try_clone_to_owned()?)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, line, reset: Vec::new() })
    }

    /// Waits until it has seen the terminal's own settings.
    pub(crate) fn await_start(&mut self) {
        let mut started = || {
            self.line.set_read_timeout(Some(START))?;
            let mut said = [0];
            self.line.read_exact(&mut said)?;
            // It reads at once whatever it is sent, so that a full socket means that it is stopped: never wait for it.
            self.line.set_nonblocking(true)
        };
        if let Err(error) = started() {
            tracing::warn!(%error, "SIGKILL would leave the terminal raw: its guard did not start");
        }
    }

    /// Tells it what undoes the modes that the screen is in now.
    pub(crate) fn remember(&mut self, reset: &[u8]) {
        if self.reset != reset {
            reset.clone_into(&mut self.reset);
            self.tell(&[reset, b"\n"].concat());
        }
    }

    /// Ends it: the terminal has been given back.
    pub(crate) fn dismiss(mut self) {
        self.tell(DONE);
        drop(self.line);
        if let Err(error) = self.child.wait() {
            tracing::debug!(%error, "the guard of the terminal was not awaited");
        }
    }

    fn tell(&mut self, message: &[u8]) {
        if let Err(error) = self.line.write_all(message) {
            tracing::debug!(%error, "the guard of the terminal was not told");
        }
    }
}

/// What the second process does: its standard input is the socket, its standard output the terminal.
pub(crate) fn guard() -> Result<ExitCode, Failure> {
    watch().map_err(|error| Failure::cannot(format!("the terminal cannot be guarded: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn watch() -> io::Result<()> {
    nix::unistd::setsid()?;
    let terminal = io::stdout();
    let before = tcgetattr(&terminal)?;
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.write_all(&[READY])?;
    let mut reset = Vec::new();
    let mut lines = BufReader::new(line);
    loop {
        let mut said = Vec::new();
        // An error, too, means that there is nobody to say anything more.
        let length = lines.read_until(b'\n', &mut said).unwrap_or(0);
        match said.strip_suffix(b"\n") {
            _ if said == DONE => return Ok(()),
            Some(sequences) if length > 0 => sequences.clone_into(&mut reset),
            _ => break,
        }
    }
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    if tcgetattr(&terminal)? == raw {
        tcsetattr(&terminal, SetArg::TCSANOW, &before)?;
        terminal.lock().write_all(&reset)?;
        terminal.lock().flush()?;
    }
    Ok(())
}
