//! Installing seccomp filters (seccomp(2)).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
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

/// Whether this kernel was built with seccomp filters (prctl(2), `PR_GET_SECCOMP`).
pub(crate) fn has_seccomp() -> bool {
    // SAFETY: the option takes no argument and only reports this thread's mode.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode >= 0
}

/// Adds a filter to this thread. `no_new_privs` must be set. What a logged filter refuses becomes an audit record, where
/// auditing is on.
///
/// # Errors
/// `EACCES` without `no_new_privs`, `EINVAL` for a program the verifier refuses.
pub(crate) fn install_filter(program: &[sock_filter], logged: bool) -> Result<(), Errno> {
    install(program, if logged { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 }).map(drop)
}

/// Adds a filter and returns the descriptor on which its notifications are received.
///
/// # Errors
/// `EBUSY` when a filter of this task has a listener already (a task can have one only).
pub(crate) fn install_filter_with_listener(program: &[sock_filter]) -> Result<OwnedFd, Errno> {
    // A call whose notification has been taken is not interrupted by signals but fatal ones (Linux 5.19): programs that
    // are signalled often, Go's among them, would otherwise repeat it for ever.
    let unhurried = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let fd = match install(program, unhurried) {
        Err(Errno::EINVAL) => install(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?,
        installed => installed?,
    };
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One `SCM_RIGHTS` control message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Rights {
    header: libc::cmsghdr,
    fd: libc::c_int,
}

/// Sends one descriptor and `frame` over a connected socket by `sendmsg(2)`, with `token` in the sixth argument register.
///
/// The call takes three arguments and the kernel ignores the rest, but a seccomp filter sees all six: so a filter that
/// would stop `sendmsg` can let through the one call that hands out its own listener, by a token that nobody else knows.
///
/// # Errors
/// What the kernel says of the socket.
pub(crate) fn send_descriptor(socket: &OwnedFd, fd: &OwnedFd, frame: &[u8], token: u64) -> Result<(), Errno> {
    let payload = u32::try_from(size_of::<libc::c_int>()).map_err(|_| Errno::EINVAL)?;
    let mut rights = Rights { header: empty_header(payload), fd: fd.as_raw_fd() };
    let mut vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
    let message = message(&mut vector, &mut rights);
    let no_signal = libc::c_long::from(libc::MSG_NOSIGNAL);
    // SAFETY: the message points at one iovec and one control message, all live locals that sendmsg only reads.
    let sent = unsafe {
        libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, no_signal, 0_usize, 0_usize, token)
    };
    Errno::result(sent).map(drop)
}

/// `chdir(2)` with `token` in the sixth argument register, for a filter that lets through the calls that carry it.
///
/// # Errors
/// As chdir(2).
pub(crate) fn chdir_past_filter(path: &CStr, token: u64) -> Result<(), Errno> {
    let path = path.as_ptr();
    // SAFETY: the path is a live string that ends in NUL, which the call only reads.
    let done = unsafe { libc::syscall(libc::SYS_chdir, path, 0_usize, 0_usize, 0_usize, 0_usize, token) };
    Errno::result(done).map(drop)
}

/// `openat(2)` of an absolute path with `token` in the sixth argument register, as [`chdir_past_filter`].
///
/// # Errors
/// As openat(2).
pub(crate) fn open_past_filter(path: &CStr, flags: OFlag, token: u64) -> Result<OwnedFd, Errno> {
    let (path, flags) = (path.as_ptr(), libc::c_long::from(flags.bits()));
    // SAFETY: the path is a live string that ends in NUL, which the call only reads.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, 0_usize, 0_usize, token) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn empty_header(payload: u32) -> libc::cmsghdr {
    // SAFETY: CMSG_LEN is arithmetic on its argument.
    let length = unsafe { libc::CMSG_LEN(payload) };
    libc::cmsghdr { cmsg_len: length as _, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS }
}

fn message(vector: &mut libc::iovec, rights: &mut Rights) -> libc::msghdr {
    // SAFETY: a msghdr of zeros is one without a name, data or control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message.msg_control = std::ptr::from_mut(rights).cast();
    message.msg_controllen = size_of::<Rights>() as _;
    message
}
