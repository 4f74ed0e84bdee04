//! Unix sockets of the host that have a path.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use procfs::ProcError;

/// Paths of the pathname sockets of this network namespace that exist now, stream and datagram alike.
///
/// A read-only mount does not stop `connect(2)` on a socket, and Landlock does only from ABI 9, so the planner covers
/// these one by one. Source: `/proc/net/unix` (proc_net(5)).
///
/// # Errors
/// When `/proc/net/unix` cannot be read.
pub fn pathname_sockets() -> Result<BTreeSet<PathBuf>, ProcError> {
    let entries = procfs::net::unix()?;
    Ok(entries
        .into_iter()
        .filter_map(|entry| entry.path)
        .filter(|path| path.is_absolute() && is_socket(path))
        .filter_map(|path| std::fs::canonicalize(path).ok())
        .collect())
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}
