//! All that can be seen of a path without touching it.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::verify::probe::ATTRIBUTE;

pub(super) fn state(path: Option<&Path>) -> String {
    let Some(path) = path else { return String::new() };
    let Ok(meta) = path.symlink_metadata() else { return "missing".to_owned() };
    let content = if meta.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    let owner = (meta.uid(), meta.gid(), meta.nlink());
    format!("{:o} {owner:?} {times:?} {content:?} {:?}", meta.mode(), attribute(path))
}

/// The extended attribute that is tried.
pub(super) fn attribute(path: &Path) -> Vec<u8> {
    let mut value = vec![0; 16];
    let length = rustix::fs::lgetxattr(path, ATTRIBUTE, &mut value).unwrap_or(0);
    value.truncate(length);
    value
}
