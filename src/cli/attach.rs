//! Wiring a command to our own standard input, output and error.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::Signal;
use nix::sys::stat::{SFlag, fstat};
use stockade::sandboxed::Attachment;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;

use super::exit::Failure;
use super::exit::say;

/// Our descriptors for the command, our signals passed on, and a copy of standard error where taking one changes nothing
/// that anybody can see.
pub(crate) fn attachment() -> Result<(Attachment, Forwarders), Failure> {
    let (outputs, forwarders) = outputs()?;
    let Outputs { stdout, stderr, stderr_copy } = outputs;
    let [stdout, stderr] = [
        stdout.map_or_else(|| copy_of(&std::io::stdout()), Ok)?,
        stderr.map_or_else(|| copy_of(&std::io::stderr()), Ok)?,
    ];
    let stdio = [copy_of(&std::io::stdin())?, stdout, stderr];
    Ok((Attachment { stdio, stderr_copy, signals: signals()? }, forwarders))
}

pub(crate) fn copy_of(fd: &dyn AsFd) -> Result<OwnedFd, Failure> {
    fd.as_fd().try_clone_to_owned().map_err(cannot_pass)
}

fn cannot_pass(error: std::io::Error) -> Failure {
    Failure::cannot(format!("a standard descriptor cannot be passed on: {error}"))
}

/// Puts a pipe in place of a file on standard input. A confined command must not hold the file itself: through the
/// descriptor it could change its mode and owner, or the whole host beneath a directory.
pub(crate) fn relay_standard_input() -> Result<(), Failure> {
    if !is_file(&std::io::stdin()) {
        return Ok(());
    }
    let mut file = std::fs::File::from(copy_of(&std::io::stdin())?);
    let (reader, mut writer) = std::io::pipe().map_err(cannot_pass)?;
    let copy = move || {
        // A command that stops reading ends the copy, and so does the end of this process.
        if let Err(error) = std::io::copy(&mut file, &mut writer) {
            tracing::debug!(%error, "standard input was not read to its end");
        }
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(copy).map_err(cannot_pass)?;
    nix::unistd::dup2_stdin(reader).map_err(|errno| cannot_pass(errno.into()))
}

fn is_file(fd: &dyn AsFd) -> bool {
    fstat(fd.as_fd()).is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG)
}

/// What the command writes to where a pipe has to stand in for ours; `None` leaves ours.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) stderr_copy: Option<OwnedFd>,
}

/// Pipes in place of files, and one in place of standard error where its copy can be taken unseen.
pub(crate) fn outputs() -> Result<(Outputs, Forwarders), Failure> {
    let mut outputs = Outputs::default();
    let mut forwarders = Forwarders::default();
    if is_file(&std::io::stdout()) {
        let (command, forwarder) = Forwarder::start(copy_of(&std::io::stdout())?, None).map_err(cannot_pass)?;
        if are_the_same() {
            // One pipe for both keeps the order of what is written.
            outputs.stderr = Some(command.try_clone().map_err(cannot_pass)?);
        }
        outputs.stdout = Some(command);
        forwarders.0.push(forwarder);
    }
    if outputs.stderr.is_none() && !std::io::stderr().is_terminal() && !are_the_same() {
        let (copy, to_copy) = std::io::pipe().map_err(cannot_pass)?;
        let (command, forwarder) =
            Forwarder::start(copy_of(&std::io::stderr())?, Some(to_copy)).map_err(cannot_pass)?;
        (outputs.stderr, outputs.stderr_copy) = (Some(command), Some(copy.into()));
        forwarders.0.push(forwarder);
    }
    Ok((outputs, forwarders))
}

/// Where standard output and error are the same file, the order of what is written to them must stay what it is.
fn are_the_same() -> bool {
    match (fstat(std::io::stdout()), fstat(std::io::stderr())) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => true,
    }
}

/// A thread that hands on what the command writes, and keeps a copy where one is wanted.
struct Forwarder(std::thread::JoinHandle<()>);

/// All of them.
#[derive(Default)]
pub(crate) struct Forwarders(Vec<Forwarder>);

impl Forwarder {
    fn start(real: OwnedFd, mut to_copy: Option<std::io::PipeWriter>) -> std::io::Result<(OwnedFd, Self)> {
        let (mut from_command, command) = std::io::pipe()?;
        let thread = std::thread::Builder::new().name("forward".to_owned()).spawn(move || {
            let mut real = std::fs::File::from(real);
            let mut buffer = [0_u8; 64 * 1024];
            let mut showing = true;
            while let Ok(length @ 1..) = from_command.read(&mut buffer) {
                // Whoever has stopped listening is not written to again; the command must never block for it.
                showing = showing && real.write_all(&buffer[..length]).is_ok();
                if to_copy.as_mut().is_some_and(|copy| copy.write_all(&buffer[..length]).is_err()) {
                    to_copy = None;
                }
            }
        })?;
        Ok((command.into(), Self(thread)))
    }
}

impl Forwarders {
    /// Waits until everything has been handed on.
    pub(crate) fn finish(self) {
        for Forwarder(thread) in self.0 {
            if thread.join().is_err() {
                say!("stockade: forwarding what the command wrote failed");
            }
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
