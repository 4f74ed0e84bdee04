//! What the kernel says of a call's arguments before it looks at what they name: such a call fails whoever allows it.
//!
//! Asked only of calls that the policy would refuse, so that nobody can feign a refusal by a call that never came to one.
//! The order is that of Linux 6.18; `tests/trace_hostile.rs` compares it with the errno the caller got.
#![forbid(unsafe_code)]

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt};
use nix::sys::stat::Mode;
use syscalls::Sysno;

use super::calls::{Request, low};
use super::examine::Trouble;
use super::files::{O_CREAT, O_PATH, O_TMPFILE};
use super::process;
use crate::kernel::notify;

#[cfg(target_arch = "x86_64")]
const O_DIRECTORY: u32 = 0o200_000;
#[cfg(target_arch = "aarch64")]
const O_DIRECTORY: u32 = 0o40_000;
const NOFOLLOW_OR_EMPTY: u32 = 0x1100;
/// `XATTR_SIZE_MAX` and `XATTR_NAME_MAX`.
const MAX_ATTRIBUTE: u64 = 65536;
const MAX_ATTRIBUTE_NAME: usize = 255;
/// `MSG_FASTOPEN`: the one way in which sending on a stream connects it.
const FAST_OPEN: u32 = 0x2000_0000;
/// Descriptors of a process that are counted to see whether it may have one more. Who may have more is taken to have room.
const MAX_COUNTED: usize = 4096;

/// True when the call fails for its arguments' sake.
pub(crate) fn fail(tid: u32, call: Sysno, a: &[u64; 6]) -> bool {
    match call {
        Sysno::openat => open_flags(low(a[2])) || table_is_full(tid),
        Sysno::openat2 => table_is_full(tid),
        Sysno::renameat2 => rename_flags(low(a[4])),
        Sysno::linkat => low(a[4]) & !0x1400 != 0,
        Sysno::unlinkat => low(a[2]) & !0x200 != 0,
        Sysno::fchownat | Sysno::file_setattr => low(a[4]) & !NOFOLLOW_OR_EMPTY != 0,
        Sysno::fchmodat2 => low(a[3]) & !NOFOLLOW_OR_EMPTY != 0,
        Sysno::setxattrat | Sysno::removexattrat => low(a[2]) & !NOFOLLOW_OR_EMPTY != 0,
        Sysno::utimensat => low(a[3]) & !NOFOLLOW_OR_EMPTY != 0 || times(tid, a[2], Unit::Nanoseconds),
        Sysno::truncate => a[1].cast_signed() < 0,
        Sysno::mknodat => node_type(low(a[2])),
        Sysno::symlinkat => link_text(tid, a[0]),
        Sysno::setxattr | Sysno::lsetxattr | Sysno::fsetxattr => attribute(tid, a),
        Sysno::removexattr | Sysno::lremovexattr | Sysno::fremovexattr => attribute_name(tid, a[1]),
        _ => legacy(tid, call, a),
    }
}

#[cfg(target_arch = "x86_64")]
fn legacy(tid: u32, call: Sysno, a: &[u64; 6]) -> bool {
    match call {
        Sysno::open => open_flags(low(a[1])) || table_is_full(tid),
        Sysno::creat => table_is_full(tid),
        Sysno::mknod => node_type(low(a[1])),
        Sysno::symlink => link_text(tid, a[0]),
        Sysno::utimes => times(tid, a[1], Unit::Microseconds),
        Sysno::futimesat => times(tid, a[2], Unit::Microseconds),
        // `struct utimbuf`: two words, any value.
        Sysno::utime => a[1] != 0 && process::exactly::<16>(tid, a[1]) == Err(Errno::EFAULT),
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn legacy(_: u32, _: Sysno, _: &[u64; 6]) -> bool {
    false
}

/// True when a socket call fails because its descriptor is none, no socket, or one that does not do what is asked of it.
pub(crate) fn fail_on_socket(tid: u32, request: &Request) -> bool {
    let (fd, address, flags) = match *request {
        Request::Connect { fd, address, .. } | Request::Bind { fd, address, .. } => (fd, address, None),
        Request::SendTo { fd, address, flags, .. } => (fd, address, Some(flags)),
        Request::SendMsg { fd, header, flags } | Request::SendMmsg { fd, headers: header, flags, .. } => {
            // `msg_name` is the first member.
            let address = process::exactly::<8>(tid, header).map_or(0, u64::from_ne_bytes);
            (fd, address, Some(flags))
        }
        _ => return false,
    };
    match nix::fcntl::readlink(format!("/proc/{tid}/fd/{fd}").as_str()) {
        Ok(text) if !text.as_encoded_bytes().starts_with(b"socket:") => return true,
        Err(Errno::ENOENT) => return true,
        _ => {}
    }
    unsuitable(tid, fd, address, flags).unwrap_or(false)
}

/// Whether the socket takes no address of that family, or is a stream that sends without connecting. `None` when it cannot
/// be looked at.
fn unsuitable(tid: u32, fd: i32, address: u64, sends: Option<u32>) -> Option<bool> {
    let leader = || notify::pidfd_open(process::identity(tid)?.tgid).ok();
    let process = notify::thread_pidfd(tid).ok().or_else(leader)?;
    let copy = notify::pidfd_getfd(process.as_fd(), fd).ok()?;
    let stream = getsockopt(&copy, sockopt::SockType).ok()? == SockType::Stream;
    let own = getsockname::<SockaddrStorage>(copy.as_raw_fd()).ok()?.family()?;
    if stream && sends.is_some_and(|flags| flags & FAST_OPEN == 0) && own != AddressFamily::Unix {
        return Some(address != 0);
    }
    let family = i32::from(u16::from_ne_bytes(process::exactly::<2>(tid, address).ok()?));
    let takes = |one: AddressFamily| own == one && family == one as i32;
    let fits = takes(AddressFamily::Inet)
        || takes(AddressFamily::Unix)
        || (own == AddressFamily::Inet6 && [libc::AF_INET, libc::AF_INET6].contains(&family));
    Some(!fits)
}

fn open_flags(flags: u32) -> bool {
    if flags & O_PATH != 0 {
        return false;
    }
    let temporary = flags & O_TMPFILE != 0;
    let odd = temporary && (flags & (O_DIRECTORY | O_CREAT) != O_DIRECTORY || flags & 0o3 == 0);
    odd || (flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY && creating_directories_is_refused())
}

/// Before Linux 6.4 such an open made a file. `/` is there, so nothing can be made of this one.
fn creating_directories_is_refused() -> bool {
    static REFUSED: OnceLock<bool> = OnceLock::new();
    let flags = OFlag::O_CREAT | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    *REFUSED.get_or_init(|| open("/", flags, Mode::empty()).is_err_and(|errno| errno == Errno::EINVAL))
}

const fn rename_flags(flags: u32) -> bool {
    flags & !7 != 0 || (flags & 2 != 0 && flags & 5 != 0)
}

/// Nothing but files, devices, FIFOs and sockets is made by `mknod`.
const fn node_type(mode: u32) -> bool {
    !matches!(mode & libc::S_IFMT, 0 | libc::S_IFREG | libc::S_IFCHR | libc::S_IFBLK | libc::S_IFIFO | libc::S_IFSOCK)
}

/// The text of a symbolic link is read first.
fn link_text(tid: u32, address: u64) -> bool {
    match process::path(tid, address) {
        Ok(text) => text.is_empty(),
        Err(errno) => Trouble::of_memory(errno) == Trouble::Fails,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanoseconds,
    Microseconds,
}

/// Times that cannot be read, are none, or ask for no change.
fn times(tid: u32, address: u64, unit: Unit) -> bool {
    const NOW: i64 = 0x3FFF_FFFF;
    const OMIT: i64 = 0x3FFF_FFFE;
    if address == 0 {
        return false;
    }
    let words = match process::exactly::<32>(tid, address) {
        Ok(words) => words,
        Err(errno) => return errno == Errno::EFAULT,
    };
    let parts = [8, 24].map(|at: usize| words[at..].first_chunk().map_or(0, |bytes| i64::from_ne_bytes(*bytes)));
    match unit {
        Unit::Microseconds => parts.iter().any(|part| !(0..1_000_000).contains(part)),
        Unit::Nanoseconds => {
            parts == [OMIT; 2]
                || parts.iter().any(|part| !(0..1_000_000_000).contains(part) && ![NOW, OMIT].contains(part))
        }
    }
}

fn attribute(tid: u32, a: &[u64; 6]) -> bool {
    /// `XATTR_CREATE` and `XATTR_REPLACE`.
    const FLAGS: u32 = 3;
    let (value, size) = (a[2], a[3]);
    if low(a[4]) & !FLAGS != 0 || attribute_name(tid, a[1]) || size > MAX_ATTRIBUTE {
        return true;
    }
    let Ok(size) = usize::try_from(size) else { return true };
    size > 0 && process::bytes(tid, value, size).map_or_else(|errno| errno == Errno::EFAULT, |read| read.len() < size)
}

fn attribute_name(tid: u32, address: u64) -> bool {
    match process::path(tid, address) {
        Ok(name) => name.is_empty() || name.len() > MAX_ATTRIBUTE_NAME,
        Err(errno) => Trouble::of_memory(errno) == Trouble::Fails,
    }
}

/// True when the process has as many descriptors open as it may: an open gets its number before anything else.
fn table_is_full(tid: u32) -> bool {
    let most = fs::read_to_string(format!("/proc/{tid}/limits")).ok();
    let most = most.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Max open files")));
    let Some(most) = most.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()) else { return false };
    if most > MAX_COUNTED {
        return false;
    }
    let below = |name: &Path| name.to_str().and_then(|name| name.parse::<usize>().ok()).is_some_and(|fd| fd < most);
    let table = fs::read_dir(format!("/proc/{tid}/fd"));
    table.is_ok_and(|table| table.flatten().filter(|entry| below(Path::new(&entry.file_name()))).count() >= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_the_kernel_refuses() {
        assert!(open_flags(O_TMPFILE | O_DIRECTORY) && open_flags(O_TMPFILE | 2));
        assert!(!open_flags(O_TMPFILE | O_DIRECTORY | 2) && !open_flags(O_CREAT | 1));
        assert!(!open_flags(O_PATH | O_CREAT | O_DIRECTORY));
        for (flags, refused) in [(0, false), (1, false), (2, false), (3, true), (5, false), (6, true), (8, true)] {
            assert_eq!(rename_flags(flags), refused, "{flags}");
        }
        assert!(node_type(libc::S_IFDIR) && node_type(libc::S_IFLNK) && !node_type(libc::S_IFIFO) && !node_type(0o600));
    }

    #[test]
    fn the_descriptors_of_this_process_leave_room() {
        assert!(!table_is_full(std::process::id()));
    }
}
