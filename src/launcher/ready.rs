//! The sandbox that is built ahead of time.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;

use super::protocol::{Call, Order};
use super::wire::{self, WireError};
use crate::kernel;
use crate::plan::{SandboxPlan, Shape};

/// A sandbox whose foundation stands and which waits for its order.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) shape: Shape,
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    inbox: OwnedFd,
}

impl Ready {
    /// The two ends of an inbox: ours, and the one for the sandbox.
    pub(super) fn inbox() -> Result<(OwnedFd, OwnedFd), Errno> {
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
    }

    pub(super) const fn new(shape: Shape, pid: Pid, pidfd: OwnedFd, inbox: OwnedFd) -> Self {
        Self { shape, pid, pidfd, inbox }
    }

    /// Hands the order over.
    pub(super) fn order(&self, plan: SandboxPlan, call: Option<Call>, fds: &[RawFd]) -> Result<(), WireError> {
        wire::send(&self.inbox, &Order { plan, call }, fds)
    }

    /// Ends it unused.
    pub(super) fn discard(self) {
        if let Err(errno) = kernel::pidfd_kill(&self.pidfd) {
            tracing::debug!(%errno, "the prepared sandbox was gone already");
        }
    }
}

/// The host's mount table: a sandbox that was built before it changed shows the tree as it was.
#[derive(Debug)]
pub(super) struct MountTable(File);

impl MountTable {
    pub(super) fn watch() -> std::io::Result<Self> {
        File::open("/proc/self/mountinfo").map(Self)
    }
}

impl AsFd for MountTable {
    /// Polls with `POLLPRI` once for each change (proc_pid_mounts(5)).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
