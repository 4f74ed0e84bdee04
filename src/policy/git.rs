//! Git in all its shapes: which of its files make git run code, and which data a linked worktree needs outside its root.
//!
//! Git reads hooks and configuration from the *common* directory of a repository, and takes any directory for that
//! which a `commondir` file names; so that file counts as configuration, in a main repository too.
//! What a linked worktree writes was measured with strace and git 2.47: deleting any reference (`stash pop`, `rebase`,
//! `branch -d`) and `gc` create `packed-refs.lock`, `gc.pid` and `HEAD.lock` in the common directory itself, so that
//! directory must be writable, and what is not data in it is refused entry by entry.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::PathAccess;
use super::git_config;
use super::layers::PRIVATE;
use super::look::{self, is_directory, is_file};
use super::protect::{Discovery, OnAppear, directory_at};

/// Files of a git directory that decide what git executes.
///
/// A `commondir` that appears is never kept: git itself makes one only inside the data of a new linked worktree.
const CODE: [(&str, &str, OnAppear); 5] = [
    ("hooks", "git runs these programs", OnAppear::Keep),
    ("config", "it names programs that git runs (hooks, filters, pagers, ssh, fsmonitor)", OnAppear::Keep),
    ("config.worktree", "it is read as configuration", OnAppear::Keep),
    ("commondir", "it can move hooks and configuration to another directory", OnAppear::SetAside),
    ("info/attributes", "it attaches filters to files", OnAppear::Keep),
];

/// Entries of a common directory that a linked worktree may write: data, and the locks beside them.
const DATA: [&str; 9] = ["objects", "refs", "logs", "packed-refs", "info", "lfs", "rr-cache", "shallow", "gc.log"];

/// How deep module directories are looked for: a submodule's name may contain slashes.
pub(super) const MODULE_DEPTH: usize = 6;

/// A pointer file is one short line.
const MAX_POINTER: u64 = 8192;

impl Discovery<'_> {
    /// Protects the code of a git directory, its submodules and its worktrees. `top` is the directory it serves.
    pub(super) fn git_directory(&mut self, git: &Path, top: &Path) {
        if !self.done.insert(git.join("config")) {
            return;
        }
        self.findings.pinned.insert(git.to_owned());
        self.code(git);
        self.configured(&git.join("config"), top);
        self.modules(&git.join("modules"), MODULE_DEPTH);
        for worktree in subdirectories(&git.join("worktrees")) {
            self.worktree_admin(&worktree);
        }
    }

    /// What a git configuration makes git run or read besides.
    fn configured(&mut self, config: &Path, top: &Path) {
        let Some(text) = read_short(config, 1 << 18) else { return };
        for named in git_config::paths(&text) {
            let (base, what) = match named.kind {
                git_config::Kind::HooksPath => (top, "core.hooksPath of a repository: git runs these programs"),
                git_config::Kind::Include => {
                    (config.parent().unwrap_or(top), "included by a git configuration, and read as one")
                }
            };
            let path = match named.path.strip_prefix("~/") {
                Some(rest) => self.home.join(rest),
                None => base.join(&named.path),
            };
            // A path that ends in `..` has no name of its own; what it leads to has.
            let path = if path.file_name().is_some() { path } else { self.resolver.resolve(&path).path };
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let parent = self.resolver.resolve(parent).path;
            // A repository whose hooks are the directory it lies in would make that directory read-only: a command could
            // do that to its own workspace.
            if self.in_root(&parent) && !config.starts_with(parent.join(name)) {
                self.name(&parent, name, "git", what, None, true);
            }
        }
    }

    fn modules(&mut self, directory: &Path, depth: usize) {
        if depth == 0 {
            return;
        }
        for module in subdirectories(directory) {
            if is_file(&module.join("HEAD")) {
                self.git_directory(&module, &module);
            } else {
                self.modules(&module, depth - 1);
            }
        }
    }

    /// The administrative directory of a linked worktree that still exists.
    fn worktree_admin(&mut self, admin: &Path) {
        let Some(line) = read_line(&admin.join("gitdir")) else { return };
        let worktree = self.resolver.resolve(&admin.join(line));
        if !worktree.exists() {
            // `git gc` may prune it, and nobody runs git there.
            return;
        }
        if PRIVATE.iter().any(|private| worktree.path.starts_with(private)) && !self.in_root(&worktree.path) {
            let reason =
                "its worktree lies in a directory that is private here: git would take it for gone and prune it";
            self.deny_all_but(admin, &["logs"], reason);
        }
        self.findings.pinned.insert(admin.to_owned());
        for (name, reason, watch) in [
            ("config.worktree", "it is read as configuration", true),
            ("commondir", "it can move hooks and configuration to another directory", false),
            ("gitdir", "it says which worktree this is", false),
        ] {
            self.name(admin, name, "git worktree", reason, None, watch);
        }
    }

    /// A `.git` file: protected itself, and followed only to a directory that names it in turn.
    pub(super) fn git_pointer(&mut self, file: &Path) {
        let Some(directory) = file.parent() else { return };
        self.name(directory, ".git", "git", "it says where the repository is", None, true);
        let Some(target) = read_line(file).and_then(|line| line.strip_prefix("gitdir:").map(|to| to.trim().to_owned()))
        else {
            return;
        };
        let Some(data) = directory_at(self.resolver, &directory.join(&target)) else {
            self.findings
                .notes
                .insert(format!("{} points to {target}, which is no directory: nothing was opened", file.display()));
            return;
        };
        if self.in_root(&data) {
            // Inside a root it can be written anyway; what counts is that its code is protected.
            if is_file(&data.join("commondir")) {
                self.worktree_admin(&data);
            } else {
                self.git_directory(&data, directory);
            }
            return;
        }
        let opened = self.open_worktree(file, &data) || self.open_submodule(directory, &data);
        if !opened {
            self.findings.notes.insert(format!(
                "{} points to {}, which does not name it in turn or encloses a writable root: nothing was opened there; \
                 if that repository is meant, open it by name with --write",
                file.display(),
                data.display()
            ));
        }
    }

    /// Opens the data of a real linked worktree: the two must name each other, and the directory must lie where its
    /// common directory keeps worktrees.
    fn open_worktree(&mut self, file: &Path, data: &Path) -> bool {
        let Some(back) = read_line(&data.join("gitdir")) else { return false };
        let Some(common) = read_line(&data.join("commondir")) else { return false };
        let names_it = self.resolver.resolve(&data.join(back)).path == file;
        let Some(common) = directory_at(self.resolver, &data.join(common)) else { return false };
        let lies_there = data.parent() == Some(common.join("worktrees").as_path());
        if !names_it || !lies_there || !is_repository(&common) || self.surrounds_a_root(&common) {
            return false;
        }
        self.add(data.to_owned(), PathAccess::Write, "git worktree", "the data of this worktree: HEAD, index, logs");
        self.opened.insert(data.to_owned());
        self.worktree_admin(data);
        self.commons.insert(common);
        true
    }

    /// Opens for data alone every common directory that a worktree of the roots has; after the scan, because which
    /// worktrees are the roots' own is known only then.
    pub(super) fn open_commons(&mut self) {
        for common in std::mem::take(&mut self.commons) {
            self.open_common(&common);
        }
    }

    fn open_common(&mut self, common: &Path) {
        let reason = "the repository of this worktree: objects, references, their logs and locks";
        self.add(common.to_owned(), PathAccess::Write, "git worktree", reason);
        self.opened.insert(common.to_owned());
        self.findings.pinned.insert(common.to_owned());
        self.deny_all_but(common, &DATA, "of the repository, and no data that a worktree writes");
        self.code(common);
        for sibling in subdirectories(&common.join("worktrees")) {
            if !self.opened.contains(&sibling) {
                // `git gc` locks every worktree's HEAD and expires its log; nothing else of a sibling is written.
                let reason = "git gc creates a lock here to expire the log of this other worktree";
                self.add(sibling.clone(), PathAccess::Write, "git worktree", reason);
                self.opened.insert(sibling.clone());
                self.deny_all_but(&sibling, &["logs"], "of another worktree");
                self.name(&sibling, "config.worktree", "git worktree", "it is read as configuration", None, true);
            }
        }
    }

    /// Refuses every entry of an opened directory but these.
    fn deny_all_but(&mut self, directory: &Path, data: &[&str], reason: &str) {
        let Ok(entries) = look::list(directory) else { return };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            if !name.to_str().is_some_and(|name| data.contains(&name)) {
                self.name(directory, name, "git worktree", reason, None, false);
            }
        }
    }

    /// Protects, and watches where it is missing, what git executes or reads as configuration.
    fn code(&mut self, git: &Path) {
        for (name, reason, least) in CODE {
            let on_appear = least.max(self.protection.on_appear());
            self.name(git, name, "git", reason, Some(on_appear), true);
        }
    }

    /// A submodule whose superproject lies outside: its `core.worktree` must lead back to this checkout.
    fn open_submodule(&mut self, checkout: &Path, data: &Path) -> bool {
        if !is_repository(data) || self.surrounds_a_root(data) {
            return false;
        }
        let Some(text) = read_short(&data.join("config"), 1 << 18) else { return false };
        let Some(worktree) = git_config::worktree(&text) else { return false };
        if directory_at(self.resolver, &data.join(worktree)).as_deref() != Some(checkout) {
            return false;
        }
        self.add(data.to_owned(), PathAccess::Write, "git submodule", "the repository of this submodule");
        self.opened.insert(data.to_owned());
        self.findings.pinned.insert(data.to_owned());
        self.code(data);
        for nested in subdirectories(&data.join("modules")) {
            self.deny(nested, "git submodule", "the repository of another submodule");
        }
        true
    }

    /// Opening a directory above a root would open more than the root.
    fn surrounds_a_root(&self, directory: &Path) -> bool {
        self.roots.iter().any(|root| root.starts_with(directory))
    }
}

/// Git's own test for a repository: these three.
fn is_repository(directory: &Path) -> bool {
    is_file(&directory.join("HEAD"))
        && is_directory(&directory.join("objects"))
        && is_directory(&directory.join("refs"))
}

/// Real subdirectories (no links), sorted.
pub(super) fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = look::list(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .take(1000)
        .collect();
    found.sort();
    found
}

/// The text of a regular file of at most `limit` bytes.
fn read_short(path: &Path, limit: u64) -> Option<String> {
    let meta = look::at(path).ok()?;
    if !meta.is_file() || meta.len() > limit {
        return None;
    }
    look::text(path).ok()
}

/// The first line of a short file.
fn read_line(path: &Path) -> Option<String> {
    read_short(path, MAX_POINTER)?.lines().next().map(|line| line.trim_end().to_owned())
}
