//! The private `/dev`: the harmless devices, a devpts of its own, and nothing else.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat};
use nix::unistd::symlinkat;

use super::mount_point::{open_path, seal, tmpfs};
use super::step::{At, StepError, path_of};
use crate::kernel::{self, MountAttr};

/// Devices bound from the host. A new tmpfs cannot have device nodes of its own in a user namespace.
const BOUND: [&CStr; 6] = [c"null", c"zero", c"full", c"random", c"urandom", c"tty"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Copies of the host's devices, taken while the host's `/dev` is in view and before mounts become nodev.
pub(super) struct Devices(Vec<(&'static CStr, OwnedFd)>);

impl Devices {
    /// Takes the copies. A device that this host does not have is left out.
    pub(super) fn open() -> Result<Self, StepError> {
        let mut devices = Vec::with_capacity(BOUND.len());
        for name in BOUND {
            let path = Path::new("/dev").join(path_of(name));
            let source = match open_path(&path) {
                Err(Errno::ENOENT) => continue,
                opened => opened.at(&path)?,
            };
            let device = kernel::clone_tree(&source, false).at(&path)?;
            let set = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NOEXEC;
            kernel::set_mount_attr(&device, MountAttr { set, private: true, ..MountAttr::default() }).at(&path)?;
            devices.push((name, device));
        }
        Ok(Self(devices))
    }

    /// Builds `/dev` and attaches it. Read-only when done: only what is mounted beneath can be written.
    pub(super) fn build(self) -> Result<(), StepError> {
        let dev = tmpfs("0755", 64 << 10)?;
        kernel::move_mount_onto(&dev, open_path(Path::new("/dev"))?)?;
        for (name, device) in self.0 {
            mknodat(&dev, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o666), 0)?;
            kernel::move_mount_in(&device, &dev, name).at(&Path::new("/dev").join(path_of(name)))?;
        }
        for (name, target) in LINKS {
            symlinkat(target, &dev, name)?;
        }
        for name in ["pts", "shm", "mqueue"] {
            mkdirat(&dev, name, Mode::from_bits_truncate(0o755))?;
        }
        let context = kernel::fs_context(c"devpts")?;
        context.set(c"ptmxmode", c"0666")?;
        context.set(c"mode", c"0620")?;
        let pts = context.mount(MountAttr::NOSUID | MountAttr::NOEXEC)?;
        kernel::move_mount_in(&pts, &dev, c"pts")?;
        // The queues of the sandbox's own IPC namespace: mq_open(3) is refused by Landlock unless a rule names their tree.
        let queues = kernel::fs_context(c"mqueue")?.mount(MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC);
        match queues {
            Ok(queues) => kernel::move_mount_in(queues, &dev, c"mqueue")?,
            // A kernel without POSIX message queues.
            Err(Errno::ENODEV) => {}
            Err(errno) => return Err(errno.into()),
        }
        seal(&dev)
    }
}
