//! Resolving paths as the kernel does: symbolic links first, `..` after, and what does not exist by its name alone.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use super::look;

/// The kernel gives up after so many links (`ELOOP`); so do we.
const MAX_LINKS: usize = 40;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Directory,
    /// A file, socket, device: anything but a directory.
    Other,
    /// Nothing, or nothing that this user may look at; the errno says which.
    Missing(Errno),
}

/// What an errno means, in the words of the standard library.
pub(super) fn why(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

/// A path resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Absolute, free of links and of `..`, as far as it exists.
    pub(super) path: PathBuf,
    pub(super) found: Found,
    /// Every symbolic link passed on the way, by its own resolved location.
    pub(super) links: Vec<PathBuf>,
    /// The last component itself was a link.
    pub(super) ends_in_link: bool,
}

impl Resolved {
    pub(super) fn exists(&self) -> bool {
        !matches!(self.found, Found::Missing(_))
    }
}

/// Resolves many paths, looking at each directory once.
#[derive(Default)]
pub(super) struct Resolver {
    parents: HashMap<PathBuf, Resolved>,
}

impl Resolver {
    /// Resolves an absolute path.
    pub(super) fn resolve(&mut self, path: &Path) -> Resolved {
        self.walk(path, 0)
    }

    fn walk(&mut self, path: &Path, links: usize) -> Resolved {
        match path.components().next_back() {
            Some(Component::Normal(name)) => {
                let parent = self.parent(path.parent().unwrap_or(Path::new("/")), links);
                self.step(&parent, name, links)
            }
            Some(Component::ParentDir) => {
                let mut below = self.parent(path.parent().unwrap_or(Path::new("/")), links);
                if let Found::Other = below.found {
                    below.found = Found::Missing(Errno::ENOTDIR);
                }
                below.path.pop();
                below.ends_in_link = false;
                below
            }
            _ => Resolved { path: "/".into(), found: Found::Directory, links: Vec::new(), ends_in_link: false },
        }
    }

    fn parent(&mut self, path: &Path, links: usize) -> Resolved {
        if let Some(known) = self.parents.get(path) {
            return known.clone();
        }
        let resolved = self.walk(path, links);
        self.parents.insert(path.to_owned(), resolved.clone());
        resolved
    }

    fn step(&mut self, parent: &Resolved, name: &OsStr, links: usize) -> Resolved {
        let path = parent.path.join(name);
        let plain = |path, found| Resolved { path, found, links: parent.links.clone(), ends_in_link: false };
        if let Found::Missing(why) = &parent.found {
            return plain(path, Found::Missing(*why));
        }
        let kind = match look::at(&path) {
            Ok(meta) => meta.file_type(),
            Err(error) => return plain(path, Found::Missing(errno_of(&error))),
        };
        if kind.is_dir() {
            return plain(path, Found::Directory);
        }
        if !kind.is_symlink() {
            return plain(path, Found::Other);
        }
        match look::link(&path) {
            Ok(target) if links < MAX_LINKS => {
                let mut passed = parent.links.clone();
                passed.push(path);
                let resolved = self.walk(&parent.path.join(target), links + 1);
                passed.extend(resolved.links);
                Resolved { links: passed, ends_in_link: true, ..resolved }
            }
            Ok(_) => plain(path, Found::Missing(Errno::ELOOP)),
            Err(error) => plain(path, Found::Missing(errno_of(&error))),
        }
    }
}

/// A path with a NUL byte in it has no errno of its own; the kernel would not find it either.
fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::ENOENT, Errno::from_raw)
}

/// The path without `.` and doubled slashes; `..` stays, because only the file system knows where it leads.
pub(super) fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}
