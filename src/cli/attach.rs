//! Wiring a command to our own standard input, output and error.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::Signal;
use nix::sys::stat::fstat;
use stockade::sandboxed::Attachment;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;

use super::exit::Failure;

/// Our descriptors for the command, our signals passed on, and a copy of standard error where taking one changes nothing
/// that anybody can see.
pub(crate) fn attachment() -> Result<(Attachment, Option<Forwarder>), Failure> {
    let dup = |fd: &dyn AsFd| {
        let copied = fd.as_fd().try_clone_to_owned();
        copied.map_err(|error| Failure::cannot(format!("a standard descriptor cannot be passed on: {error}")))
    };
    let (stdin, stdout) = (dup(&std::io::stdin())?, dup(&std::io::stdout())?);
    let real = dup(&std::io::stderr())?;
    let (stderr, copy, forwarder) = if can_be_copied() {
        let (command, copy, forwarder) = Forwarder::start(real)
            .map_err(|error| Failure::cannot(format!("standard error cannot be forwarded: {error}")))?;
        (command, Some(copy), Some(forwarder))
    } else {
        (real, None, None)
    };
    Ok((Attachment { stdio: [stdin, stdout, stderr], stderr_copy: copy, signals: signals()? }, forwarder))
}

/// A copy of a descriptor that is no terminal.
pub(crate) fn unless_terminal(fd: impl AsFd + IsTerminal) -> Result<Option<OwnedFd>, Failure> {
    if fd.is_terminal() {
        return Ok(None);
    }
    let copied = fd.as_fd().try_clone_to_owned();
    copied.map(Some).map_err(|error| Failure::cannot(format!("a standard descriptor cannot be passed on: {error}")))
}

/// A terminal must stay one for the command, and where standard output and error are the same file the order of what is
/// written to them must stay what it is.
fn can_be_copied() -> bool {
    if std::io::stderr().is_terminal() {
        return false;
    }
    match (fstat(std::io::stdout()), fstat(std::io::stderr())) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) != (err.st_dev, err.st_ino),
        _ => false,
    }
}

/// A thread that hands standard error on as it comes and keeps a copy.
pub(crate) struct Forwarder(std::thread::JoinHandle<()>);

impl Forwarder {
    fn start(real: OwnedFd) -> std::io::Result<(OwnedFd, OwnedFd, Self)> {
        let (mut from_command, command) = std::io::pipe()?;
        let (copy, mut to_copy) = std::io::pipe()?;
        let thread = std::thread::Builder::new().name("stderr".to_owned()).spawn(move || {
            let mut real = std::fs::File::from(real);
            let mut buffer = [0_u8; 64 * 1024];
            let (mut copying, mut showing) = (true, true);
            while let Ok(length @ 1..) = from_command.read(&mut buffer) {
                // Whoever has stopped listening is not written to again; the command must never block for it.
                showing = showing && real.write_all(&buffer[..length]).is_ok();
                copying = copying && to_copy.write_all(&buffer[..length]).is_ok();
            }
        })?;
        Ok((command.into(), copy.into(), Self(thread)))
    }

    /// Waits until everything has been handed on.
    pub(crate) fn finish(self) {
        if self.0.join().is_err() {
            eprintln!("stockade: forwarding standard error failed");
        }
    }
}

/// Signals that a person or a supervisor sends us are meant for the command.
fn signals() -> Result<tokio::sync::mpsc::UnboundedReceiver<Signal>, Failure> {
    let (sender, receiver) = unbounded_channel();
    let passed_on =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
    for number in passed_on {
        let kind = SignalKind::from_raw(number as i32);
        let mut stream =
            signal(kind).map_err(|error| Failure::cannot(format!("{number} cannot be handled: {error}")))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}
