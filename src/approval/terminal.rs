//! An approver on the controlling terminal.
//!
//! It talks to `/dev/tty`, so that redirected standard streams, which may belong to a protocol or to the command, stay
//! out of it. What was typed before the question does not answer it; anything but a plain yes is a no; and when the
//! terminal cannot be used properly nothing is allowed.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, Asks, escape_block, escape_line};
use crate::denial::Grant;

/// How often a waiting prompt looks whether it was withdrawn, milliseconds.
const CANCEL_CHECK_MS: u16 = 100;
/// Longest answer looked at, bytes.
const ANSWER_MAX: usize = 64;

/// Asks the person at the terminal, one question at a time.
#[derive(Debug)]
pub struct TerminalApprover {
    device: PathBuf,
    turn: tokio::sync::Mutex<()>,
}

impl Default for TerminalApprover {
    fn default() -> Self {
        Self::on("/dev/tty")
    }
}

impl TerminalApprover {
    /// An approver on another terminal device than the controlling one.
    #[must_use]
    pub fn on(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into(), turn: tokio::sync::Mutex::new(()) }
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async move {
            let _turn = tokio::select! {
                turn = self.turn.lock() => turn,
                () = cancel.cancelled() => return ApprovalOutcome::Cancelled,
            };
            let (device, text) = (self.device.clone(), prompt(request));
            // A child token, cancelled too when this future is dropped, so that no prompt outlives its question.
            let withdrawn = cancel.child_token();
            let _guard = withdrawn.clone().drop_guard();
            let (said, answer) = oneshot::channel();
            // The person may have gone: then nobody waits for what is said here.
            let prompt = move || drop(said.send(converse(&device, &text, &withdrawn)));
            let unavailable = |error: &dyn std::fmt::Display| ApprovalOutcome::Unavailable {
                reason: format!("the terminal failed: {error}"),
            };
            // Not the runtime's own threads, which panic where the host has none to give.
            if let Err(error) = std::thread::Builder::new().name("prompt".to_owned()).spawn(prompt) {
                return unavailable(&error);
            }
            match answer.await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => unavailable(&error),
                Err(_) => unavailable(&"the prompt broke off"),
            }
        })
    }
}

fn converse(device: &PathBuf, text: &str, withdrawn: &CancellationToken) -> std::io::Result<ApprovalOutcome> {
    let mut tty = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(device)?;
    if in_background(&tty)? {
        let reason = "this process is in the background of its terminal".to_owned();
        return Ok(ApprovalOutcome::Unavailable { reason });
    }
    // Fails on what is not a terminal, which is then no place to ask.
    tcflush(&tty, FlushArg::TCIFLUSH)?;
    tty.write_all(text.as_bytes())?;
    let outcome = answer(&mut tty, withdrawn)?;
    let closing = match &outcome {
        ApprovalOutcome::AllowedOnce => "allowed once\n",
        ApprovalOutcome::Rejected { .. } => "not allowed\n",
        ApprovalOutcome::Cancelled | ApprovalOutcome::Unavailable { .. } => "\nwithdrawn\n",
    };
    tty.write_all(closing.as_bytes())?;
    Ok(outcome)
}

/// A background process that reads its terminal is stopped by SIGTTIN instead of getting an answer.
fn in_background(tty: &File) -> std::io::Result<bool> {
    match nix::unistd::tcgetpgrp(tty) {
        Ok(foreground) => Ok(foreground != nix::unistd::getpgrp()),
        // Not our controlling terminal: job control does not apply to us there.
        Err(Errno::ENOTTY) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads to the end of the line, giving up when the question is withdrawn.
fn answer(tty: &mut File, withdrawn: &CancellationToken) -> std::io::Result<ApprovalOutcome> {
    let mut line = Vec::new();
    loop {
        if withdrawn.is_cancelled() {
            return Ok(ApprovalOutcome::Cancelled);
        }
        let ready = {
            let mut waiting = [PollFd::new(tty.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::from(CANCEL_CHECK_MS)) {
                Ok(n) => n > 0,
                Err(Errno::EINTR) => false,
                Err(errno) => return Err(errno.into()),
            }
        };
        if !ready {
            continue;
        }
        let mut byte = [0];
        if tty.read(&mut byte)? == 0 {
            return Ok(ApprovalOutcome::Rejected { reason: None });
        }
        match byte[0] {
            // A terminal in raw mode sends CR.
            b'\n' | b'\r' => break,
            other if line.len() < ANSWER_MAX => line.push(other),
            _ => {}
        }
    }
    // Withdrawn between the last look and the Enter key: the asker is gone.
    if withdrawn.is_cancelled() {
        return Ok(ApprovalOutcome::Cancelled);
    }
    let said = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
    let yes = line.len() < ANSWER_MAX && matches!(said.as_str(), "y" | "yes");
    Ok(if yes { ApprovalOutcome::AllowedOnce } else { ApprovalOutcome::Rejected { reason: None } })
}

/// The question, every foreign character in it made harmless.
fn prompt(request: &ApprovalRequest) -> String {
    let mut lines = vec![
        String::new(),
        format!("stockade: session {} asks to run, once:", escape_line(&request.session)),
        escape_block(&request.command, "    | "),
    ];
    if let Some(workdir) = &request.workdir {
        lines.push(format!("  in         {}", escape_line(&workdir.display().to_string())));
    }
    if request.background {
        lines.push("  how        in the background, without a time limit".to_owned());
    }
    lines.push(format!("  mode now   {}", request.mode));
    match &request.asks {
        Asks::Mode(mode) if mode.confines() => {
            let workspace = escape_line(&request.workspace.display().to_string());
            lines.push(format!("  asks for   {mode} (workspace {workspace})"));
        }
        Asks::Mode(mode) => lines.push(format!("  asks for   {mode}: NO CONFINEMENT AT ALL")),
        Asks::Extra { grant, protected } => {
            lines.extend(grant_lines(grant));
            for path in protected {
                let path = escape_line(&path.display().to_string());
                lines.push(format!("  PROTECTED  {path}: what is written here can make other programs run code later"));
            }
        }
    }
    lines.push(format!("  because    {}", escape_line(&request.justification)));
    if request.grounds.is_empty() {
        lines.push("  denied     nothing so far: this is asked up front".to_owned());
    }
    for denial in &request.grounds {
        lines.push(format!("  denied     {} {}", denial.kind, escape_line(&denial.target())));
    }
    lines.push("Allow this one run? [y/N] ".to_owned());
    lines.join("\n")
}

fn grant_lines(grant: &Grant) -> Vec<String> {
    let paths = |what: &'static str, list: &[PathBuf]| {
        list.iter()
            .map(|path| format!("  asks to {what:<5} {}", escape_line(&path.display().to_string())))
            .collect::<Vec<_>>()
    };
    let mut lines = paths("write", &grant.write);
    lines.extend(paths("read", &grant.read));
    lines.extend(grant.network.iter().map(|entry| format!("  asks to reach {}", escape_line(entry))));
    lines
}
