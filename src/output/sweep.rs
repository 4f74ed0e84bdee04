//! Temporary directories that are recognised as abandoned when their owner has died, even by SIGKILL.
//!
//! The owner holds `flock(2)` on the directory itself; the kernel lets go of it when the process ends, in whatever PID
//! namespace it lived. A process id in the name would not do: two containers sharing a `/tmp` cannot see each other.

#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// A directory that is ours for as long as we live. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct OwnedDir {
    dir: TempDir,
    _lock: Flock<File>,
}

impl OwnedDir {
    /// Makes a 0700 directory with a random name below `root`, which is made (0700) when it is missing.
    pub(crate) fn create(root: &Path, prefix: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        // A sweeper may look between making and locking, and take the directory away: then another is made.
        for _ in 0..16 {
            let dir = tempfile::Builder::new()
                .prefix(prefix)
                .permissions(fs::Permissions::from_mode(0o700))
                .tempdir_in(root)?;
            if let Some(lock) = try_lock(dir.path())? {
                return Ok(Self { dir, _lock: lock });
            }
        }
        Err(io::Error::other("every new directory was taken away by a sweep"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves the directory and what is in it to whoever was told of it.
    pub(crate) fn keep_unless_empty(self) {
        let empty = fs::read_dir(self.dir.path()).is_ok_and(|mut entries| entries.next().is_none());
        if !empty {
            let _kept: PathBuf = self.dir.keep();
        }
    }

    /// Removes the directory and what is in it.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.dir.close()
    }
}

/// How long an executor that has just started its first command leaves the processors to that.
const QUIET: Duration = Duration::from_millis(30);

/// As [`sweep`] for several prefixes, on a thread of its own and a little later: nobody has to wait for the leavings of
/// the dead, and the first command of an executor is only getting under way.
pub(crate) fn sweep_in_background(root: PathBuf, prefixes: &'static [&'static str]) {
    let swept = std::thread::Builder::new().name("sweep".to_owned()).spawn(move || {
        std::thread::sleep(QUIET);
        for prefix in prefixes {
            sweep(&root, prefix);
        }
    });
    if let Err(error) = swept {
        tracing::warn!(%error, "what dead executors left could not be removed");
    }
}

/// Removes the directories of this user below `root` whose name begins with `prefix` and whose owner is gone; says how
/// many. One that cannot be looked at is left alone.
pub(crate) fn sweep(root: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(root) else { return 0 };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()))
        .filter(|entry| sweep_one(&entry.path()))
        .count()
}

fn sweep_one(path: &Path) -> bool {
    match try_lock(path) {
        // Removed under the lock, so that no owner can be settling in meanwhile.
        Ok(Some(_lock)) => match fs::remove_dir_all(path) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "an abandoned spill directory could not be removed");
                false
            }
        },
        Ok(None) | Err(_) => false,
    }
}

/// The lock on a directory of ours; `None` when it is held, not ours, or no longer there.
fn try_lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.uid() != geteuid().as_raw() {
        return Ok(None);
    }
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, errno)) => return Err(errno.into()),
    };
    let held = lock.metadata()?;
    Ok(match fs::symlink_metadata(PathBuf::from(path)) {
        Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => Some(lock),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_owner_is_left_alone_and_a_dead_one_swept() {
        let root = tempfile::tempdir().unwrap();
        let alive = OwnedDir::create(root.path(), "p-").unwrap();
        let dead = root.path().join("p-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("stdout-x.log"), b"old").unwrap();
        let other = root.path().join("q-dead");
        fs::create_dir(&other).unwrap();
        assert_eq!(sweep(root.path(), "p-"), 1);
        assert!(alive.path().exists() && other.exists() && !dead.exists());
        let path = alive.path().to_path_buf();
        drop(alive);
        assert!(!path.exists());
    }

    #[test]
    fn links_and_files_are_never_followed() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("precious");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("keep"), b"1").unwrap();
        std::os::unix::fs::symlink(&target, root.path().join("p-link")).unwrap();
        fs::write(root.path().join("p-file"), b"2").unwrap();
        assert_eq!(sweep(root.path(), "p-"), 0);
        assert!(target.join("keep").exists() && root.path().join("p-file").exists());
        assert_eq!(sweep(&root.path().join("missing"), "p-"), 0);
    }

    #[test]
    fn creation_survives_a_sweeper_that_never_rests() {
        let root = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(root.path(), "p-");
                }
            });
            let made: Vec<_> = (0..200).map(|_| OwnedDir::create(root.path(), "p-")).collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            for dir in made {
                assert!(dir.unwrap().path().is_dir());
            }
        });
    }
}
