//! Descriptors that arrive as bare numbers, and descriptors that must not be inherited.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use tokio::io::unix::AsyncFd;

/// Takes ownership of a descriptor that the kernel handed to this process as a number: standard input of a process that
/// has just started, or one received by `SCM_RIGHTS`.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: every caller passes a number that it has just received from the kernel and that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Marks every descriptor from `first` upward close-on-exec (`close_range(2)`, Linux 5.11), so that none reaches the
/// program while the caller can still use its own until then.
///
/// # Errors
/// `ENOSYS` before Linux 5.9, `EINVAL` before 5.11.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: marking descriptors close-on-exec touches no memory and leaves every descriptor usable.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(result).map(drop)
}

/// Closes every descriptor above standard error except `kept`. For a process that has just started and owns no other:
/// whatever its starter leaked ends here.
///
/// # Errors
/// `ENOSYS` before Linux 5.9.
pub(crate) fn close_all_but(kept: &OwnedFd) -> Result<(), Errno> {
    let kept = u32::try_from(kept.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    close_span(3, kept.saturating_sub(1))?;
    close_span(kept + 1, u32::MAX)
}

fn close_span(first: u32, last: u32) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the caller has just started and owns no descriptor in the span, so no owner is left dangling.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    Errno::result(result).map(drop)
}

/// Registers a descriptor with the running tokio reactor.
///
/// # Errors
/// When the reactor cannot take another descriptor.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled, as every tokio resource does.
pub(crate) fn watch(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd keeps the same open descriptor for as long as it is registered.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(Into::into)
}
