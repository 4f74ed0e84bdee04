//! The few facts about paths that a plan depends on, behind a trait so that tests can make them up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::policy::look;

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

    /// What stands directly beneath `/`.
    ///
    /// # Errors
    /// When it cannot be listed: what was left out would be refused to every command, which would look like a denial.
    fn top_level(&self) -> std::io::Result<Vec<PathBuf>>;

    /// The file that resolvers read (`/etc/resolv.conf`), every symbolic link resolved; `None` where there is none.
    fn resolver_settings(&self) -> Option<PathBuf>;

    /// Names that Unix sockets of host processes were bound to, absolute, as they were given.
    fn socket_names(&self) -> BTreeSet<PathBuf>;

    /// The socket that stands at such a name now, every symbolic link resolved.
    fn socket(&self, name: &Path) -> Option<PathBuf>;
}

/// The real host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostWorld;

impl World for HostWorld {
    fn kind(&self, path: &Path) -> PathKind {
        // Not noted: a plan asks about paths of its policy only, which noted them.
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::Other,
            Err(_) => PathKind::Missing,
        }
    }

    fn top_level(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut paths: Vec<_> =
            look::list(Path::new("/"))?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort_unstable();
        Ok(paths)
    }

    fn resolver_settings(&self) -> Option<PathBuf> {
        std::fs::canonicalize("/etc/resolv.conf").ok()
    }

    fn socket_names(&self) -> BTreeSet<PathBuf> {
        // Without /proc nothing can be confined at all, and the launcher says so first.
        crate::host::socket_names().unwrap_or_default()
    }

    fn socket(&self, name: &Path) -> Option<PathBuf> {
        use std::os::unix::fs::FileTypeExt;
        let resolved = std::fs::canonicalize(name).ok()?;
        std::fs::symlink_metadata(&resolved).is_ok_and(|meta| meta.file_type().is_socket()).then_some(resolved)
    }
}
