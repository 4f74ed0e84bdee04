//! A control group (version 2) of one command's own, where this process may make one beside its own.
//!
//! A group that holds processes cannot hand controllers down, so the leaf is not made below the executor's own group but
//! beside it: in the nearest of own group and parent that hands `memory` and `pids` down, or can be made to, and may be
//! written. Somebody else's group, as the slices of a system manager are for root, is not made to do anything. Version 1
//! counts as none: its hierarchies are not handed to ordinary users, and nothing there kills as one.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

/// Where version 2 is mounted: alone, or beside version 1.
const MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// What a leaf needs.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// How a leaf's directory is named: this, the executor's pid, a number.
const PREFIX: &str = "stockade-";

/// Why no leaf can be made.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No hierarchy of version 2, or one without controllers because version 1 has them.
    #[error("this host's control groups are version 1")]
    Version1,
    /// None at all.
    #[error("no control groups are mounted")]
    NotMounted,
    /// Neither our own group nor its parent will do.
    #[error("{place}: {lacks}")]
    NotDelegated {
        /// The group that was looked at last.
        place: PathBuf,
        /// What it lacks.
        lacks: String,
    },
    /// A file of the leaf could not be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// The directory in which leaves can be made.
///
/// # Errors
/// When there is none, and why.
pub fn leaf_place() -> Result<PathBuf, CgroupError> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(root) = MOUNT_POINTS.into_iter().map(Path::new).find(|root| root.join("cgroup.controllers").exists())
    else {
        return Err(if own.is_empty() { CgroupError::NotMounted } else { CgroupError::Version1 });
    };
    place_in(root, &own)
}

/// The same for a hierarchy mounted at `root`, given the text of `/proc/self/cgroup`.
fn place_in(root: &Path, own: &str) -> Result<PathBuf, CgroupError> {
    let words = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let has_all = |text: &str| CONTROLLERS.iter().all(|wanted| text.split_whitespace().any(|word| word == *wanted));
    if !has_all(&words(&root.join("cgroup.controllers"))) && own.lines().count() > 1 {
        return Err(CgroupError::Version1);
    }
    let group = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(CgroupError::Version1)?;
    let own_directory = root.join(group);
    let parent = own_directory.parent().filter(|parent| parent.starts_with(root) && own_directory != *root);
    let mut refusal = (own_directory.clone(), String::new());
    for place in [Some(own_directory.as_path()), parent].into_iter().flatten() {
        let writable = |path: &Path| faccessat(nix::fcntl::AT_FDCWD, path, AccessFlags::W_OK, AtFlags::AT_EACCESS);
        let switch = place.join("cgroup.subtree_control");
        let handed_down = has_all(&words(&switch)) || (is_delegated(place) && hand_down(&switch));
        let lacks = if !handed_down {
            "hands no memory and pids controllers down".to_owned()
        } else if let Err(errno) = writable(place).and_then(|()| writable(&place.join("cgroup.procs"))) {
            format!("is not ours to write: {errno}")
        } else {
            return Ok(place.to_path_buf());
        };
        refusal = (place.to_path_buf(), lacks);
    }
    Err(CgroupError::NotDelegated { place: refusal.0, lacks: refusal.1 })
}

/// What belongs to an ordinary user was handed over; for root systemd says so in an attribute.
fn is_delegated(place: &Path) -> bool {
    let marked = |name: &str| {
        let mut value = [0_u8; 2];
        rustix::fs::getxattr(place, name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1".as_slice()))
    };
    !nix::unistd::geteuid().is_root() || marked("trusted.delegate") || marked("user.delegate")
}

/// Has a group hand the controllers down: false where it may not be written, lacks them or holds processes itself.
fn hand_down(switch: &Path) -> bool {
    fs::write(switch, "+memory +pids").is_ok()
}

/// How often a leaf's bounds were hit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeafHits {
    /// Processes that the kernel killed for want of memory in it.
    pub memory: u64,
    /// Forks refused.
    pub processes: u64,
}

/// One group, removed with this value and whatever is still in it.
#[derive(Debug)]
pub struct Leaf {
    path: PathBuf,
    entrance: File,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl Leaf {
    /// Makes a leaf in [`leaf_place`] with these bounds: bytes of memory with no swap beside it, and processes.
    ///
    /// # Errors
    /// When there is no place, or a file of it cannot be written.
    pub fn make(memory: Option<u64>, processes: Option<u64>) -> Result<Self, CgroupError> {
        let place = leaf_place()?;
        remove_orphans(&place);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let at = |path: &Path, result: io::Result<()>| {
            result.map_err(|source| CgroupError::Io { path: path.to_path_buf(), source })
        };
        at(&path, fs::create_dir(&path))?;
        let entrance = path.join("cgroup.procs");
        match File::options().write(true).open(&entrance) {
            Ok(file) => {
                let leaf = Self { path, entrance: file };
                let bounds = [("memory.max", memory), ("pids.max", processes)];
                for (name, value) in bounds.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                    let file = leaf.path.join(name);
                    at(&file, fs::write(&file, value.to_string()))?;
                }
                if memory.is_some() {
                    // Absent where the kernel has no swap, and on kernels before 4.19.
                    for (name, value) in [("memory.swap.max", "0"), ("memory.oom.group", "1")] {
                        let file = leaf.path.join(name);
                        at(&file, if file.exists() { fs::write(&file, value) } else { Ok(()) })?;
                    }
                }
                Ok(leaf)
            }
            Err(source) => {
                remove(&path);
                Err(CgroupError::Io { path: entrance, source })
            }
        }
    }

    /// A process that writes `0` here moves in. The right to do so is the executor's, who opened it.
    pub fn entrance(&self) -> BorrowedFd<'_> {
        self.entrance.as_fd()
    }

    /// What was hit so far.
    #[must_use]
    pub fn hits(&self) -> LeafHits {
        let events = |name: &str| fs::read_to_string(self.path.join(name)).unwrap_or_default();
        LeafHits {
            memory: count_of(&events("memory.events"), "oom_kill"),
            processes: count_of(&events("pids.events"), "max"),
        }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The number after a name in a file of `name number` lines.
fn count_of(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Ends what is left in a group and removes it. Its processes are gone already as a rule, give or take a moment.
fn remove(path: &Path) {
    let began = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < Duration::from_millis(500) => {
                // From Linux 5.14; before, waiting has to do.
                let kill = path.join("cgroup.kill");
                if kill.exists()
                    && let Err(error) = fs::write(&kill, "1")
                {
                    tracing::debug!(%error, path = %kill.display(), "could not be written");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a control group could not be removed");
                return;
            }
        }
    }
}

/// Removes empty groups of executors that were killed. One that still holds a process stays: the kernel refuses.
fn remove_orphans(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        let dead = owner.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists());
        if dead && let Err(error) = fs::remove_dir(entry.path()) {
            tracing::debug!(%error, path = %entry.path().display(), "an orphaned control group stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A hierarchy made of ordinary files: `/` and `/unit` hand down what is given, `/unit/own` is ours.
    fn hierarchy(root: &str, unit: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, hands_down) in [("", root), ("unit", unit), ("unit/own", "")] {
            let at = directory.path().join(name);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
            let switch = at.join("cgroup.subtree_control");
            fs::write(&switch, hands_down).unwrap();
            // As the kernel refuses it to a group with processes in it; root does not try without a mark.
            fs::set_permissions(&switch, fs::Permissions::from_mode(0o444)).unwrap();
            fs::write(at.join("cgroup.procs"), "").unwrap();
        }
        directory
    }

    #[test]
    fn a_leaf_stands_where_both_controllers_are_handed_down() {
        let found = |root, unit, own: &str| {
            let directory = hierarchy(root, unit);
            let place =
                place_in(directory.path(), own).map(|place| place.strip_prefix(directory.path()).unwrap().to_owned());
            place.map_err(|error| error.to_string())
        };
        assert_eq!(found("", "cpu memory pids\n", "0::/unit/own\n"), Ok("unit".into()));
        assert_eq!(found("memory pids", "", "0::/\n"), Ok("".into()));
        assert_eq!(found("memory pids", "memory pids", "0::/unit\n"), Ok("unit".into()));
        assert_eq!(found("memory pids", "", "0::/unit\n"), Ok("".into()));
        for (root, unit, own) in
            [("memory pids", "memory", "0::/unit/own\n"), ("pids", "", "0::/\n"), ("", "", "0::/unit\n")]
        {
            let refusal = found(root, unit, own).unwrap_err();
            assert!(refusal.contains("hands no memory"), "{refusal}");
        }
    }

    #[test]
    fn version_1_is_no_error_but_none() {
        let directory = hierarchy("memory pids", "");
        let own = "4:memory:/x\n0::/\n";
        fs::write(directory.path().join("cgroup.controllers"), "hugetlb\n").unwrap();
        assert!(matches!(place_in(directory.path(), own), Err(CgroupError::Version1)));
        assert!(matches!(place_in(directory.path(), "4:memory:/x\n"), Err(CgroupError::Version1)));
    }

    #[test]
    fn events_are_read_by_their_whole_name() {
        let text = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(count_of(text, "oom_kill"), 2);
        assert_eq!(count_of(text, "max"), 12);
        assert_eq!(count_of("", "max"), 0);
    }
}
