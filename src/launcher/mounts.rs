//! The mount tree of one sandbox, built by descriptor inside its own mount namespace.
//!
//! Nothing is created on the host: mount points are made only in directories of our own (`make_target`), and every path
//! is opened without following a symbolic link, so a tree that changes under us makes a step fail and leads nowhere.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::dev::Devices;
use super::step::{At, StepError, step};
use super::{SetupFailure, Stage};
use crate::kernel::{self, MountAttr};
use crate::plan::{Fault, MountKind, MountOp, MountPlan, PrivateSource};

/// Builds the whole tree, one stage after another.
pub(super) fn build(plan: &MountPlan, pid_max: Option<u32>, fault: Option<Fault>) -> Result<(), SetupFailure> {
    let sources = step(fault, Stage::BindSources, || plan.ops.iter().map(open_source).collect::<Result<Vec<_>, _>>())?;
    let devices = step(fault, Stage::Dev, || plan.private_dev.then(Devices::open).transpose())?;
    step(fault, Stage::ReadOnlyRoot, close_everything)?;
    let masks = step(fault, Stage::Binds, || Masks::make(plan))?;
    step(fault, Stage::Dev, || devices.map_or(Ok(()), Devices::build))?;
    if plan.fresh_proc {
        let proc = step(fault, Stage::Proc, fresh_proc)?;
        if let Some(limit) = pid_max {
            step(fault, Stage::PidLimit, || limit_pids(&proc, limit))?;
        }
        step(fault, Stage::Proc, || attach_proc(&proc))?;
    }
    let mut to_seal = Vec::new();
    for (op, source) in plan.ops.iter().zip(sources) {
        let stage = if matches!(op.kind, MountKind::Private(_)) { Stage::PrivateDirs } else { Stage::Binds };
        step(fault, stage, || apply(op, source, masks.as_ref(), &mut to_seal).at(&op.path))?;
    }
    step(fault, Stage::Binds, || to_seal.iter().try_for_each(|mount| seal(mount)))
}

/// Opens a path as it is, through no symbolic link.
pub(super) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(nix::fcntl::AT_FDCWD, path, how)
}

/// A detached copy of the host's content, taken before anything is covered or made read-only. Read-only binds beneath
/// a writable one need none: what they cover is still in view when their turn comes.
fn open_source(op: &MountOp) -> Result<Option<OwnedFd>, StepError> {
    let path = match &op.kind {
        MountKind::Writable => &op.path,
        MountKind::ReadOnly if op.make_target => &op.path,
        MountKind::Private(PrivateSource::Directory(directory)) => directory,
        _ => return Ok(None),
    };
    let source = open_path(path).at(path)?;
    let tree = kernel::clone_tree(&source, true).at(path)?;
    let read_only = matches!(op.kind, MountKind::ReadOnly);
    if read_only { bind_read_only(&tree) } else { bind_writable(&tree) }.at(path)?;
    Ok(Some(tree))
}

/// Submounts of a writable tree stay read-only: one may lead outside, and the policy can name it. A mount that is
/// read-only on the host stays so, since root could otherwise be made to write through it.
fn bind_writable(tree: &OwnedFd) -> Result<(), Errno> {
    let read_only_on_host = fstatvfs(tree)?.flags().contains(FsFlags::ST_RDONLY);
    bind_read_only(tree)?;
    if read_only_on_host {
        return Ok(());
    }
    kernel::set_mount_attr(tree, MountAttr { clear: MountAttr::RDONLY, ..MountAttr::default() })
}

fn bind_read_only(tree: &OwnedFd) -> Result<(), Errno> {
    let set = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV;
    kernel::set_mount_attr_beneath(tree, MountAttr { set, private: true, ..MountAttr::default() })
}

/// Every mount of the host, from the root down: private, read-only, nosuid, nodev. Flags are only added, so each mount
/// keeps its own.
fn close_everything() -> Result<(), StepError> {
    let root = open_path(Path::new("/"))?;
    bind_read_only(&root)?;
    Ok(())
}

/// The two things that stand in for masked paths.
struct Masks {
    directory: OwnedFd,
    file: OwnedFd,
}

impl Masks {
    /// An empty directory and an empty file in a read-only file system of their own. It is attached where the private
    /// `/dev` covers it next, because only attached mounts can be cloned before Linux 6.15.
    fn make(plan: &MountPlan) -> Result<Option<Self>, StepError> {
        let masks =
            |op: &MountOp| matches!(op.kind, MountKind::MaskDirectory { populated: false } | MountKind::MaskFile);
        if !plan.private_dev || !plan.ops.iter().any(masks) {
            return Ok(None);
        }
        let mount = tmpfs("0755", 64 << 10)?;
        mkdirat(&mount, "directory", Mode::from_bits_truncate(0o555))?;
        drop(create_file(&mount, "file", 0o444)?);
        seal(&mount)?;
        kernel::move_mount_onto(&mount, open_path(Path::new("/dev"))?)?;
        let open_in = |name: &str| openat(&mount, name, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        Ok(Some(Self { directory: open_in("directory")?, file: open_in("file")? }))
    }
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

pub(super) fn create_file(
    directory: impl AsFd,
    name: impl AsRef<std::ffi::OsStr>,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    openat(directory, name.as_ref(), flags, Mode::from_bits_truncate(mode))
}

/// Makes a mount of our own read-only.
pub(super) fn seal(mount: &OwnedFd) -> Result<(), StepError> {
    let set = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC;
    Ok(kernel::set_mount_attr(mount, MountAttr { set, ..MountAttr::default() })?)
}

/// `/proc` of the new PID namespace, detached and still writable.
fn fresh_proc() -> Result<OwnedFd, StepError> {
    Ok(kernel::fs_context(c"proc")?.mount(MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC)?)
}

/// `kernel.pid_max` belongs to the PID namespace since Linux 6.14.
fn limit_pids(proc: &OwnedFd, limit: u32) -> Result<(), StepError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let file = openat(proc, "sys/kernel/pid_max", flags, Mode::empty())?;
    nix::unistd::write(&file, limit.to_string().as_bytes())?;
    Ok(())
}

/// Read-only as a whole: `sys`, `sysrq-trigger`, `irq`, `bus` of uid 0 among it. What ordinary programs write there
/// (their own `comm`, `oom_score_adj`) the Landlock domain would refuse as well.
fn attach_proc(proc: &OwnedFd) -> Result<(), StepError> {
    seal(proc)?;
    Ok(kernel::move_mount_onto(proc, open_path(Path::new("/proc"))?)?)
}

fn apply(
    op: &MountOp,
    source: Option<OwnedFd>,
    masks: Option<&Masks>,
    to_seal: &mut Vec<OwnedFd>,
) -> Result<(), StepError> {
    let mount = match (&op.kind, source) {
        (_, Some(tree)) => tree,
        (MountKind::ReadOnly | MountKind::Writable, None) => {
            let tree = kernel::clone_tree(open_path(&op.path)?, true)?;
            bind_read_only(&tree)?;
            tree
        }
        (MountKind::MaskDirectory { populated: false }, None) => {
            kernel::clone_tree(&masks.ok_or(Errno::ENOENT)?.directory, false)?
        }
        (MountKind::MaskFile, None) => kernel::clone_tree(&masks.ok_or(Errno::ENOENT)?.file, false)?,
        (MountKind::MaskDirectory { populated: true }, None) => tmpfs("0755", 1 << 20)?,
        (MountKind::Private(PrivateSource::Memory { size }), None) => tmpfs("1777", *size)?,
        (MountKind::Private(PrivateSource::Directory(_)), None) => return Err(Errno::ENOENT.into()),
    };
    let directory = SFlag::from_bits_truncate(fstat(&mount)?.st_mode).contains(SFlag::S_IFDIR);
    let target = match open_target(op, directory) {
        Err(Errno::ENOENT | Errno::ENOTDIR) if op.may_vanish => return Ok(()),
        opened => opened?,
    };
    kernel::move_mount_onto(&mount, target)?;
    if matches!(op.kind, MountKind::MaskDirectory { populated: true }) {
        to_seal.push(mount);
    }
    Ok(())
}

fn open_target(op: &MountOp, directory: bool) -> Result<OwnedFd, Errno> {
    if op.make_target { make_target(&op.path, directory) } else { open_path(&op.path) }
}

/// Opens a mount point, making what is missing of it. Only directories of our own are writable at this moment on the
/// way to it, so nothing can be made elsewhere.
fn make_target(path: &Path, directory: bool) -> Result<OwnedFd, Errno> {
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
                if next.is_some() || directory {
                    mkdirat(&at, name, Mode::from_bits_truncate(0o755))?;
                } else {
                    drop(create_file(&at, name, 0o444)?);
                }
                open_beneath(&at, name)?
            }
            found => found?,
        };
    }
    Ok(at)
}

fn open_beneath(directory: &OwnedFd, name: &std::ffi::OsStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(directory, name, how)
}
