//! A bounded look through a writable root for repositories and settings: breadth first, so that what is near counts.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::look::{self, is_directory, is_file};
use super::protect::Discovery;

/// Directory entries read in all roots together. A flat directory of 100 000 files is left after this many.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// Never looked into, whatever the root: kernel file systems that may not end.
pub(super) const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

impl Discovery<'_> {
    /// Scans every root.
    pub(super) fn scan(&mut self) {
        let mut left = Left { directories: self.protection.bounds.directories, entries: MAX_ENTRIES };
        for root in self.roots.clone() {
            if is_directory(&root) {
                self.scan_root(&root, &mut left);
            }
        }
        self.open_commons();
    }

    fn scan_root(&mut self, root: &Path, left: &mut Left) {
        let mut queue = VecDeque::from([(root.to_owned(), 0)]);
        while let Some((directory, depth)) = queue.pop_front() {
            if !self.done.insert(directory.clone()) {
                continue;
            }
            if left.directories == 0 || left.entries == 0 {
                self.looked_in_part(root);
                return;
            }
            left.directories -= 1;
            let goes_on = depth < self.protection.bounds.depth;
            let entries = if goes_on { self.entries(&directory, left) } else { Entries::default() };
            let repository = self.directory(&directory, depth == 0, &entries);
            if repository == Repository::Bare || !goes_on {
                continue;
            }
            for child in entries.directories {
                queue.push_back((child, depth + 1));
            }
            if left.entries == 0 {
                self.looked_in_part(root);
            }
        }
    }

    fn looked_in_part(&mut self, root: &Path) {
        self.findings.notes.insert(format!(
            "{} is large: nested repositories and settings were looked for in part of it only ({} directories or \
             {MAX_ENTRIES} entries)",
            root.display(),
            self.protection.bounds.directories
        ));
    }

    /// Deals with one directory; `top` when it is a writable root.
    fn directory(&mut self, directory: &Path, top: bool, entries: &Entries) -> Repository {
        let repository = self.repository(directory, top, entries);
        let watch = top || repository != Repository::None;
        self.settings(directory, watch, |name| watch || entries.may_have(name));
        repository
    }

    fn repository(&mut self, directory: &Path, top: bool, entries: &Entries) -> Repository {
        if !top && !entries.may_have(".git") && !entries.may_have("HEAD") {
            return Repository::None;
        }
        let git = directory.join(".git");
        match look::at(&git) {
            Ok(meta) if meta.is_dir() => {
                self.git_directory(&git, directory);
                return Repository::Work;
            }
            Ok(meta) if meta.is_file() => {
                self.git_pointer(&git);
                return Repository::Work;
            }
            Ok(_) => {
                self.link(&git, "a link to a repository, which could be re-aimed", self.protection.on_appear());
                if let Some(target) = super::protect::directory_at(self.resolver, &git)
                    && self.in_root(&target)
                {
                    self.git_directory(&target, directory);
                }
                return Repository::Work;
            }
            Err(_) => {}
        }
        let bare = is_file(&directory.join("HEAD"))
            && is_directory(&directory.join("objects"))
            && is_directory(&directory.join("refs"));
        if bare {
            self.git_directory(directory, directory);
            return Repository::Bare;
        }
        if top {
            self.name(
                directory,
                ".git",
                "git",
                "a repository planted here would be used by every git command",
                None,
                true,
            );
        }
        Repository::None
    }

    fn entries(&self, directory: &Path, left: &mut Left) -> Entries {
        let mut found = Entries::default();
        let Ok(entries) = look::list(directory) else { return found };
        let (mut names, mut whole) = (BTreeSet::new(), true);
        for entry in entries {
            whole &= entry.is_ok() && left.entries > 0;
            if left.entries == 0 {
                break;
            }
            let Ok(entry) = entry else { continue };
            left.entries -= 1;
            let name = entry.file_name();
            let skipped =
                name == ".git" || name.to_str().is_some_and(|name| self.protection.bounds.skip.contains(name));
            if !skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                if !KERNEL.iter().any(|kernel| path.as_path() == Path::new(kernel)) {
                    found.directories.push(path);
                }
            }
            names.insert(name);
        }
        found.directories.sort();
        found.names = whole.then_some(names);
        found
    }
}

/// What a directory holds.
#[derive(Default)]
struct Entries {
    /// Every name; `None` when it was not read to its end.
    names: Option<BTreeSet<OsString>>,
    /// Directories to look into, sorted.
    directories: Vec<PathBuf>,
}

impl Entries {
    /// Whether a path beneath the directory may exist. Two dozen names are protected, and hardly any directory has one.
    fn may_have(&self, path: &str) -> bool {
        let first = Path::new(path).components().next();
        let (Some(names), Some(first)) = (&self.names, first) else { return true };
        names.contains(first.as_os_str())
    }
}

/// What is left of the bounds.
struct Left {
    directories: usize,
    entries: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repository {
    None,
    Work,
    Bare,
}
