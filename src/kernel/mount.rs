//! The mount calls of Linux 5.2 to 5.12, by descriptor (open_tree(2), move_mount(2), fsopen(2), mount_setattr(2)).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Attributes to add to and take from a mount.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MountAttr {
    /// `MOUNT_ATTR_*` bits to set.
    pub(crate) set: u64,
    /// `MOUNT_ATTR_*` bits to clear.
    pub(crate) clear: u64,
    /// Make it private, so that nothing propagates either way.
    pub(crate) private: bool,
}

impl MountAttr {
    /// Read-only.
    pub(crate) const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
    /// Setuid bits and file capabilities are ignored.
    pub(crate) const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
    /// Device nodes cannot be opened.
    pub(crate) const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
    /// Nothing can be executed.
    pub(crate) const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
}

/// Mirrors `struct mount_attr` of linux/mount.h.
#[repr(C)]
struct RawMountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn mount_setattr(dir: RawFd, path: &CStr, flags: libc::c_uint, attr: MountAttr) -> Result<(), Errno> {
    let raw = RawMountAttr {
        attr_set: attr.set,
        attr_clr: attr.clear,
        propagation: if attr.private { libc::MS_PRIVATE } else { 0 },
        userns_fd: 0,
    };
    // SAFETY: the path is a C string and the attributes are a live struct of the size that is passed.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, dir, path.as_ptr(), flags, &raw const raw, size_of::<RawMountAttr>())
    };
    Errno::result(result).map(drop)
}

const EMPTY_PATH: libc::c_uint = 0x1000;
const RECURSIVE: libc::c_uint = 0x8000;

/// Changes one mount, given a descriptor of its root.
pub(crate) fn set_mount_attr(mount: impl AsFd, attr: MountAttr) -> Result<(), Errno> {
    mount_setattr(mount.as_fd().as_raw_fd(), c"", EMPTY_PATH, attr)
}

/// Changes a mount and every mount beneath it.
pub(crate) fn set_mount_attr_beneath(mount: impl AsFd, attr: MountAttr) -> Result<(), Errno> {
    mount_setattr(mount.as_fd().as_raw_fd(), c"", EMPTY_PATH | RECURSIVE, attr)
}

/// A detached copy of the mount tree at `path` (an open `O_PATH` descriptor), with its submounts.
pub(crate) fn clone_tree(path: impl AsFd, recursive: bool) -> Result<OwnedFd, Errno> {
    let mut flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | EMPTY_PATH;
    if recursive {
        flags |= RECURSIVE;
    }
    // SAFETY: the path is an empty C string; the descriptor is borrowed for the whole call.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, path.as_fd().as_raw_fd(), c"".as_ptr(), flags) };
    owned(fd)
}

/// Attaches a detached mount on top of `target` (an open `O_PATH` descriptor).
pub(crate) fn move_mount_onto(mount: impl AsFd, target: impl AsFd) -> Result<(), Errno> {
    let empty = c"".as_ptr();
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    let (from, to): (BorrowedFd<'_>, BorrowedFd<'_>) = (mount.as_fd(), target.as_fd());
    // SAFETY: both paths are empty C strings and both descriptors are borrowed for the whole call.
    let result = unsafe { libc::syscall(libc::SYS_move_mount, from.as_raw_fd(), empty, to.as_raw_fd(), empty, flags) };
    Errno::result(result).map(drop)
}

/// Attaches a detached mount on top of `name` in an open directory. A symbolic link of that name is not followed.
pub(crate) fn move_mount_in(mount: impl AsFd, directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let (from, to): (BorrowedFd<'_>, BorrowedFd<'_>) = (mount.as_fd(), directory.as_fd());
    let (empty, flags) = (c"".as_ptr(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths are C strings and both descriptors are borrowed for the whole call.
    let result =
        unsafe { libc::syscall(libc::SYS_move_mount, from.as_raw_fd(), empty, to.as_raw_fd(), name.as_ptr(), flags) };
    Errno::result(result).map(drop)
}

/// A file system being configured, before it is mounted.
#[derive(Debug)]
pub(crate) struct FsContext(OwnedFd);

/// Starts configuring a new instance of the named file system.
pub(crate) fn fs_context(name: &CStr) -> Result<FsContext, Errno> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), libc::FSOPEN_CLOEXEC) };
    owned(fd).map(FsContext)
}

impl FsContext {
    /// Sets one option.
    pub(crate) fn set(&self, key: &CStr, value: &CStr) -> Result<(), Errno> {
        self.config(libc::FSCONFIG_SET_STRING, Some(key), Some(value))
    }

    /// Makes the superblock and returns it as a detached mount with the given `MOUNT_ATTR_*` bits.
    pub(crate) fn mount(self, attributes: u64) -> Result<OwnedFd, Errno> {
        self.config(libc::FSCONFIG_CMD_CREATE, None, None)?;
        // SAFETY: no memory is passed; the context descriptor is owned by self.
        let fd = unsafe { libc::syscall(libc::SYS_fsmount, self.0.as_raw_fd(), libc::FSMOUNT_CLOEXEC, attributes) };
        owned(fd)
    }

    fn config(&self, command: libc::c_uint, key: Option<&CStr>, value: Option<&CStr>) -> Result<(), Errno> {
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: key and value are C strings or null, as the command wants them.
        let result =
            unsafe { libc::syscall(libc::SYS_fsconfig, self.0.as_raw_fd(), command, pointer(key), pointer(value), 0) };
        Errno::result(result).map(drop)
    }
}

fn owned(fd: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
