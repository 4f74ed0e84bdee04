//! Reads audit records from the kernel's multicast log.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt,
};

use super::parser::{self, Joiner, Refusal};
use super::status::status;
use crate::denial::Observation;

/// `AUDIT_NLGRP_READLOG` as a bit.
const READ_LOG: u32 = 1;
/// `sizeof(struct nlmsghdr)`.
pub(super) const HEADER: usize = 16;
/// A record is at most 8970 bytes.
pub(super) const BUFFER: usize = 16 * 1024;
/// Room for bursts, bytes.
const SOCKET_BUFFER: usize = 4 << 20;
/// Refusals kept for runs that have not asked for theirs.
const MAX_KEPT: usize = 4096;
/// Domains whose first process is remembered.
const MAX_DOMAINS: usize = 4096;

/// Whether the audit witness can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditState {
    /// The log can be read, and auditing is on (or, without `CAP_AUDIT_CONTROL`, cannot be asked about).
    Readable,
    /// `CAP_AUDIT_READ` is missing, or this is not the first user namespace.
    NoPermission,
    /// The log can be read, and auditing is off.
    Disabled,
    /// This kernel has no audit.
    NotCompiled,
}

/// What the audit witness says of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditRecord {
    /// The refusals, in the kernel's order.
    pub observations: Vec<Observation>,
    /// Records that are known to be lost since the reader was opened, of whichever run. Above zero, silence proves
    /// nothing.
    pub lost: u64,
}

/// Looks whether the log can be read and auditing is on. Changes nothing.
#[must_use]
pub fn available() -> AuditState {
    let reader = match AuditReader::open() {
        Ok(reader) => reader,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::EPROTONOSUPPORT) => AuditState::NotCompiled,
                _ => AuditState::NoPermission,
            };
        }
    };
    drop(reader);
    match status() {
        Ok(status) if status.enabled == 0 => AuditState::Disabled,
        _ => AuditState::Readable,
    }
}

pub(super) fn open(groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkAudit)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// Type and body of a netlink message. Audit's messages come one to a datagram, and the length in the header of some
/// leaves the header itself out, so the datagram's own length counts.
pub(super) fn message(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, body) = datagram.split_first_chunk::<HEADER>()?;
    Some((u16::from_ne_bytes([header[4], header[5]]), body))
}

/// An open log. Records that come while it is open wait in its socket until [`read`](Self::read).
#[derive(Debug)]
pub struct AuditReader {
    socket: OwnedFd,
    joiner: Joiner,
    domains: HashMap<u64, u32>,
    kept: VecDeque<Refusal>,
    lost: u64,
    lost_before: Option<u32>,
}

impl AuditReader {
    /// Joins the log's multicast group.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` without audit in the kernel, `EPERM` without `CAP_AUDIT_READ`.
    pub fn open() -> io::Result<Self> {
        let socket = open(READ_LOG)?;
        // Beyond the ordinary limit only with privilege; a smaller buffer shows as lost records.
        if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER)?;
        }
        Ok(Self {
            socket,
            joiner: Joiner::default(),
            domains: HashMap::new(),
            kept: VecDeque::new(),
            lost: 0,
            lost_before: status().ok().map(|status| status.lost),
        })
    }

    /// Readable when records wait.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes in the records that wait. Does not block.
    ///
    /// # Errors
    /// When the socket fails for another reason than an overrun, which is counted.
    pub fn read(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(count) => count,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => {
                    self.lost += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let record = message(&buffer[..count]).and_then(|(kind, body)| parser::parse(kind, body));
            if let Some(record) = record {
                if let Some((domain, pid)) = parser::domain(&record) {
                    if self.domains.len() >= MAX_DOMAINS {
                        self.domains.clear();
                    }
                    self.domains.insert(domain, pid);
                }
                for event in self.joiner.add(record) {
                    self.keep(&event);
                }
            }
        }
    }

    fn keep(&mut self, event: &[parser::Record]) {
        for refusal in parser::refusals(event) {
            if self.kept.len() >= MAX_KEPT {
                self.kept.pop_front();
                self.lost += 1;
            }
            self.kept.push_back(refusal);
        }
    }

    /// Reads what waits and hands out what belongs to one run: refusals of the domain that process `entered` (as the
    /// host numbers it) created, and of processes for which `belongs` is true.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn take(&mut self, entered: u32, belongs: impl Fn(u32) -> bool) -> io::Result<AuditRecord> {
        self.read()?;
        for event in self.joiner.flush() {
            self.keep(&event);
        }
        let of_run = |refusal: &Refusal| match refusal.domain {
            Some(domain) => self.domains.get(&domain) == Some(&entered),
            None => refusal.pid.is_some_and(&belongs),
        };
        let (own, others) = std::mem::take(&mut self.kept).into_iter().partition::<VecDeque<_>, _>(of_run);
        self.kept = others;
        let kernel = match (self.lost_before, status()) {
            (Some(before), Ok(now)) => u64::from(now.lost.wrapping_sub(before)),
            _ => 0,
        };
        let mut observations: Vec<_> = own.into_iter().map(|refusal| refusal.observation).collect();
        observations.sort_by_key(|observation| observation.seq);
        Ok(AuditRecord { observations, lost: self.lost + kernel })
    }
}
