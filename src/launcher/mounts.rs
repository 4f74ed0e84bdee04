//! The mount tree of one sandbox, built by descriptor inside its own mount namespace, in two parts: a foundation that is
//! the same for every policy and can be laid ahead of time, and what the policy adds.
//!
//! Nothing is created on the host: mount points are made only in directories of our own (`make_target`), and every path
//! is opened without following a symbolic link, so a tree that changes under us makes a step fail and leads nowhere.

use std::ffi::CStr;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::geteuid;

use super::dev::Devices;
use super::mount_point::{create_file, make_target, open_beneath, open_path, seal, tmpfs};
use super::step::{At, StepError, path_of, step};
use super::{SetupFailure, Stage};
use crate::kernel::{self, MountAttr};
use crate::plan::{Fault, MountKind, MountOp, MountPlan, PrivateSource, Shape};

/// See [`Foundation::hide_host_wide`].
const HOST_WIDE: [&CStr; 11] = [
    c"kcore",
    c"keys",
    c"key-users",
    c"kmsg",
    c"kpagecgroup",
    c"kpagecount",
    c"kpageflags",
    c"sched_debug",
    c"slabinfo",
    c"timer_list",
    c"vmallocinfo",
];

/// What every policy stands on: each mount of the host read-only, a private `/dev`, and a `/proc` that is still writable
/// because its one per-policy setting is to be made.
pub(super) struct Foundation {
    /// The host's tree as it was, to tell which mounts were read-only before.
    original: OwnedFd,
    masks: Option<Masks>,
    proc: Option<Proc>,
}

/// `/proc` of the new PID namespace.
struct Proc {
    mount: OwnedFd,
    /// Opened ahead of time: the first look into a new `/proc/sys` takes longer than a dozen binds.
    pid_max: Option<Result<OwnedFd, Errno>>,
}

impl Foundation {
    /// Lays it; `names` is where its name server is.
    pub(super) fn lay(shape: Shape, names: Ipv4Addr, fault: Option<Fault>) -> Result<Self, SetupFailure> {
        let Shape { private_dev, fresh_proc, .. } = shape;
        let original = step(fault, Stage::BindSources, || Ok(kernel::clone_tree(open_path(Path::new("/"))?, true)?))?;
        let devices = step(fault, Stage::Dev, || private_dev.then(Devices::open).transpose())?;
        step(fault, Stage::ReadOnlyRoot, close_everything)?;
        let masks = step(fault, Stage::Binds, || private_dev.then(|| Masks::make(names)).transpose())?;
        step(fault, Stage::Dev, || devices.map_or(Ok(()), Devices::build))?;
        let proc = step(fault, Stage::Proc, || fresh_proc.then(new_proc).transpose())?;
        let foundation = Self { original, masks, proc };
        step(fault, Stage::Proc, || foundation.hide_host_wide())?;
        Ok(foundation)
    }

    /// Adds what the policy says. What is left of the foundation is of no more use, and takes the kernel a while to take
    /// apart.
    pub(super) fn finish(
        &mut self,
        plan: &MountPlan,
        pid_max: Option<u32>,
        fault: Option<Fault>,
    ) -> Result<(), SetupFailure> {
        if let Some(proc) = &mut self.proc {
            // A mount on which something is open for writing cannot be made read-only.
            let file = proc.pid_max.take();
            if let Some(limit) = pid_max {
                step(fault, Stage::PidLimit, || limit_pids(file.unwrap_or(Err(Errno::ENOENT)), limit))?;
            } else {
                drop(file);
            }
            step(fault, Stage::Proc, || seal(&proc.mount))?;
        }
        let open_all = || plan.ops.iter().map(|op| self.open_elsewhere(op)).collect::<Result<Vec<_>, _>>();
        let elsewhere = step(fault, Stage::BindSources, open_all)?;
        let mut to_seal = Vec::new();
        let mut covered = None;
        for (op, source) in plan.ops.iter().zip(elsewhere) {
            let open = || {
                covered = Covered::around(covered.take(), op).at(&op.path)?;
                self.open_source(op, covered.as_ref()).at(&op.path)
            };
            let source = step(fault, Stage::BindSources, open)?.or(source);
            let stage = if matches!(op.kind, MountKind::Private(_)) { Stage::PrivateDirs } else { Stage::Binds };
            step(fault, stage, || self.apply(op, source, &mut to_seal).at(&op.path))?;
        }
        step(fault, Stage::Binds, || to_seal.iter().try_for_each(seal))
    }

    /// Covers the files of `/proc` that tell of the whole host, whatever the PID namespace: keys of every keyring this
    /// uid can see, physical pages, kernel allocations and timers. One that this kernel does not have needs no cover, nor
    /// does one that is root's alone where this is not root.
    fn hide_host_wide(&self) -> Result<(), StepError> {
        let (Some(masks), Some(proc)) = (&self.masks, &self.proc) else { return Ok(()) };
        for name in HOST_WIDE {
            if !geteuid().is_root() && !open_to_others(&proc.mount, name)? {
                continue;
            }
            match kernel::move_mount_in(kernel::clone_tree(&masks.file, false)?, &proc.mount, name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno).at(&Path::new("/proc").join(path_of(name))),
            }
        }
        Ok(())
    }

    /// A copy of what stands in for `/tmp` and lies elsewhere on the host, taken before anything of the policy covers it.
    fn open_elsewhere(&self, op: &MountOp) -> Result<Option<OwnedFd>, StepError> {
        let MountKind::Private(PrivateSource::Directory(directory)) = &op.kind else { return Ok(None) };
        let tree = open_path(directory).and_then(|found| kernel::clone_tree(found, true)).at(directory)?;
        self.open_up(&tree, directory).at(directory)?;
        Ok(Some(tree))
    }

    /// A detached copy of the host's own content of that name, however it is covered by now.
    ///
    /// It is taken from beneath what covers it, also where it is in view: there every mount is read-only, so a copy need
    /// not be made so, and has few mounts in it. The kernel looks at all of them for each copy, so that ten thousand
    /// copies from the tree they are mounted in would take a time that grows with the square.
    fn open_source(&self, op: &MountOp, covered: Option<&Covered>) -> Result<Option<OwnedFd>, Errno> {
        if !matches!(op.kind, MountKind::Writable | MountKind::ReadOnly) {
            return Ok(None);
        }
        let tree = covered.ok_or(Errno::ENOENT)?.copy(&op.path)?;
        if op.kind == MountKind::Writable {
            self.open_up(&tree, &op.path)?;
        }
        Ok(Some(tree))
    }

    /// Makes a copy writable, its root alone: submounts of a writable tree stay read-only. One may lead outside, and a
    /// policy can name it.
    fn open_up(&self, tree: &OwnedFd, path: &Path) -> Result<(), Errno> {
        if self.was_read_only(path)? {
            return Ok(());
        }
        kernel::set_mount_attr(tree, MountAttr { clear: MountAttr::RDONLY, ..MountAttr::default() })
    }

    /// A mount that is read-only on the host stays so: root could otherwise be made to write through it.
    fn was_read_only(&self, path: &Path) -> Result<bool, Errno> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let before = openat2(&self.original, path, how)?;
        Ok(fstatvfs(&before)?.flags().contains(FsFlags::ST_RDONLY))
    }

    fn apply(&self, op: &MountOp, source: Option<OwnedFd>, to_seal: &mut Vec<OwnedFd>) -> Result<(), StepError> {
        let mask = || self.masks.as_ref().ok_or(Errno::ENOENT);
        let mount = match (&op.kind, source) {
            (_, Some(tree)) => tree,
            (MountKind::MaskDirectory { populated: false }, None) => kernel::clone_tree(&mask()?.directory, false)?,
            (MountKind::MaskFile, None) => kernel::clone_tree(&mask()?.file, false)?,
            (MountKind::NameServer, None) => kernel::clone_tree(&mask()?.resolver, false)?,
            (MountKind::MaskDirectory { populated: true }, None) => tmpfs("0755", 1 << 20)?,
            (MountKind::Private(PrivateSource::Memory { size }), None) => tmpfs("1777", *size)?,
            (MountKind::ReadOnly | MountKind::Writable | MountKind::Private(PrivateSource::Directory(_)), None) => {
                return Err(Errno::ENOENT.into());
            }
        };
        let directory = SFlag::from_bits_truncate(fstat(&mount)?.st_mode).contains(SFlag::S_IFDIR);
        let target = match if op.make_target { make_target(&op.path, directory) } else { open_path(&op.path) } {
            Err(Errno::ENOENT | Errno::ENOTDIR) if op.may_vanish => return Ok(()),
            opened => opened?,
        };
        match kernel::move_mount_onto(&mount, target) {
            Err(Errno::ENOENT) if op.may_vanish => return Ok(()),
            moved => moved?,
        }
        if matches!(op.kind, MountKind::MaskDirectory { populated: true }) {
            to_seal.push(mount);
        }
        Ok(())
    }
}

/// A path of the host that an operation covers, as it was before: the outermost one around the operation whose turn it is.
struct Covered {
    path: PathBuf,
    host: OwnedFd,
}

impl Covered {
    /// The one around an operation, opened now when the operation is itself the outermost. There is none for masks with
    /// nothing in them: whatever is refused by the thousand costs no descriptor.
    fn around(before: Option<Self>, op: &MountOp) -> Result<Option<Self>, Errno> {
        if let Some(before) = before.filter(|before| op.path.starts_with(&before.path)) {
            return Ok(Some(before));
        }
        if matches!(
            op.kind,
            MountKind::MaskFile | MountKind::MaskDirectory { populated: false } | MountKind::NameServer
        ) {
            return Ok(None);
        }
        match open_path(&op.path) {
            // It is made, or has vanished and need not be covered. A copy of it would be missed by the one who wants it.
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            opened => Ok(Some(Self { host: opened?, path: op.path.clone() })),
        }
    }

    /// A detached copy of what the host has there.
    fn copy(&self, path: &Path) -> Result<OwnedFd, Errno> {
        match path.strip_prefix(&self.path) {
            Ok(rest) if rest.as_os_str().is_empty() => kernel::clone_tree(&self.host, true),
            Ok(rest) => kernel::clone_tree(open_beneath(&self.host, rest.as_os_str())?, true),
            Err(_) => Err(Errno::EXDEV),
        }
    }
}

/// Whether anybody but its owner may do anything with a file, or that owner is this user. In a user namespace root has
/// another number.
fn open_to_others(directory: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(file) => Ok(file.st_uid == geteuid().as_raw() || file.st_mode & 0o077 != 0),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn bind_read_only(tree: &OwnedFd) -> Result<(), Errno> {
    let set = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV;
    kernel::set_mount_attr_beneath(tree, MountAttr { set, private: true, ..MountAttr::default() })
}

/// Every mount of the host, from the root down: private, read-only, nosuid, nodev. Flags are only added, so each mount
/// keeps its own.
fn close_everything() -> Result<(), StepError> {
    Ok(bind_read_only(&open_path(Path::new("/"))?)?)
}

/// What the sandbox's own name server needs to be asked: where it is found, and that no answer is waited for twice.
fn resolver(names: Ipv4Addr) -> String {
    format!("nameserver {names}\noptions timeout:1 attempts:1\n")
}

/// The things that stand in for paths of the host.
struct Masks {
    /// Reads as empty, refuses writes.
    directory: OwnedFd,
    /// A device on a nodev mount: opening it is refused (`EACCES`) whoever asks, uid 0 included, where an empty file would
    /// be believed.
    file: OwnedFd,
    /// The sandbox's own `resolv.conf`.
    resolver: OwnedFd,
}

impl Masks {
    /// Made while the host's `/dev` is in view, and attached where the private one covers it next: only attached mounts
    /// can be cloned before Linux 6.15.
    fn make(names: Ipv4Addr) -> Result<Self, StepError> {
        let file = open_path(Path::new("/dev/null")).at(Path::new("/dev/null"))?;
        let mount = tmpfs("0755", 64 << 10)?;
        mkdirat(&mount, "directory", Mode::from_bits_truncate(0o555))?;
        match nix::unistd::write(create_file(&mount, "resolver", 0o444)?, resolver(names).as_bytes()) {
            // No file may grow here (RLIMIT_FSIZE), this one neither: an empty one leads a resolver to 127.0.0.1,
            // where it is answered as well, or refused by there being nobody.
            Ok(_) | Err(Errno::EFBIG) => {}
            Err(errno) => return Err(errno.into()),
        }
        seal(&mount)?;
        kernel::move_mount_onto(&mount, open_path(Path::new("/dev"))?)?;
        let open = |name| openat(&mount, name, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        Ok(Self { directory: open("directory")?, file, resolver: open("resolver")? })
    }
}

/// A new one. It is sealed before anything runs: read-only as a whole, `sys`, `sysrq-trigger`,
/// `irq`, `bus` of uid 0 among it. What ordinary programs write there (their own `comm`, `oom_score_adj`) the Landlock
/// domain would refuse as well.
fn new_proc() -> Result<Proc, StepError> {
    let mount = kernel::fs_context(c"proc")?.mount(MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC)?;
    kernel::move_mount_onto(&mount, open_path(Path::new("/proc"))?)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let pid_max = openat(&mount, "sys/kernel/pid_max", flags, Mode::empty());
    Ok(Proc { mount, pid_max: Some(pid_max) })
}

/// `kernel.pid_max` belongs to the PID namespace since Linux 6.14.
fn limit_pids(file: Result<OwnedFd, Errno>, limit: u32) -> Result<(), StepError> {
    nix::unistd::write(file?, limit.to_string().as_bytes())?;
    Ok(())
}
