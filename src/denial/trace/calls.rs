//! The traced calls: which argument means what.
//!
//! Plain data out of registers. Nothing is read from the process here.
#![forbid(unsafe_code)]

use syscalls::Sysno;

use super::privilege::Privilege;

/// `AT_FDCWD` as a 32-bit register holds it.
pub(crate) const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
const AT_SYMLINK_FOLLOW: u32 = 0x400;
const AT_EMPTY_PATH: u32 = 0x1000;
const AT_REMOVEDIR: u32 = 0x200;

/// Older forms of the path calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
pub(crate) const LEGACY: [Sysno; 13] = [
    Sysno::creat,
    Sysno::mkdir,
    Sysno::rmdir,
    Sysno::unlink,
    Sysno::rename,
    Sysno::link,
    Sysno::symlink,
    Sysno::mknod,
    Sysno::chmod,
    Sysno::chown,
    Sysno::lchown,
    Sysno::utime,
    Sysno::utimes,
];

/// Metadata by descriptor.
pub(crate) const BY_DESCRIPTOR: [Sysno; 4] = [Sysno::fchmod, Sysno::fchown, Sysno::fsetxattr, Sysno::fremovexattr];

/// Calls that are traced whatever their arguments.
pub(crate) const ALWAYS: &[Sysno] = &[
    Sysno::openat2,
    Sysno::mkdirat,
    Sysno::unlinkat,
    Sysno::renameat2,
    Sysno::renameat,
    Sysno::linkat,
    Sysno::symlinkat,
    Sysno::mknodat,
    Sysno::truncate,
    Sysno::fchmodat,
    Sysno::fchmodat2,
    Sysno::fchownat,
    #[cfg(target_arch = "x86_64")]
    Sysno::futimesat,
    Sysno::setxattr,
    Sysno::lsetxattr,
    Sysno::setxattrat,
    Sysno::removexattr,
    Sysno::lremovexattr,
    Sysno::removexattrat,
    Sysno::file_setattr,
    Sysno::connect,
    Sysno::bind,
    Sysno::sendmmsg,
    Sysno::kill,
    // What takes a capability.
    Sysno::setuid,
    Sysno::setgid,
    Sysno::setreuid,
    Sysno::setregid,
    Sysno::setresuid,
    Sysno::setresgid,
    Sysno::setgroups,
    Sysno::setpriority,
    Sysno::sched_setscheduler,
    Sysno::ioprio_set,
    #[cfg(target_arch = "x86_64")]
    Sysno::setrlimit,
    // What the supervisor remembers of a process's view ends with these.
    Sysno::chdir,
    Sysno::fchdir,
    Sysno::chroot,
    Sysno::pivot_root,
    Sysno::unshare,
    Sysno::setns,
];

/// A path argument: the directory it starts from and where its text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathArg {
    pub(crate) dirfd: i32,
    pub(crate) text: u64,
}

/// The object of a metadata call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// By path; `empty` when an empty (or null) path means the directory descriptor itself.
    Path { at: PathArg, follow: bool, empty: bool },
    /// By descriptor.
    Descriptor(i32),
}

/// What a traced call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// `open` with its flags.
    Open { at: PathArg, flags: u32 },
    /// `openat2`, whose flags lie at `how`.
    Open2 { at: PathArg, how: u64, size: u64 },
    /// A new directory, node or symbolic link; true when it is a directory (whose name may end in a slash).
    Make { at: PathArg, directory: bool },
    /// A new device node.
    MakeDevice { at: PathArg },
    /// A new symbolic link: as `Make`, and the tree's shape changes.
    Symlink { at: PathArg },
    /// A new name for an existing file.
    Link { old: PathArg, new: PathArg, follow: bool, empty: bool },
    /// Removing a name.
    Remove { at: PathArg, directory: bool },
    /// Moving a name.
    Rename { old: PathArg, new: PathArg, flags: u32 },
    /// `truncate` by path.
    Truncate { at: PathArg },
    /// Mode, owner, times, attributes.
    Metadata(Object),
    /// `connect`.
    Connect { fd: i32, address: u64, length: u64 },
    /// `bind`.
    Bind { fd: i32, address: u64, length: u64 },
    /// `sendto` with an address.
    SendTo { fd: i32, data: u64, size: u64, flags: u32, address: u64, length: u64 },
    /// `sendmsg`: one `msghdr`.
    SendMsg { fd: i32, header: u64, flags: u32 },
    /// `sendmmsg`: an array of them.
    SendMmsg { fd: i32, headers: u64, count: u64, flags: u32 },
    /// A call that takes a capability for some of its arguments.
    Privilege(Privilege),
    /// `kill`.
    Kill { pid: i32 },
    /// The working directory changes.
    ChangeDirectory,
    /// The root or the mount namespace may change.
    ChangeRoot,
}

/// What a refused call is about, whatever it would do to it. `None` where no argument is a path or a descriptor of one.
pub(crate) fn object_of(call: Sysno, a: &[u64; 6]) -> Option<Object> {
    let path = |at| Some(Object::Path { at, follow: true, empty: false });
    match call {
        Sysno::mount => return path(cwd(a[1])),
        Sysno::umount2 | Sysno::chroot | Sysno::pivot_root | Sysno::swapon | Sysno::swapoff => return path(cwd(a[0])),
        Sysno::move_mount => return path(at(a[2], a[3])),
        Sysno::open_tree | Sysno::open_tree_attr | Sysno::mount_setattr | Sysno::fspick => return path(at(a[0], a[1])),
        Sysno::ioctl => return Some(Object::Descriptor(int(a[0]))),
        _ => {}
    }
    match decode(call, a)? {
        Request::Metadata(object) => Some(object),
        Request::Open { at, .. } | Request::Open2 { at, .. } => path(at),
        Request::Make { at, .. } | Request::MakeDevice { at } => Some(Object::Path { at, follow: false, empty: false }),
        _ => None,
    }
}

/// The 32 bits that the kernel reads of an `int` argument.
pub(crate) fn int(arg: u64) -> i32 {
    let [a, b, c, d, ..] = arg.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// The 32 bits that the kernel reads of an `unsigned int` argument.
pub(crate) fn low(arg: u64) -> u32 {
    let [a, b, c, d, ..] = arg.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

const fn cwd(text: u64) -> PathArg {
    PathArg { dirfd: AT_FDCWD, text }
}

fn at(dirfd: u64, text: u64) -> PathArg {
    PathArg { dirfd: int(dirfd), text }
}

fn node(at: PathArg, mode: u64) -> Request {
    /// `S_IFMT`, `S_IFCHR` and `S_IFBLK`.
    const TYPE: u32 = 0o170_000;
    match low(mode) & TYPE {
        0o020_000 | 0o060_000 => Request::MakeDevice { at },
        _ => Request::Make { at, directory: false },
    }
}

fn object(at: PathArg, flags: u32) -> Request {
    let (follow, empty) = (flags & AT_SYMLINK_NOFOLLOW == 0, flags & AT_EMPTY_PATH != 0);
    Request::Metadata(Object::Path { at, follow, empty })
}

/// Reads a call's registers. `None` for a call that is not traced for what it names (it was sent for a rule).
pub(crate) fn decode(call: Sysno, a: &[u64; 6]) -> Option<Request> {
    #[cfg(target_arch = "x86_64")]
    if let Some(request) = decode_legacy(call, a) {
        return Some(request);
    }
    decode_names(call, a)
        .or_else(|| decode_metadata(call, a))
        .or_else(|| decode_other(call, a))
        .or_else(|| Privilege::decode(call, a).map(Request::Privilege))
}

#[cfg(target_arch = "x86_64")]
fn decode_legacy(call: Sysno, a: &[u64; 6]) -> Option<Request> {
    /// `O_CREAT|O_WRONLY|O_TRUNC`.
    const CREAT: u32 = 0o1101;
    Some(match call {
        Sysno::open => Request::Open { at: cwd(a[0]), flags: low(a[1]) },
        Sysno::creat => Request::Open { at: cwd(a[0]), flags: CREAT },
        Sysno::mkdir => Request::Make { at: cwd(a[0]), directory: true },
        Sysno::mknod => node(cwd(a[0]), a[1]),
        Sysno::rmdir => Request::Remove { at: cwd(a[0]), directory: true },
        Sysno::unlink => Request::Remove { at: cwd(a[0]), directory: false },
        Sysno::rename => Request::Rename { old: cwd(a[0]), new: cwd(a[1]), flags: 0 },
        Sysno::link => Request::Link { old: cwd(a[0]), new: cwd(a[1]), follow: false, empty: false },
        Sysno::symlink => Request::Symlink { at: cwd(a[1]) },
        Sysno::chmod | Sysno::chown | Sysno::utime | Sysno::utimes => object(cwd(a[0]), 0),
        Sysno::lchown => object(cwd(a[0]), AT_SYMLINK_NOFOLLOW),
        Sysno::futimesat if a[1] == 0 => Request::Metadata(Object::Descriptor(int(a[0]))),
        Sysno::futimesat => object(at(a[0], a[1]), 0),
        _ => return None,
    })
}

fn decode_names(call: Sysno, a: &[u64; 6]) -> Option<Request> {
    Some(match call {
        Sysno::openat => Request::Open { at: at(a[0], a[1]), flags: low(a[2]) },
        Sysno::openat2 => Request::Open2 { at: at(a[0], a[1]), how: a[2], size: a[3] },
        Sysno::mkdirat => Request::Make { at: at(a[0], a[1]), directory: true },
        Sysno::mknodat => node(at(a[0], a[1]), a[2]),
        Sysno::symlinkat => Request::Symlink { at: at(a[1], a[2]) },
        Sysno::linkat => Request::Link {
            old: at(a[0], a[1]),
            new: at(a[2], a[3]),
            follow: low(a[4]) & AT_SYMLINK_FOLLOW != 0,
            empty: low(a[4]) & AT_EMPTY_PATH != 0,
        },
        Sysno::unlinkat => Request::Remove { at: at(a[0], a[1]), directory: low(a[2]) & AT_REMOVEDIR != 0 },
        Sysno::renameat => Request::Rename { old: at(a[0], a[1]), new: at(a[2], a[3]), flags: 0 },
        Sysno::renameat2 => Request::Rename { old: at(a[0], a[1]), new: at(a[2], a[3]), flags: low(a[4]) },
        Sysno::truncate => Request::Truncate { at: cwd(a[0]) },
        _ => return None,
    })
}

fn decode_metadata(call: Sysno, a: &[u64; 6]) -> Option<Request> {
    Some(match call {
        Sysno::fchmodat => object(at(a[0], a[1]), 0),
        Sysno::fchmodat2 => object(at(a[0], a[1]), low(a[3])),
        Sysno::fchownat => object(at(a[0], a[1]), low(a[4])),
        Sysno::utimensat if a[1] == 0 => Request::Metadata(Object::Descriptor(int(a[0]))),
        Sysno::utimensat => object(at(a[0], a[1]), low(a[3])),
        Sysno::setxattr | Sysno::removexattr => object(cwd(a[0]), 0),
        Sysno::lsetxattr | Sysno::lremovexattr => object(cwd(a[0]), AT_SYMLINK_NOFOLLOW),
        Sysno::setxattrat | Sysno::removexattrat => object(at(a[0], a[1]), low(a[2])),
        Sysno::file_setattr => object(at(a[0], a[1]), low(a[4])),
        Sysno::fchmod | Sysno::fchown | Sysno::fsetxattr | Sysno::fremovexattr => {
            Request::Metadata(Object::Descriptor(int(a[0])))
        }
        Sysno::ioctl if super::filter::ATTRIBUTE_IOCTLS.contains(&low(a[1])) => {
            Request::Metadata(Object::Descriptor(int(a[0])))
        }
        _ => return None,
    })
}

fn decode_other(call: Sysno, a: &[u64; 6]) -> Option<Request> {
    Some(match call {
        Sysno::connect => Request::Connect { fd: int(a[0]), address: a[1], length: u64::from(low(a[2])) },
        Sysno::bind => Request::Bind { fd: int(a[0]), address: a[1], length: u64::from(low(a[2])) },
        Sysno::sendto => {
            let (flags, length) = (low(a[3]), u64::from(low(a[5])));
            Request::SendTo { fd: int(a[0]), data: a[1], size: a[2], flags, address: a[4], length }
        }
        Sysno::sendmsg => Request::SendMsg { fd: int(a[0]), header: a[1], flags: low(a[2]) },
        Sysno::sendmmsg => {
            Request::SendMmsg { fd: int(a[0]), headers: a[1], count: u64::from(low(a[2])), flags: low(a[3]) }
        }
        Sysno::kill => Request::Kill { pid: int(a[0]) },
        Sysno::chdir | Sysno::fchdir => Request::ChangeDirectory,
        Sysno::chroot | Sysno::pivot_root | Sysno::unshare | Sysno::setns => Request::ChangeRoot,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_low_half_of_an_int_counts() {
        let args = [0xDEAD_BEEF_FFFF_FF9C, 0x1000, 0xFFFF_FFFF_0000_0241, 0, 0, 0];
        let expected = Request::Open { at: PathArg { dirfd: AT_FDCWD, text: 0x1000 }, flags: 0o1101 };
        assert_eq!(decode(Sysno::openat, &args), Some(expected));
    }

    #[test]
    fn every_traced_call_is_understood() {
        let args = [3, 4, 0x4008_6602, 0, 0, 0];
        for call in ALWAYS.iter().chain(&BY_DESCRIPTOR) {
            assert!(decode(*call, &args).is_some(), "{call}");
        }
        #[cfg(target_arch = "x86_64")]
        for call in LEGACY {
            assert!(decode(call, &args).is_some(), "{call}");
        }
        assert_eq!(decode(Sysno::mount, &args), None);
    }

    #[test]
    fn a_null_path_of_utimensat_means_the_descriptor() {
        assert_eq!(decode(Sysno::utimensat, &[5, 0, 0, 0, 0, 0]), Some(Request::Metadata(Object::Descriptor(5))));
    }
}
