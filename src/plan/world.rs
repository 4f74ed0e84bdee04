//! The few facts about paths that a plan depends on, behind a trait so that tests can make them up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing.
    Missing,
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

/// Facts about the host's paths.
pub trait World {
    /// What stands at an absolute path, without following a final symbolic link.
    fn kind(&self, path: &Path) -> PathKind;

    /// Unix sockets of host processes that have a path.
    fn host_sockets(&self) -> BTreeSet<PathBuf>;
}

/// The real host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostWorld;

impl World for HostWorld {
    fn kind(&self, path: &Path) -> PathKind {
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::Other,
            Err(_) => PathKind::Missing,
        }
    }

    fn host_sockets(&self) -> BTreeSet<PathBuf> {
        // A host that hides its sockets from us is reported by the gap, not by an empty list: see `gaps`.
        crate::host::pathname_sockets().unwrap_or_default()
    }
}
