//! Opening, making and sealing the places where mounts go.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};

use super::step::StepError;
use crate::kernel::{self, MountAttr};

/// Opens a path as it is, through no symbolic link.
pub(super) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(nix::fcntl::AT_FDCWD, path, how)
}

/// A fresh tmpfs, detached.
pub(super) fn tmpfs(mode: &str, size: u64) -> Result<OwnedFd, Errno> {
    let context = kernel::fs_context(c"tmpfs")?;
    context.set(c"mode", &text(mode)?)?;
    context.set(c"size", &text(&size.to_string())?)?;
    context.mount(MountAttr::NOSUID | MountAttr::NODEV)
}

fn text(value: &str) -> Result<CString, Errno> {
    CString::new(value).map_err(|_| Errno::EINVAL)
}

/// A new empty file to mount something on.
pub(super) fn create_file(directory: impl AsFd, name: impl AsRef<OsStr>, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    openat(directory, name.as_ref(), flags, Mode::from_bits_truncate(mode))
}

/// Makes a mount of our own read-only.
pub(super) fn seal(mount: &OwnedFd) -> Result<(), StepError> {
    let set = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC;
    Ok(kernel::set_mount_attr(mount, MountAttr { set, ..MountAttr::default() })?)
}

/// Opens a mount point, making what is missing of it. Only directories of our own are writable at this moment on the
/// way to it, so nothing can be made elsewhere.
pub(super) fn make_target(path: &Path, directory: bool) -> Result<OwnedFd, Errno> {
    let mut at = open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut next = names.next();
    while let Some(name) = next {
        next = names.next();
        at = match open_beneath(&at, name) {
            Err(Errno::ENOENT) => {
                let made = if next.is_some() || directory {
                    mkdirat(&at, name, Mode::from_bits_truncate(0o755))
                } else {
                    create_file(&at, name, 0o444).map(drop)
                };
                match made {
                    // Another sandbox of the session, whose `/tmp` is this one's too, makes the same way just now.
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(errno),
                }
                open_beneath(&at, name)?
            }
            found => found?,
        };
    }
    Ok(at)
}

/// Opens what lies in an open directory, through no symbolic link.
pub(super) fn open_beneath(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(directory, name, how)
}
