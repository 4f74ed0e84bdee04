//! Installing seccomp filters (seccomp(2)).

use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use seccompiler::sock_filter;

/// Mirrors `struct sock_fprog` of linux/filter.h.
#[repr(C)]
struct Program {
    len: libc::c_ushort,
    filter: *const sock_filter,
}

fn install(program: &[sock_filter], flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::E2BIG)?;
    let program = Program { len, filter: program.as_ptr() };
    // SAFETY: the program points at `len` live instructions, which the kernel copies and verifies.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    Errno::result(result)
}

/// Adds a filter to this thread. `no_new_privs` must be set.
///
/// # Errors
/// `EACCES` without `no_new_privs`, `EINVAL` for a program the verifier refuses.
pub(crate) fn install_filter(program: &[sock_filter]) -> Result<(), Errno> {
    install(program, 0).map(drop)
}

/// Adds a filter and returns the descriptor on which its notifications are received.
///
/// # Errors
/// `EBUSY` when a filter of this task has a listener already (a task can have one only).
pub(crate) fn install_filter_with_listener(program: &[sock_filter]) -> Result<OwnedFd, Errno> {
    let fd = install(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
