//! Seccomp user notifications, and the calls that look at a process whose system call is pending.
//!
//! Everything here returns what the kernel said. Nothing is decided.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): the waiter is woken on the notifier's own CPU.
const SYNC_WAKE_UP: u64 = 1;
/// `PIDFD_INFO_EXIT` (Linux 6.15): the exit status, kept for whoever holds a pidfd when the task is reaped.
const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)` at the structure's first published size of 64 bytes.
const PIDFD_GET_INFO: libc::c_ulong = (3 << 30) | (64 << 16) | (0xFF << 8) | 11;
/// `STATX_ATTR_MOUNT_ROOT` (Linux 5.8).
const MOUNT_ROOT: u64 = 0x2000;
/// `STATX_MNT_ID` (Linux 5.8).
const STATX_MNT_ID: u32 = 0x1000;

/// One system call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    /// Cookie of this call; valid until answered or its process dies.
    pub(crate) id: u64,
    /// Thread id as this process's PID namespace numbers it; 0 when it cannot be seen from here.
    pub(crate) tid: u32,
    /// `AUDIT_ARCH_*`.
    pub(crate) arch: u32,
    /// System call number.
    pub(crate) nr: i32,
    /// Arguments as the registers held them.
    pub(crate) args: [u64; 6],
}

/// Room for this kernel's `seccomp_notif`, which may be longer than the one known here.
#[repr(C)]
struct NotifBuffer {
    notif: libc::seccomp_notif,
    spare: [u64; 32],
}

/// `struct pidfd_info` as first published.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

fn last_error_if(failed: bool) -> io::Result<()> {
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sizes of `seccomp_notif` and `seccomp_notif_resp` in the running kernel, checked against the room kept for them.
pub(crate) fn check_sizes() -> io::Result<()> {
    let mut sizes = libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes one `seccomp_notif_sizes`, and `sizes` is one that outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0_u32, &raw mut sizes) };
    last_error_if(rc != 0)?;
    if usize::from(sizes.seccomp_notif) > size_of::<NotifBuffer>()
        || usize::from(sizes.seccomp_notif_resp) != size_of::<libc::seccomp_notif_resp>()
    {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel's seccomp notifications have another layout",
        ));
    }
    Ok(())
}

/// Takes the next waiting call. `ENOENT` when it vanished in between.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    let mut buffer = NotifBuffer {
        notif: libc::seccomp_notif {
            id: 0,
            pid: 0,
            flags: 0,
            data: libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] },
        },
        spare: [0; 32],
    };
    // SAFETY: `check_sizes` made sure that the kernel's structure fits into the zeroed buffer, which outlives the call.
    let rc = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut buffer) };
    last_error_if(rc != 0)?;
    let notif = &buffer.notif;
    Ok(Notification { id: notif.id, tid: notif.pid, arch: notif.data.arch, nr: notif.data.nr, args: notif.data.args })
}

fn send(listener: BorrowedFd<'_>, response: &mut libc::seccomp_notif_resp) -> io::Result<()> {
    // SAFETY: the kernel reads one `seccomp_notif_resp`, whose size `check_sizes` compared, through a live reference.
    let rc = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut *response) };
    last_error_if(rc != 0)
}

/// Lets the kernel carry the call out, or refuse it, as if nobody had looked.
pub(crate) fn respond_continue(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
    send(listener, &mut libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
}

/// Answers the call with a positive errno; it is not carried out.
pub(crate) fn respond_errno(listener: BorrowedFd<'_>, id: u64, errno: i32) -> io::Result<()> {
    send(listener, &mut libc::seccomp_notif_resp { id, val: 0, error: -errno, flags: 0 })
}

/// True while the call still waits, so that what was read of its process was read of the right one.
pub(crate) fn id_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one u64 through a live reference.
    let rc = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
    rc == 0
}

/// Takes one descriptor out of one message of a socket.
pub(crate) fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
    let mut byte = [0_u8; 1];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut received = message.cmsgs()?.filter_map(|part| match part {
        ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
        _ => None,
    });
    let raw = received.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    // SAFETY: the kernel has just installed this descriptor for this message, which has room for one, and nothing
    // else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Asks for synchronous wake-ups. `EINVAL` before Linux 6.6.
pub(crate) fn set_sync_wake_up(listener: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the flags are passed by value; no memory is touched.
    let rc = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    last_error_if(rc != 0)
}

/// Reads another process's memory into `into`; the count may be short where a mapping ends.
pub(crate) fn read_memory(tid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    /// Largest page of the supported architectures: a piece never crosses a boundary of this size.
    const PAGE: usize = 4096;
    let pid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let start = usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let first = (PAGE - start % PAGE).min(into.len());
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // Pieces are transferred whole or not at all, so the buffer is cut at the page boundary.
    let remote = [
        libc::iovec { iov_base: start as *mut libc::c_void, iov_len: first },
        libc::iovec { iov_base: start.wrapping_add(first) as *mut libc::c_void, iov_len: into.len() - first },
    ];
    let pieces = if remote[1].iov_len == 0 { 1 } else { 2 };
    // SAFETY: the one local piece is `into`, borrowed mutably; remote addresses are the other process's and are
    // checked by the kernel.
    let count = unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), pieces, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// A descriptor for a process (thread-group leader).
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    open_pidfd(pid, 0)
}

/// A descriptor for one thread, whose table of descriptors may be its own. `EINVAL` before Linux 6.9.
pub(crate) fn thread_pidfd(tid: u32) -> io::Result<OwnedFd> {
    // `PIDFD_THREAD` has the value of `O_EXCL`.
    open_pidfd(tid, libc::O_EXCL)
}

fn open_pidfd(number: u32, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) };
    owned(fd)
}

/// A duplicate of another process's descriptor. Never used on anything but sockets, whose duplicates have no effect.
pub(crate) fn pidfd_getfd(pidfd: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0_u32) };
    owned(fd)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let raw = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    last_error_if(raw < 0)?;
    // SAFETY: the kernel has just returned this descriptor to this thread, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Wait status of a process that has been reaped; `None` while it lives or where the kernel (before 6.15) cannot tell.
pub(crate) fn pidfd_exit(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request number carries the size of `info`, 64 bytes, and the kernel writes no more than that.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (rc == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// What `access(W_OK)` says of the object behind an `O_PATH` descriptor: `EACCES` from its permission bits, `EROFS`
/// from its mount. Landlock is not asked by this call.
pub(crate) fn writable(object: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the path is a static, terminated, empty string; the rest are integers.
    let rc = unsafe { libc::syscall(libc::SYS_faccessat2, object.as_raw_fd(), c"".as_ptr(), libc::W_OK, flags) };
    last_error_if(rc != 0)
}

/// Not by the C library's function: the standard library names that weakly, and after whole-program optimisation a static
/// program then has none of it, and jumps to address 0 (Rust 1.95, glibc 2.36).
fn statx(dir: BorrowedFd<'_>, name: &CStr, flags: i32, mask: u32) -> io::Result<libc::statx> {
    let mut info = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: `name` is terminated, and the kernel writes one `statx` into zeroed room that outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_statx, dir.as_raw_fd(), name.as_ptr(), flags, mask, info.as_mut_ptr()) };
    last_error_if(rc != 0)?;
    // SAFETY: every byte was zeroed before the kernel wrote to it, and any bytes are a valid `statx`.
    Ok(unsafe { info.assume_init() })
}

/// True when `name` in `dir` is the root of a mount (so that removing or renaming it gives `EBUSY`).
pub(crate) fn is_mount_root(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let info = statx(dir, name, libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT, 0)?;
    Ok(info.stx_attributes & MOUNT_ROOT != 0)
}

/// Id of the mount that an open object was reached through (Linux 5.8).
pub(crate) fn mount_id(object: BorrowedFd<'_>) -> io::Result<u64> {
    let info = statx(object, c"", libc::AT_EMPTY_PATH, STATX_MNT_ID)?;
    if info.stx_mask & STATX_MNT_ID == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    Ok(info.stx_mnt_id)
}
