//! What `/proc` and a process's memory say of the process whose call is pending.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use nix::errno::Errno;

use super::calls::AT_FDCWD;
use crate::kernel::notify;

/// Longest path the kernel reads, its end included.
const PATH_MAX: usize = 4096;
/// Most paths are shorter than this; a longer one costs a second read.
const FIRST_READ: usize = 256;

/// Who made a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Thread-group id as the supervisor's PID namespace numbers it.
    pub(crate) tgid: u32,
    /// Thread-group id as the process's own namespace numbers it.
    pub(crate) inner: u32,
    /// Thread id as the process's own namespace numbers it.
    pub(crate) inner_thread: u32,
    /// Effective capabilities.
    pub(crate) capabilities: u64,
    /// Name of the process.
    pub(crate) comm: String,
}

/// Reads a process's identity. `None` when it is gone.
pub(crate) fn identity(tid: u32) -> Option<Identity> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let last = |name: &str| field(name)?.split_whitespace().next_back()?.parse::<u32>().ok();
    let tgid = last("Tgid")?;
    let comm = fs::read(format!("/proc/{tgid}/comm")).ok()?;
    let comm = String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned();
    Some(Identity {
        tgid,
        inner: last("NStgid")?,
        inner_thread: last("NSpid")?,
        capabilities: u64::from_str_radix(field("CapEff")?, 16).ok()?,
        comm,
    })
}

/// Number of seccomp filters a process carries.
pub(crate) fn filters(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok())
}

/// The directory a path argument starts from, by name.
pub(crate) fn directory(tid: u32, dirfd: i32) -> Result<PathBuf, Errno> {
    let link = if dirfd == AT_FDCWD { format!("/proc/{tid}/cwd") } else { format!("/proc/{tid}/fd/{dirfd}") };
    named(&link)
}

/// The text of a `/proc` link that names a file, and not a pipe or something already removed.
pub(crate) fn named(link: &str) -> Result<PathBuf, Errno> {
    let text = PathBuf::from(nix::fcntl::readlink(link)?);
    let bytes = text.as_os_str().as_encoded_bytes();
    if !bytes.starts_with(b"/") {
        return Err(Errno::ENOENT);
    }
    // A name may end so by itself: what is removed has no name left.
    if bytes.ends_with(b" (deleted)") && nix::sys::stat::stat(link)?.st_nlink == 0 {
        return Err(Errno::ENOENT);
    }
    Ok(text)
}

/// Reads bytes; fewer than asked where the mapping ends.
pub(crate) fn bytes(tid: u32, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; length];
    let count = notify::read_memory(tid, address, &mut buffer).map_err(errno)?;
    buffer.truncate(count);
    Ok(buffer)
}

/// Reads exactly so many bytes.
pub(crate) fn exactly<const N: usize>(tid: u32, address: u64) -> Result<[u8; N], Errno> {
    let mut buffer = [0; N];
    let count = notify::read_memory(tid, address, &mut buffer).map_err(errno)?;
    if count == N { Ok(buffer) } else { Err(Errno::EFAULT) }
}

/// Reads a path, which ends at its first NUL.
pub(crate) fn path(tid: u32, address: u64) -> Result<Vec<u8>, Errno> {
    let mut text = bytes(tid, address, FIRST_READ)?;
    if !text.contains(&0) && text.len() == FIRST_READ {
        text = bytes(tid, address, PATH_MAX)?;
    }
    match text.iter().position(|&b| b == 0) {
        Some(end) => text.truncate(end),
        None if text.len() == PATH_MAX => return Err(Errno::ENAMETOOLONG),
        None => return Err(Errno::EFAULT),
    }
    Ok(text)
}

/// The errno in an error of `io`.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
