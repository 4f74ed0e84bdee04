//! Whether a file call is refused by the sandbox, and with which errno.
//!
//! The order of checks is the kernel's (fs/namei.c, fs/open.c, fs/attr.c of Linux 6.18), because a call that fails
//! for another reason first is an ordinary failure and no denial. Measured against the errno the caller really got in
//! `tests/trace_files.rs`.
#![forbid(unsafe_code)]

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use nix::sys::statfs::fstatfs;
use nix::sys::statvfs::FsFlags;

use super::resolve::{Existing, Located, Place};
use super::watch::Watch;
use crate::denial::{DenialKind, FileBackend};
use crate::kernel::notify;

const O_ACCMODE: u32 = 0o3;
pub(super) const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: u32 = 0o400_000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: u32 = 0o100_000;
pub(super) const O_PATH: u32 = 0o10_000_000;
pub(super) const O_TMPFILE: u32 = 0o20_000_000;
/// `RENAME_EXCHANGE` and `RENAME_NOREPLACE`.
const RENAME_EXCHANGE: u32 = 2;
const RENAME_NOREPLACE: u32 = 1;

/// A refused file access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: DenialKind,
    pub(crate) path: PathBuf,
    pub(crate) errno: Errno,
}

impl Refusal {
    const fn new(kind: DenialKind, path: PathBuf, errno: Errno) -> Self {
        Self { kind, path, errno }
    }
}

/// True when opening with these flags ends at a link instead of behind it.
pub(crate) const fn open_follows(flags: u32) -> bool {
    flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != (O_CREAT | O_EXCL)
}

/// True when these flags ask for nothing that could be refused as a write.
pub(crate) const fn open_only_reads(flags: u32) -> bool {
    flags & O_PATH != 0 || flags & (O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE) == 0
}

/// `open`, `creat`, `openat2`.
pub(crate) fn open(watch: &Watch, found: &Located, flags: u32) -> Option<Refusal> {
    let (existing, path) = match found {
        Located::Object { found, path } => (Some(found), path.clone()?),
        Located::Name(place) => (place.target.as_ref(), place.path()),
    };
    let Some(existing) = existing else {
        let Located::Name(place) = found else { return None };
        let creates = flags & O_CREAT != 0 && !place.slash;
        return creates.then(|| create(watch, place)).flatten();
    };
    if flags & O_TMPFILE != 0 && existing.is_directory() {
        let errno = refused(watch, &path, &existing.fd)?;
        return Some(Refusal::new(DenialKind::FsCreate, path, errno));
    }
    let exists_already = flags & (O_CREAT | O_EXCL) == (O_CREAT | O_EXCL);
    let writes = flags & (O_ACCMODE | O_TRUNC) != 0;
    if exists_already || existing.is_directory() || existing.is_link() || !writes {
        return None;
    }
    let kind = if flags & O_ACCMODE == 0 { DenialKind::FsTruncate } else { DenialKind::FsWrite };
    let regular = existing.kind() == SFlag::S_IFREG;
    if !regular && matches!(watch.files, FileBackend::Mounts { .. }) {
        // Devices, FIFOs and sockets are written on read-only mounts too.
        return None;
    }
    let errno = refused(watch, &path, &existing.fd)?;
    // Emptying asks the mount before the permission bits, plain writing after them.
    let errno = if flags & O_TRUNC != 0 && regular { errno } else { by_permission(&existing.fd).unwrap_or(errno) };
    Some(Refusal::new(kind, path, errno))
}

/// `mkdir`, `mknod`, `symlink`, the new name of `link`, the name of a bound socket. `directory` names may end in a
/// slash.
pub(crate) fn make(watch: &Watch, found: &Located, directory: bool) -> Option<Refusal> {
    let Located::Name(place) = found else { return None };
    if place.target.is_some() || (place.slash && !directory) {
        return None;
    }
    create(watch, place)
}

/// A device node where names may be made: no rule of Landlock's grants those, and without Landlock the capability is
/// missing.
pub(crate) fn device(watch: &Watch, found: &Located) -> Option<Refusal> {
    let Located::Name(place) = found else { return None };
    if place.target.is_some() || place.slash {
        return None;
    }
    let errno = match watch.files {
        FileBackend::Mounts { landlock: false } => Errno::EPERM,
        FileBackend::Mounts { landlock: true } | FileBackend::Landlock => Errno::EACCES,
    };
    Some(Refusal::new(DenialKind::FsCreate, place.path(), errno))
}

fn create(watch: &Watch, place: &Place) -> Option<Refusal> {
    let path = place.path();
    let errno = refused(watch, &path, &place.directory)?;
    Some(Refusal::new(DenialKind::FsCreate, path, errno))
}

/// `link`: the new name; and, where that may be written, the boundary between two mounts of one file system.
pub(crate) fn link(watch: &Watch, old: &Located, new: &Located) -> Option<Refusal> {
    let (existing, old_path) = match old {
        Located::Object { found, path } => (found, path.clone()?),
        Located::Name(place) => (place.target.as_ref()?, place.path()),
    };
    if existing.is_directory() {
        return make(watch, new, false);
    }
    if let Some(refusal) = make(watch, new, false) {
        return Some(refusal);
    }
    let Located::Name(place) = new else { return None };
    let leaves = place.target.is_none() && !watch.may_write(&old_path);
    let across = match watch.files {
        FileBackend::Mounts { .. } => leaves && across_mounts(&existing.fd, place),
        // A name in a directory with more rights would give the file these rights.
        FileBackend::Landlock => {
            leaves && !watch.left_open(&old_path) && mount_of(&existing.fd) == mount_of(&place.directory)
        }
    };
    across.then(|| Refusal::new(DenialKind::FsCreate, place.path(), Errno::EXDEV))
}

/// `unlink`, `rmdir`. A read-only mount answers before the name is looked up; what is not there was not refused.
pub(crate) fn remove(watch: &Watch, found: &Located, directory: bool) -> Option<Refusal> {
    let Located::Name(place) = found else { return None };
    let target = place.target.as_ref()?;
    if target.is_directory() != directory {
        return None;
    }
    let path = place.path();
    let errno = leaving(watch, place, &path)?;
    // A directory that holds something is not removed, pinned or not.
    if directory && errno == Errno::EBUSY && holds_something(&target.fd) {
        return None;
    }
    Some(Refusal::new(DenialKind::FsRemove, path, errno))
}

/// `rename` in all its forms.
pub(crate) fn rename(watch: &Watch, old: &Located, new: &Located, flags: u32) -> Option<Refusal> {
    let (Located::Name(from), Located::Name(to)) = (old, new) else { return None };
    let moved = from.target.as_ref()?;
    let missing = flags & RENAME_EXCHANGE != 0 && to.target.is_none();
    let taken = flags & RENAME_NOREPLACE != 0 && to.target.is_some();
    if missing || taken || ((from.slash || to.slash) && !moved.is_directory()) {
        return None;
    }
    let (from_path, to_path) = (from.path(), to.path());
    let from_errno = leaving(watch, from, &from_path);
    let to_errno = match to.target {
        Some(_) => leaving(watch, to, &to_path),
        None => refused(watch, &to_path, &to.directory),
    };
    let (path, errno) = match (from_errno, to_errno) {
        (Some(errno), _) => (from_path, errno),
        (None, Some(errno)) => (to_path, errno),
        (None, None) => return None,
    };
    // The mounts of the two directories are compared before anything else; two file systems never were one.
    let errno = match mount_of(&from.directory) == mount_of(&to.directory) {
        true => errno,
        false if same_device(&from.directory, &to.directory) => Errno::EXDEV,
        false => return None,
    };
    Some(Refusal::new(DenialKind::FsRename, path, errno))
}

/// `truncate` by path.
pub(crate) fn truncate(watch: &Watch, found: &Located) -> Option<Refusal> {
    let (existing, path) = existing(found)?;
    if existing.kind() != SFlag::S_IFREG {
        return None;
    }
    let errno = refused(watch, &path, &existing.fd)?;
    Some(Refusal::new(DenialKind::FsTruncate, path, errno))
}

/// Mode, owner, times, attributes: the mount is asked first. Landlock does not see them.
pub(crate) fn metadata(watch: &Watch, found: &Located) -> Option<Refusal> {
    let (existing, path) = existing(found)?;
    let errno = refused(watch, &path, &existing.fd)?;
    (errno == Errno::EROFS).then(|| Refusal::new(DenialKind::FsMetadata, path, errno))
}

fn holds_something(directory: &OwnedFd) -> bool {
    let here = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory));
    std::fs::read_dir(here).is_ok_and(|mut entries| entries.next().is_some())
}

fn existing(found: &Located) -> Option<(&Existing, PathBuf)> {
    match found {
        Located::Object { found, path } => Some((found, path.clone()?)),
        Located::Name(place) => {
            let target = place.target.as_ref()?;
            // Something that is no directory, named with a slash: ENOTDIR.
            (!place.slash || target.is_directory()).then(|| (target, place.path()))
        }
    }
}

/// Why a name may not be taken away from where it is.
fn leaving(watch: &Watch, place: &Place, path: &Path) -> Option<Errno> {
    // Taking a name away changes the directory: its mount is asked first, then Landlock, and only then whether something
    // is mounted on the name (`vfs_rename`, `may_delete`: EBUSY), whatever that mount would let be written.
    let directory = path.parent().and_then(|directory| refused(watch, directory, &place.directory));
    let mounted = || pinned(watch, place, path).then_some(Errno::EBUSY);
    directory.or_else(mounted).or_else(|| refused(watch, path, &place.directory))
}

/// The name is a mount point of the sandbox.
fn pinned(watch: &Watch, place: &Place, path: &Path) -> bool {
    let Ok(name) = CString::new(place.name.as_bytes()) else { return false };
    matches!(watch.files, FileBackend::Mounts { .. })
        && watch.rule_beneath(path)
        && notify::is_mount_root(place.directory.as_fd(), &name).unwrap_or(false)
}

/// The errno with which the sandbox refuses to change the object, or a name in the directory, behind `at`.
fn refused(watch: &Watch, path: &Path, at: &OwnedFd) -> Option<Errno> {
    if watch.may_write(path) {
        return None;
    }
    let open = watch.left_open(path);
    match watch.files {
        FileBackend::Mounts { .. } if read_only(at) => Some(Errno::EROFS),
        FileBackend::Mounts { landlock } => (landlock && !open).then_some(Errno::EACCES),
        FileBackend::Landlock => (!open).then_some(Errno::EACCES),
    }
}

fn read_only(at: &OwnedFd) -> bool {
    fstatfs(at).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY))
}

/// What the permission bits say, whatever the mount says.
fn by_permission(at: &OwnedFd) -> Option<Errno> {
    let error = notify::writable(at.as_fd()).err()?;
    (error.raw_os_error() == Some(libc::EACCES)).then_some(Errno::EACCES)
}

fn across_mounts(object: &OwnedFd, place: &Place) -> bool {
    mount_of(object) != mount_of(&place.directory) && same_device(object, &place.directory)
}

/// Mount id of an open object. `None` compares equal to `None`: nothing is then said of a boundary.
fn mount_of(at: &OwnedFd) -> Option<u64> {
    notify::mount_id(at.as_fd()).ok()
}

fn same_device(a: &OwnedFd, b: &OwnedFd) -> bool {
    matches!((fstat(a), fstat(b)), (Ok(a), Ok(b)) if a.st_dev == b.st_dev)
}
