//! Repositories that were not there when the policy was resolved: the same bounded look as before, through names alone.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::git::{MODULE_DEPTH, subdirectories};
use super::look::is_file;
use super::scan::{KERNEL, MAX_ENTRIES};
use super::{EffectivePolicy, Origin, PathAccess, ScanBounds};

/// The name of a repository's directory, file or link.
const GIT: &str = ".git";

/// What git itself takes for a repository, wherever it lies.
const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

impl EffectivePolicy {
    /// Repositories below the writable roots that were not there when this policy was resolved, sorted: `.git` of any
    /// kind, the directory of a bare one, or that of a submodule in the repository it belongs to. `since` is the time of
    /// that resolution or a little before.
    ///
    /// Bounded like the look before the run, so a repository in a corner of a very large workspace may be missed. No
    /// symbolic link is followed.
    #[must_use]
    pub fn appeared_repositories(&self, since: SystemTime) -> Vec<PathBuf> {
        let roots: BTreeSet<&Path> = self
            .rules
            .iter()
            .filter(|rule| rule.access == PathAccess::Write && !matches!(rule.origin, Origin::Discovered { .. }))
            .map(|rule| rule.path.as_path())
            .filter(|path| self.decide(path).writable)
            .collect();
        let known = self
            .pinned
            .iter()
            .chain(self.watched.iter().map(|name| &name.path))
            .chain(self.rules.iter().filter(|rule| rule.access != PathAccess::Write).map(|rule| &rule.path))
            .map(PathBuf::as_path)
            .collect();
        let since = since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed();
        let mut look = Look {
            bounds: &self.scan,
            known,
            since,
            entries: MAX_ENTRIES,
            seen: HashSet::new(),
            found: BTreeSet::new(),
        };
        let mut directories = self.scan.directories;
        for root in roots {
            look.root(root, &mut directories);
        }
        look.found.into_iter().collect()
    }
}

struct Look<'a> {
    bounds: &'a ScanBounds,
    known: HashSet<&'a Path>,
    since: i64,
    entries: usize,
    seen: HashSet<PathBuf>,
    found: BTreeSet<PathBuf>,
}

impl Look<'_> {
    fn root(&mut self, root: &Path, directories: &mut usize) {
        let mut queue = VecDeque::from([(root.to_owned(), 0)]);
        while let Some((directory, depth)) = queue.pop_front() {
            if *directories == 0 || self.entries == 0 {
                return;
            }
            if !self.seen.insert(directory.clone()) {
                continue;
            }
            *directories -= 1;
            let Ok(meta) = directory.symlink_metadata() else { continue };
            // Two links and an old change: it has no subdirectory and nothing was put into it. (Btrfs always has one.)
            if !meta.is_dir() || (meta.nlink() == 2 && meta.ctime() < self.since) {
                continue;
            }
            for child in self.read(&directory) {
                if depth < self.bounds.depth {
                    queue.push_back((directory.join(child), depth + 1));
                }
            }
        }
    }

    /// Notes a repository that is new, and gives the subdirectories to look into.
    fn read(&mut self, directory: &Path) -> Vec<OsString> {
        let mut children = Vec::new();
        let mut bare = 0;
        let Ok(entries) = std::fs::read_dir(directory) else { return children };
        for entry in entries.flatten() {
            if self.entries == 0 {
                break;
            }
            self.entries -= 1;
            let name = entry.file_name();
            if name == GIT {
                let git = directory.join(GIT);
                self.modules(&git.join("modules"), MODULE_DEPTH);
                self.candidate(git);
                continue;
            }
            bare += usize::from(BARE.iter().any(|part| name == *part));
            let skipped = name.to_str().is_some_and(|name| self.bounds.skip.contains(name));
            let kernel = || KERNEL.iter().any(|kernel| directory.join(&name) == Path::new(kernel));
            if !skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) && !kernel() {
                children.push(name);
            }
        }
        if bare == BARE.len() {
            self.candidate(directory.to_owned());
            children.clear();
        }
        children
    }

    /// The repositories of submodules: their checkouts, which point to them, may lie anywhere or be gone.
    fn modules(&mut self, directory: &Path, depth: usize) {
        for module in subdirectories(directory) {
            if self.entries == 0 || depth == 0 {
                return;
            }
            self.entries -= 1;
            if is_file(&module.join("HEAD")) {
                self.modules(&module.join("modules"), depth - 1);
                self.candidate(module);
            } else {
                self.modules(&module, depth - 1);
            }
        }
    }

    /// A repository is new when the policy does not know it and it changed since: where the look before the run did not
    /// reach everything, an old one must not be taken for new.
    fn candidate(&mut self, repository: PathBuf) {
        let changed = repository.symlink_metadata().is_ok_and(|meta| meta.ctime() >= self.since);
        if changed && !self.known.contains(repository.as_path()) {
            self.found.insert(repository);
        }
    }
}
