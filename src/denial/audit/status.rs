//! The state of the kernel's audit: asked for, and changed only by whoever holds an [`AuditSwitch`].
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

use super::guard::Guard;
use super::reader::{BUFFER, HEADER, message, open};

/// `AUDIT_GET`: asks for the state; the answer has the same type.
const GET: u16 = 1000;
/// `AUDIT_SET`.
const SET: u16 = 1001;
/// `NLM_F_REQUEST`, and `NLM_F_ACK`.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// `NLMSG_ERROR`; its code is 0 in an acknowledgement.
const ERROR: u16 = 2;
/// `AUDIT_STATUS_ENABLED`: the bit that says which field a change is about.
const CHANGE_ENABLED: u32 = 1;
/// Offsets in `struct audit_status`, and its size up to the field that Linux 3.13 had last.
const STATUS_ENABLED: usize = 4;
const STATUS_LOST: usize = 24;
const STATUS_BACKLOG: usize = 28;
const STATUS_SIZE: usize = 32;
/// How long the kernel may take to answer, milliseconds.
const PATIENCE_MS: u16 = 1000;

/// What the kernel says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// 0 off, 1 on, 2 on until the next boot.
    pub(super) enabled: u32,
    /// Records lost since boot.
    pub(super) lost: u32,
    /// Records that wait to be sent.
    pub(super) backlog: u32,
}

/// One request and its answer, on a socket of its own so that no record is among them.
fn ask(kind: u16, flags: u16, body: &[u8]) -> Result<Option<Status>, Errno> {
    let socket = open(0)?;
    let length = u32::try_from(HEADER + body.len()).map_err(|_| Errno::EMSGSIZE)?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((REQUEST | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut wanted, PollTimeout::from(PATIENCE_MS))? == 0 {
            return Err(Errno::ETIMEDOUT);
        }
        let count = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let Some((answer, body)) = message(&buffer[..count]) else { continue };
        let word = |at: usize| body.get(at..).and_then(|b| b.first_chunk::<4>()).map(|b| u32::from_ne_bytes(*b));
        let state = || {
            let (lost, backlog) = (word(STATUS_LOST)?, word(STATUS_BACKLOG)?);
            Some(Status { enabled: word(STATUS_ENABLED)?, lost, backlog })
        };
        match (answer, word(0), state()) {
            (GET, _, Some(state)) => return Ok(Some(state)),
            (ERROR, Some(0), _) if flags & ACKNOWLEDGE != 0 => return Ok(None),
            (ERROR, Some(code), _) if code != 0 => return Err(Errno::from_raw(code.cast_signed().wrapping_neg())),
            _ => {}
        }
    }
}

/// The state. Needs `CAP_AUDIT_CONTROL`.
pub(super) fn status() -> Result<Status, Errno> {
    ask(GET, 0, &[])?.ok_or(Errno::EPROTO)
}

fn set_enabled(enabled: u32) -> Result<(), Errno> {
    let mut body = [0; STATUS_SIZE];
    body[..4].copy_from_slice(&CHANGE_ENABLED.to_ne_bytes());
    body[STATUS_ENABLED..STATUS_ENABLED + 4].copy_from_slice(&enabled.to_ne_bytes());
    ask(SET, ACKNOWLEDGE, &body).map(drop)
}

/// Turns auditing off by system calls alone: no answer is waited for and nothing is allocated.
fn turn_off_plainly() {
    const LENGTH: u32 = 48;
    const { assert!(LENGTH as usize == HEADER + STATUS_SIZE) };
    let mut request = [0_u8; HEADER + STATUS_SIZE];
    request[..4].copy_from_slice(&LENGTH.to_ne_bytes());
    let parts = [(4, SET.to_ne_bytes()), (6, REQUEST.to_ne_bytes())];
    for (at, bytes) in parts {
        request[at..at + 2].copy_from_slice(&bytes);
    }
    request[HEADER..HEADER + 4].copy_from_slice(&CHANGE_ENABLED.to_ne_bytes());
    if let Ok(socket) = open(0) {
        let mut tries = 0;
        while send(socket.as_raw_fd(), &request, MsgFlags::empty()).is_err() && tries < 100 {
            tries += 1;
        }
    }
}

/// Auditing turned on for the whole host, until this is dropped or this process ends, however it ends. Only for an option
/// by which the user asked for it: without a daemon that reads them, the host's records go to the kernel log meanwhile.
#[derive(Debug)]
#[must_use = "auditing is turned off again when this is dropped"]
pub struct AuditSwitch {
    /// `None` where it was on already.
    guard: Option<Guard>,
}

impl AuditSwitch {
    /// Turns auditing on where it is off.
    ///
    /// # Errors
    /// `EPERM` without `CAP_AUDIT_CONTROL`, `EPROTONOSUPPORT` without audit in the kernel.
    pub fn on() -> io::Result<Self> {
        if status()?.enabled != 0 {
            return Ok(Self { guard: None });
        }
        // Before the change, so that there is no moment at which nobody would undo it.
        let guard = Guard::start(turn_off_plainly)?;
        set_enabled(1)?;
        Ok(Self { guard: Some(guard) })
    }
}

impl Drop for AuditSwitch {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        match set_enabled(0) {
            Ok(()) => {
                if let Err(error) = guard.dismiss() {
                    tracing::warn!(%error, "the guard of the audit switch is gone");
                }
            }
            Err(error) => tracing::error!(%error, "auditing could not be turned off again; `auditctl -e 0` does it"),
        }
    }
}
