//! Names protected inside a writable root: what makes other programs run code later.
//!
//! The names are data of the policy (`[protect]`); this module finds them on the host when the policy is resolved.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::PathAccess;
use super::canon::{Found, Resolver};
use super::error::PolicyError;
use super::lines::Lines;
use super::look;

/// What becomes of a protected name that the command itself newly created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnAppear {
    /// It stays, and the result says so.
    #[default]
    Keep,
    /// It is moved aside, and the result says where.
    SetAside,
    /// It is removed, and the result says so.
    Remove,
}

/// A protected name that no mount can hold, because nothing (or only a symbolic link) is there. It is looked at after
/// the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Watched {
    /// The name, absolute. Its parents are free of links as far as they exist.
    pub path: PathBuf,
    /// It is a symbolic link now, leading here as `readlink` has it; `None` when nothing is there.
    pub link: Option<PathBuf>,
    /// Why it is protected.
    pub reason: String,
    /// What becomes of it when the command created or changed it.
    pub on_appear: OnAppear,
}

/// How far writable roots are looked through for repositories and settings, before a run and after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScanBounds {
    /// Directories below a root.
    pub depth: usize,
    /// Directories in all.
    pub directories: usize,
    /// Names of directories that are not looked into.
    pub skip: BTreeSet<String>,
}

/// One name of the `[protect]` table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProtectedName {
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) on_appear: Option<OnAppear>,
}

/// The `[protect]` table as a file has it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProtect {
    #[serde(default)]
    names: Vec<Spanned<ProtectedName>>,
    #[serde(default)]
    home_names: Vec<Spanned<ProtectedName>>,
    skip: Option<Vec<String>>,
    on_appear: Option<OnAppear>,
    scan_depth: Option<usize>,
    scan_directories: Option<usize>,
}

/// The `[protect]` table of one layer; unset means that the layer beneath holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProtectTable {
    names: Vec<ProtectedName>,
    home_names: Vec<ProtectedName>,
    skip: Option<Vec<String>>,
    on_appear: Option<OnAppear>,
    scan_depth: Option<usize>,
    scan_directories: Option<usize>,
}

impl RawProtect {
    /// Refuses names that are no relative path beneath the root.
    pub(super) fn checked(self, lines: &Lines<'_>) -> Result<ProtectTable, PolicyError> {
        for entry in self.names.iter().chain(&self.home_names) {
            let name = Path::new(&entry.get_ref().name);
            let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
            if !plain || name.as_os_str().is_empty() {
                return Err(PolicyError::Value {
                    place: lines.place(entry.span().start),
                    problem: format!("'{}' is no protected name", name.display()),
                    remedy: "write a name, or a path below the root without '..'".into(),
                });
            }
        }
        let plain = |list: Vec<Spanned<ProtectedName>>| list.into_iter().map(Spanned::into_inner).collect();
        Ok(ProtectTable {
            names: plain(self.names),
            home_names: plain(self.home_names),
            skip: self.skip,
            on_appear: self.on_appear,
            scan_depth: self.scan_depth,
            scan_directories: self.scan_directories,
        })
    }
}

/// The merged `[protect]` tables.
#[derive(Debug, Default)]
pub(super) struct Protection {
    pub(super) names: Vec<ProtectedName>,
    home_names: Vec<ProtectedName>,
    on_appear: OnAppear,
    pub(super) bounds: ScanBounds,
}

impl Protection {
    /// What becomes of refused names that appear, where a name does not say itself.
    pub(super) const fn on_appear(&self) -> OnAppear {
        self.on_appear
    }

    /// Adds a layer: names add up, single values override.
    pub(super) fn add(&mut self, table: &ProtectTable) {
        self.names.extend(table.names.iter().cloned());
        self.home_names.extend(table.home_names.iter().cloned());
        self.bounds.skip.extend(table.skip.iter().flatten().cloned());
        self.on_appear = table.on_appear.unwrap_or(self.on_appear);
        self.bounds.depth = table.scan_depth.unwrap_or(self.bounds.depth);
        self.bounds.directories = table.scan_directories.unwrap_or(self.bounds.directories);
    }
}

/// A rule that the host made necessary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Discovered {
    pub(super) path: PathBuf,
    pub(super) access: PathAccess,
    pub(super) what: String,
    pub(super) reason: String,
}

/// What looking at the host found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) rules: Vec<Discovered>,
    pub(super) watched: BTreeSet<Watched>,
    pub(super) pinned: BTreeSet<PathBuf>,
    pub(super) notes: BTreeSet<String>,
}

/// Looking at the host: what it needs and what it has found.
pub(super) struct Discovery<'a> {
    pub(super) protection: &'a Protection,
    pub(super) resolver: &'a mut Resolver,
    pub(super) home: PathBuf,
    /// Writable directories, resolved.
    pub(super) roots: &'a BTreeSet<PathBuf>,
    pub(super) findings: Findings,
    /// Directories outside every root that were opened for git's data.
    pub(super) opened: BTreeSet<PathBuf>,
    /// Common directories outside every root whose linked worktrees are in the roots.
    pub(super) commons: BTreeSet<PathBuf>,
    /// Directories whose protected names were dealt with.
    pub(super) done: BTreeSet<PathBuf>,
}

impl<'a> Discovery<'a> {
    pub(super) fn new(
        protection: &'a Protection,
        resolver: &'a mut Resolver,
        home: PathBuf,
        roots: &'a BTreeSet<PathBuf>,
    ) -> Self {
        Self {
            protection,
            resolver,
            home,
            roots,
            findings: Findings::default(),
            opened: BTreeSet::new(),
            commons: BTreeSet::new(),
            done: BTreeSet::new(),
        }
    }

    /// True when the path lies in (or is) a writable root.
    pub(super) fn in_root(&self, path: &Path) -> bool {
        path.ancestors().any(|ancestor| self.roots.contains(ancestor))
    }

    /// True when the path lies in a writable root or in a directory opened for git's data.
    fn writable(&self, path: &Path) -> bool {
        self.in_root(path) || path.ancestors().any(|ancestor| self.opened.contains(ancestor))
    }

    /// Protects the settings names of a directory that may exist in it; `watch` also watches those that do not.
    pub(super) fn settings(&mut self, directory: &Path, watch: bool, may_exist: impl Fn(&str) -> bool) {
        for name in self.protection.names.iter().filter(|name| may_exist(&name.name)) {
            self.name(directory, &name.name, "editor or agent settings", &name.reason, name.on_appear, watch);
        }
    }

    /// Protects start-up files when the home directory can be written.
    pub(super) fn home(&mut self, home: &Path) {
        if self.in_root(home) {
            for name in &self.protection.home_names {
                self.name(home, &name.name, "start-up file", &name.reason, name.on_appear, true);
            }
        }
    }

    /// Protects one name below a directory.
    pub(super) fn name(
        &mut self,
        directory: &Path,
        name: impl AsRef<Path>,
        what: &str,
        reason: &str,
        on_appear: Option<OnAppear>,
        watch: bool,
    ) {
        let named = directory.join(name);
        let on_appear = on_appear.unwrap_or(self.protection.on_appear);
        let parent = self.resolver.resolve(named.parent().unwrap_or(directory));
        let Some(last) = named.file_name() else { return };
        let at = parent.path.join(last);
        match look::at(&at) {
            Err(_) if watch && self.writable(&at) => {
                self.findings.watched.insert(Watched { path: at, link: None, reason: reason.to_owned(), on_appear });
            }
            Err(_) => {}
            Ok(meta) if meta.file_type().is_symlink() => {
                self.link(&at, reason, on_appear);
                let target = self.resolver.resolve(&at);
                if target.exists() && self.writable(&target.path) {
                    self.deny(target.path, what, reason);
                }
            }
            Ok(meta) => {
                if meta.is_file() && meta.nlink() > 1 {
                    self.findings.notes.insert(format!(
                        "{} is protected but has {} hard links: another name of the same file may be writable",
                        at.display(),
                        meta.nlink()
                    ));
                }
                self.deny(at, what, reason);
            }
        }
    }

    /// Watches a protected name that is a symbolic link: no mount can hold the link itself.
    pub(super) fn link(&mut self, at: &Path, reason: &str, on_appear: OnAppear) {
        let link = look::link(at).ok();
        self.findings.notes.insert(format!(
            "{} is protected and a symbolic link: the link itself can be replaced, which is looked for after the run",
            at.display()
        ));
        self.findings.watched.insert(Watched { path: at.to_owned(), link, reason: reason.to_owned(), on_appear });
    }

    pub(super) fn deny(&mut self, path: PathBuf, what: &str, reason: &str) {
        self.add(path, PathAccess::DenyWrite, what, reason);
    }

    pub(super) fn add(&mut self, path: PathBuf, access: PathAccess, what: &str, reason: &str) {
        self.findings.rules.push(Discovered { path, access, what: what.to_owned(), reason: reason.to_owned() });
    }
}

/// Resolves a path and gives it when a directory is there.
pub(super) fn directory_at(resolver: &mut Resolver, path: &Path) -> Option<PathBuf> {
    let resolved = resolver.resolve(path);
    (resolved.found == Found::Directory).then_some(resolved.path)
}
