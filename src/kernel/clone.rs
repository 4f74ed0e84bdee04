//! Creating a process, with or without new namespaces.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::Pid;

/// Which side of a clone the caller is on.
#[derive(Debug)]
pub(crate) enum Cloned {
    /// The new process.
    Child,
    /// The caller, with the child's pid and, when `CLONE_PIDFD` was asked for, its pidfd.
    Parent {
        /// Pid of the child as the caller's PID namespace numbers it.
        pid: Pid,
        /// Descriptor of the child.
        pidfd: Option<OwnedFd>,
    },
}

/// `clone(2)` with a copied address space, like `fork`, plus `flags`.
///
/// The old call rather than `clone3`, so that it also works under filters that answer `ENOSYS` to `clone3`, ours among
/// them. The caller must be single-threaded for the child to be able to use the heap.
///
/// # Errors
/// What the kernel says: `EPERM` or `ENOSPC` where namespaces are refused, `EAGAIN` where processes are.
pub(crate) fn clone_process(flags: CloneFlags, pidfd: bool) -> Result<Cloned, Errno> {
    let mut fd: RawFd = -1;
    let mut bits = libc::c_ulong::from(flags.bits().cast_unsigned()) | SIGCHLD;
    if pidfd {
        bits |= PIDFD;
    }
    let no_stack = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM the child gets a copy of everything, and the only pointer passed is to a live local.
    let pid = unsafe { libc::syscall(libc::SYS_clone, bits, no_stack, &raw mut fd, 0, 0) };
    match Errno::result(pid)? {
        0 => Ok(Cloned::Child),
        pid => Ok(Cloned::Parent {
            pid: Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ERANGE)?),
            pidfd: pidfd.then(|| own(fd)),
        }),
    }
}

const SIGCHLD: libc::c_ulong = 17;
const PIDFD: libc::c_ulong = 0x1000;

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
