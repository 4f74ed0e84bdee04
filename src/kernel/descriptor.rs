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

/// Marks every descriptor from `first` upward close-on-exec (`close_range(2)`, Linux 5.11; before, one by one), so that
/// none reaches the program while the caller can still use its own until then.
///
/// # Errors
/// Where the call is unknown and `/proc/self/fd` cannot be read either.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    match mark_span(first) {
        // EINVAL: Linux 5.9 and 5.10 know the call and not its flag.
        Err(Errno::EINVAL | Errno::ENOSYS) => mark_each(first),
        result => result,
    }
}

fn mark_span(first: u32) -> Result<(), Errno> {
    // SAFETY: marking descriptors close-on-exec touches no memory and leaves every descriptor usable.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(result).map(drop)
}

fn mark_each(first: u32) -> Result<(), Errno> {
    let unreadable = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    for entry in std::fs::read_dir("/proc/self/fd").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let number: RawFd = name.to_str().and_then(|text| text.parse().ok()).ok_or(Errno::EIO)?;
        if u32::try_from(number).is_ok_and(|number| number >= first) {
            // EBADF: it has been closed, and is not inherited either.
            mark(number).or_else(|errno| if errno == Errno::EBADF { Ok(()) } else { Err(errno) })?;
        }
    }
    Ok(())
}

fn mark(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: setting a flag of a descriptor touches no memory and leaves it usable by whoever owns it.
    let result = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
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

#[cfg(test)]
mod tests {
    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    #[test]
    fn one_by_one_marks_what_the_call_marks_at_once() {
        for marks in [mark_span, mark_each] {
            let file = std::fs::File::open("/dev/null").unwrap();
            let inherited = |fcntl_flags: i32| fcntl_flags & libc::FD_CLOEXEC == 0;
            fcntl(&file, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
            let first = u32::try_from(file.as_raw_fd()).unwrap();
            marks(first + 1).unwrap();
            assert!(inherited(fcntl(&file, FcntlArg::F_GETFD).unwrap()), "the control: below the first");
            marks(first).unwrap();
            assert!(!inherited(fcntl(&file, FcntlArg::F_GETFD).unwrap()));
        }
    }
}
