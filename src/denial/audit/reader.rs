//! Reads audit records from the kernel's multicast log.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use caps::{CapSet, Capability};
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
/// Refusals kept of one run, and of domains that no run is known for.
const MAX_KEPT: usize = 4096;
/// Domains whose first process is remembered.
const MAX_DOMAINS: usize = 4096;

/// Whether the audit witness can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditState {
    /// The log can be read, and auditing is on (or, without `CAP_AUDIT_CONTROL`, cannot be asked about).
    Readable,
    /// `CAP_AUDIT_READ` is missing, or this is not the first user, PID and network namespace.
    NoPermission,
    /// The log can be read, and auditing is off.
    Disabled,
    /// This kernel has no audit.
    NotCompiled,
}

impl std::fmt::Display for AuditState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Readable => "auditing is on, and its records can be read",
            Self::NoPermission => "its records may not be read: CAP_AUDIT_READ or the first namespaces are missing",
            Self::Disabled => "its records could be read, but auditing is off",
            Self::NotCompiled => "this kernel has no audit",
        })
    }
}

/// What the audit witness says of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditRecord {
    /// The refusals, in the kernel's order.
    pub observations: Vec<Observation>,
    /// Records that are known to be lost since the run was entered, of whichever process. Above zero, silence proves
    /// nothing.
    pub lost: u64,
    /// Records of refused calls whose process had ended before it could be found out whose it was. They may belong to this
    /// run or to anybody.
    pub unplaced: u64,
    /// Auditing was off when the run ended, by whatever hand.
    pub off: bool,
}

impl AuditState {
    /// Whether the audit witness can be had. Changes nothing.
    ///
    /// Asked about before each executor's first run, so the cheapest question comes first.
    #[must_use]
    pub fn detect() -> Self {
        detect()
    }
}

fn detect() -> AuditState {
    /// Inode of the first PID namespace (`PROC_PID_INIT_INO`): records number processes as it does.
    const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
    if !caps::has_cap(None, CapSet::Effective, Capability::CAP_AUDIT_READ).unwrap_or(false) {
        return AuditState::NoPermission;
    }
    let here = std::fs::metadata("/proc/self/ns/pid").map(|meta| meta.ino());
    if here.is_ok_and(|inode| inode != FIRST_PID_NAMESPACE) {
        return AuditState::NoPermission;
    }
    // The log is sent to the first network namespace alone.
    let network = |pid: &str| std::fs::metadata(format!("/proc/{pid}/ns/net")).map(|meta| meta.ino()).ok();
    if network("1").is_some_and(|first| network("self") != Some(first)) {
        return AuditState::NoPermission;
    }
    match open(READ_LOG) {
        Ok(socket) => drop(socket),
        Err(Errno::EPROTONOSUPPORT) => return AuditState::NotCompiled,
        Err(_) => return AuditState::NoPermission,
    }
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

/// A run whose refusals are collected.
#[derive(Debug, Default)]
struct Entered {
    kept: Vec<Refusal>,
    /// Records that were lost before it began.
    lost_before: u64,
    /// Records without an owner that were there before it began.
    unplaced_before: u64,
}

/// An open log. Records that come while it is open wait in its socket until [`read`](Self::read).
#[derive(Debug)]
pub struct AuditReader {
    socket: OwnedFd,
    joiner: Joiner,
    /// The process that began each domain.
    domains: HashMap<u64, u32>,
    /// By the process that entered the domain.
    runs: HashMap<u32, Entered>,
    /// Refusals of domains that no run is known for yet.
    waiting: VecDeque<Refusal>,
    overruns: u64,
    /// Seccomp records of processes that had ended when they were read.
    unplaced: u64,
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
            runs: HashMap::new(),
            waiting: VecDeque::new(),
            overruns: 0,
            unplaced: 0,
        })
    }

    /// Begins to collect for the run whose domain process `entered` (as the host numbers it) has entered or is about to.
    pub fn enter(&mut self, entered: u32) {
        let run = Entered { kept: Vec::new(), lost_before: self.lost(), unplaced_before: self.unplaced };
        self.runs.insert(entered, run);
        // What came before it was told of.
        for refusal in std::mem::take(&mut self.waiting) {
            self.keep_one(refusal);
        }
    }

    /// Records lost so far: overruns of the socket, and what the kernel says it dropped.
    fn lost(&self) -> u64 {
        self.overruns + status().map_or(0, |status| u64::from(status.lost))
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
                    self.overruns += 1;
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
            self.keep_one(refusal);
        }
    }

    fn keep_one(&mut self, refusal: Refusal) {
        let owner = match refusal.domain {
            Some(domain) => self.domains.get(&domain).copied(),
            // A seccomp record names no domain: its process has to be a run's, or to descend from it.
            None => refusal.pid.and_then(|pid| ancestor(pid, |pid| self.runs.contains_key(&pid))),
        };
        if let Some(run) = owner.and_then(|owner| self.runs.get_mut(&owner)) {
            if run.kept.len() < MAX_KEPT {
                run.kept.push(refusal);
            } else {
                self.overruns += 1;
            }
        } else if refusal.domain.is_some() {
            // Its run may not have been told of yet; other programs' domains fall out at the end.
            if self.waiting.len() >= MAX_KEPT {
                self.waiting.pop_front();
            }
            self.waiting.push_back(refusal);
        } else if refusal.pid.is_some_and(is_gone) {
            self.unplaced += 1;
        }
    }

    /// Reads what waits and hands out what belongs to a run, which is then no longer collected for.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn take(&mut self, entered: u32) -> io::Result<AuditRecord> {
        self.read()?;
        for event in self.joiner.flush() {
            self.keep(&event);
        }
        self.domains.retain(|_, pid| *pid != entered);
        let Some(run) = self.runs.remove(&entered) else { return Ok(AuditRecord::default()) };
        let mut observations: Vec<_> = run.kept.into_iter().map(|refusal| refusal.observation).collect();
        observations.sort_by_key(|observation| observation.seq);
        let off = status().is_ok_and(|status| status.enabled == 0);
        let lost = self.lost().saturating_sub(run.lost_before);
        Ok(AuditRecord { observations, lost, unplaced: self.unplaced.saturating_sub(run.unplaced_before), off })
    }
}

/// True when no process has this number any longer.
fn is_gone(pid: u32) -> bool {
    !std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// The nearest process, from this one upwards, that `is` holds for. `None` too when the process is gone.
fn ancestor(pid: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
    /// A run is no deeper than this below its first process.
    const DEPTH: usize = 64;
    let parent = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok())
    };
    std::iter::successors(Some(pid), parent).take(DEPTH).find(|pid| is(*pid))
}
