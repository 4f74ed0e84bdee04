//! Files that a permission of one call names and that are not there yet.
//!
//! Neither a mount nor a Landlock rule can name what does not exist, and opening the directory instead would give more than
//! was approved. So the approved file is made, empty, before the command starts, and taken away again when the command
//! left it as it was.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files made for one call. Dropping them takes the untouched ones away.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    /// Held for what becomes of them when they are dropped.
    _made: Vec<Placeholder>,
}

#[derive(Debug)]
struct Placeholder {
    path: PathBuf,
    made: Stamp,
}

/// What a file is known by, and what any change to it alters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &std::fs::Metadata) -> Self {
        Self { device: meta.dev(), inode: meta.ino(), length: meta.len(), changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}

impl Placeholders {
    /// Makes what is missing of `approved`. A path that cannot be made is left out: the policy says what becomes of it.
    pub(super) fn make(approved: &[PathBuf]) -> Self {
        Self { _made: approved.iter().filter_map(|path| Placeholder::make(path)).collect() }
    }
}

impl Placeholder {
    fn make(path: &Path) -> Option<Self> {
        if !path.is_absolute() {
            return None;
        }
        // O_EXCL: nothing that exists is opened, and no symbolic link is followed.
        let file: File = OpenOptions::new().write(true).create_new(true).open(path).ok()?;
        Some(Self { path: path.to_path_buf(), made: Stamp::of(&file.metadata().ok()?) })
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let untouched = std::fs::symlink_metadata(&self.path).is_ok_and(|meta| Stamp::of(&meta) == self.made);
        if untouched && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "an approved file that was not used could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_missing_is_made_and_only_what_is_untouched_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("there"), "kept").unwrap();
        let names = ["there", "used", "unused", "no/parent"].map(path);
        let placeholders = Placeholders::make(&names);
        assert!(path("used").exists() && path("unused").exists());
        std::fs::write(path("used"), "x").unwrap();
        drop(placeholders);
        assert_eq!(std::fs::read_to_string(path("there")).unwrap(), "kept");
        assert_eq!(std::fs::read_to_string(path("used")).unwrap(), "x");
        assert!(!path("unused").exists() && !path("no").exists());
    }
}
