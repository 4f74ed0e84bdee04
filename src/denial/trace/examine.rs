//! From a request to an outcome: reads what the registers point at, finds the object, asks what refuses it.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use super::cache::Parent;
use super::calls::{AT_FDCWD, Object, PathArg, Request, low};
use super::files::{self, Refusal};
use super::process;
use super::resolve::{self, Located, View, split, text_of};
use super::run::Run;
use crate::denial::{DenialKind, Target};

/// `RESOLVE_IN_ROOT` of `openat2`.
const RESOLVE_IN_ROOT: u64 = 0x10;
/// `RESOLVE_CACHED`: says nothing about where the path leads.
const RESOLVE_CACHED: u64 = 0x20;

/// Longest name in a directory, bytes.
const NAME_MAX: usize = 255;

/// What comes of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The sandbox does not refuse it.
    Allowed,
    /// The sandbox refuses it, with this errno.
    Refused(DenialKind, Target, Errno),
    /// The same of what takes an administrator on the host as well.
    Privileged(DenialKind, Target, Errno),
}

/// Why nothing is said of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It fails for an ordinary reason, whoever allows it.
    Fails,
    /// Its arguments could not be read.
    Unreadable(Errno),
}

impl Trouble {
    /// Of reading the process's memory: an address that the kernel will not read either.
    pub(crate) const fn of_memory(errno: Errno) -> Self {
        match errno {
            Errno::EFAULT | Errno::ENAMETOOLONG => Self::Fails,
            other => Self::Unreadable(other),
        }
    }

    /// Of a lookup: the kernel's own lookup ends the same way.
    const fn of_lookup(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES => Self::Fails,
            other => Self::Unreadable(other),
        }
    }
}

impl From<Option<Refusal>> for Outcome {
    fn from(refusal: Option<Refusal>) -> Self {
        refusal.map_or(Self::Allowed, |r| Self::Refused(r.kind, Target::Path(r.path), r.errno))
    }
}

/// A path argument in full: absolute, unresolved.
pub(crate) struct FullPath {
    pub(crate) absolute: Vec<u8>,
}

impl Run {
    /// Judges one request of one thread.
    pub(crate) fn examine(&mut self, tid: u32, request: Request) -> Result<Outcome, Trouble> {
        let now = Instant::now();
        match request {
            Request::Open { at, flags } => self.examine_open(tid, at, flags, now),
            Request::Open2 { at, how, size } => self.examine_open2(tid, at, how, size, now),
            Request::Make { at, directory } => {
                self.on_path(tid, at, false, now, |run, found| files::make(&run.watch, found, directory))
            }
            Request::MakeDevice { at } => self.examine_device(tid, at, now),
            Request::Symlink { at } => {
                let outcome = self.on_path(tid, at, false, now, |run, found| files::make(&run.watch, found, false));
                self.cache.forget_all(tid, now);
                outcome
            }
            Request::Remove { at, directory } => {
                self.on_path(tid, at, false, now, |run, found| files::remove(&run.watch, found, directory))
            }
            Request::Truncate { at } => {
                self.on_path(tid, at, true, now, |run, found| files::truncate(&run.watch, found))
            }
            Request::Metadata(object) => self.examine_metadata(tid, object, now),
            Request::Link { old, new, follow, empty } => self.examine_link(tid, old, new, follow, empty, now),
            Request::Rename { old, new, flags } => self.examine_rename(tid, old, new, flags, now),
            Request::ChangeDirectory => {
                self.cache.forget_directories(tid, now);
                Ok(Outcome::Allowed)
            }
            Request::ChangeRoot => {
                self.cache.forget_all(tid, now);
                self.own_roots = true;
                Ok(Outcome::Allowed)
            }
            other => self.examine_peer(tid, other, now),
        }
    }

    /// Reads a path argument and puts it behind its directory.
    pub(crate) fn path(&mut self, tid: u32, at: PathArg, now: Instant) -> Result<FullPath, Trouble> {
        let text = process::path(tid, at.text).map_err(Trouble::of_memory)?;
        self.full_path(tid, at, text, now)
    }

    /// Puts a path behind the directory of its argument.
    pub(crate) fn full_path(
        &mut self,
        tid: u32,
        at: PathArg,
        text: Vec<u8>,
        now: Instant,
    ) -> Result<FullPath, Trouble> {
        if text.is_empty() {
            return Err(Trouble::Fails);
        }
        if text.starts_with(b"/") {
            return Ok(FullPath { absolute: text });
        }
        let base = if at.dirfd == AT_FDCWD { self.cwd(tid, now) } else { process::directory(tid, at.dirfd) };
        let base = base.map_err(Trouble::of_lookup)?;
        Ok(FullPath { absolute: resolve::join(&base, &text) })
    }

    /// The thread's root, opened once for a run unless roots can differ.
    fn ensure_view(&mut self, tid: u32) -> Result<(), Trouble> {
        if self.own_roots || self.view.is_none() {
            self.view = Some(View::of(tid).map_err(Trouble::Unreadable)?);
        }
        Ok(())
    }

    pub(crate) fn view(&mut self, tid: u32) -> Result<&View, Trouble> {
        self.ensure_view(tid)?;
        self.view.as_ref().ok_or(Trouble::Fails)
    }

    pub(crate) fn locate(&mut self, tid: u32, path: &FullPath, follow: bool) -> Result<Located, Trouble> {
        self.view(tid)?.locate(tid, &path.absolute, follow).map_err(|errno| match errno {
            // Too long for anybody; a path of many names is too long only because it was put behind its directory.
            Errno::ENAMETOOLONG if path.absolute.split(|&b| b == b'/').any(|name| name.len() > NAME_MAX) => {
                Trouble::Fails
            }
            other => Trouble::of_lookup(other),
        })
    }

    fn on_path(
        &mut self,
        tid: u32,
        at: PathArg,
        follow: bool,
        now: Instant,
        judge: impl FnOnce(&Self, &Located) -> Option<Refusal>,
    ) -> Result<Outcome, Trouble> {
        let path = self.path(tid, at, now)?;
        if self.surely_allowed(tid, &path, follow, now)? {
            return Ok(Outcome::Allowed);
        }
        let found = self.locate(tid, &path, follow)?;
        Ok(judge(self, &found).into())
    }

    /// A device node: refused as any other name, or where names may be made, for what it is.
    fn examine_device(&mut self, tid: u32, at: PathArg, now: Instant) -> Result<Outcome, Trouble> {
        let path = self.path(tid, at, now)?;
        let found = self.locate(tid, &path, false)?;
        let refusal = files::make(&self.watch, &found, false).or_else(|| files::device(&self.watch, &found));
        Ok(refusal.map_or(Outcome::Allowed, |r| Outcome::Privileged(r.kind, Target::Path(r.path), r.errno)))
    }

    /// The short way: the directory is known, the policy lets the name be written, and no link stands there.
    fn surely_allowed(&mut self, tid: u32, path: &FullPath, follow: bool, now: Instant) -> Result<bool, Trouble> {
        if !self.own_roots && self.watch.is_open_device(&path.absolute) {
            return Ok(true);
        }
        let Some((whole, uniform)) = self.quick_path(tid, path, now)? else { return Ok(false) };
        let allowed = uniform || (self.watch.may_write(&whole) && !self.watch.rule_beneath(&whole));
        let through = follow || path.absolute.ends_with(b"/");
        Ok(allowed && !(through && resolve::is_link(self.view(tid)?, &whole)))
    }

    /// A path with its directory resolved, and whether every child of that directory may be written. `None` when it
    /// takes the long way.
    fn quick_path(&mut self, tid: u32, path: &FullPath, now: Instant) -> Result<Option<(PathBuf, bool)>, Trouble> {
        let Some(cut) = split(&path.absolute) else { return Ok(None) };
        let name = OsStr::from_bytes(cut.name);
        self.ensure_view(tid)?;
        if !self.own_roots
            && let Some(parent) = self.cache.parent(cut.parent, now)
        {
            return Ok(Some((parent.within.join(name), parent.uniform)));
        }
        let Some(directory) = self.view(tid)?.directory(cut.parent).ok() else { return Ok(None) };
        let Ok(within) = text_of(&directory) else { return Ok(None) };
        let parent = Parent { uniform: self.watch.uniform(&within), within };
        let answer = (parent.within.join(name), parent.uniform);
        self.cache.keep_parent(cut.parent, now, parent);
        Ok(Some(answer))
    }

    fn examine_open(&mut self, tid: u32, at: PathArg, flags: u32, now: Instant) -> Result<Outcome, Trouble> {
        if files::open_only_reads(flags) {
            return Ok(Outcome::Allowed);
        }
        let follow = files::open_follows(flags);
        self.on_path(tid, at, follow, now, |run, found| files::open(&run.watch, found, flags))
    }

    fn examine_open2(&mut self, tid: u32, at: PathArg, how: u64, size: u64, now: Instant) -> Result<Outcome, Trouble> {
        if size < 24 {
            return Err(Trouble::Fails);
        }
        let words: [u8; 24] = process::exactly(tid, how).map_err(Trouble::of_memory)?;
        let word = |at: usize| words[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let (flags, resolve) = (low(word(0)), word(16) & !RESOLVE_CACHED);
        if resolve == 0 || files::open_only_reads(flags) {
            return self.examine_open(tid, at, flags, now);
        }
        let text = process::path(tid, at.text).map_err(Trouble::of_memory)?;
        let base = base(tid, at.dirfd).map_err(Trouble::of_lookup)?;
        let follow = files::open_follows(flags);
        if !permitted(&base, &text, resolve, follow) {
            return Err(Trouble::Fails);
        }
        let found = if resolve & RESOLVE_IN_ROOT != 0 {
            let absolute = resolve::join(Path::new(""), &text);
            View { root: base }.locate(tid, &absolute, follow).map_err(Trouble::of_lookup)?
        } else {
            let path = self.path(tid, at, now)?;
            self.locate(tid, &path, follow)?
        };
        Ok(files::open(&self.watch, &found, flags).into())
    }

    fn examine_metadata(&mut self, tid: u32, object: Object, now: Instant) -> Result<Outcome, Trouble> {
        let (at, follow) = match object {
            Object::Path { at, empty: true, .. } if at.text == 0 || self.is_empty(tid, at)? => {
                if at.dirfd == AT_FDCWD {
                    let path = self.cwd(tid, now).map_err(Trouble::of_lookup)?;
                    let absolute = resolve::join(&path, b".");
                    let found = self.locate(tid, &FullPath { absolute }, true)?;
                    return Ok(files::metadata(&self.watch, &found).into());
                }
                return self.examine_metadata(tid, Object::Descriptor(at.dirfd), now);
            }
            Object::Path { at, follow, .. } => (at, follow),
            Object::Descriptor(fd) => {
                let found = resolve::descriptor(tid, fd).map_err(Trouble::of_lookup)?;
                return Ok(files::metadata(&self.watch, &found).into());
            }
        };
        let mut missing = false;
        let outcome = self.on_path(tid, at, follow, now, |run, found| {
            missing = matches!(found, Located::Name(place) if place.target.is_none());
            files::metadata(&run.watch, found)
        })?;
        // What follows a file that could not be made is no further work.
        if missing { Err(Trouble::Fails) } else { Ok(outcome) }
    }

    /// Where an object lies. `None` for what has no path (a pipe), an error where the kernel's own lookup fails.
    pub(crate) fn find(&mut self, tid: u32, object: Object) -> Result<Option<PathBuf>, Trouble> {
        let now = Instant::now();
        let (at, follow) = match object {
            Object::Descriptor(fd) => {
                return resolve::descriptor(tid, fd).map(|found| found.path()).map_err(Trouble::of_lookup);
            }
            Object::Path { at, empty: true, .. } if at.text == 0 || self.is_empty(tid, at)? => {
                if at.dirfd == AT_FDCWD {
                    return self.cwd(tid, now).map(Some).map_err(Trouble::of_lookup);
                }
                return self.find(tid, Object::Descriptor(at.dirfd));
            }
            Object::Path { at, follow, .. } => (at, follow),
        };
        let path = self.path(tid, at, now)?;
        Ok(self.locate(tid, &path, follow)?.path())
    }

    fn is_empty(&self, tid: u32, at: PathArg) -> Result<bool, Trouble> {
        process::exactly::<1>(tid, at.text).map(|first| first == [0]).map_err(Trouble::of_memory)
    }

    fn examine_link(
        &mut self,
        tid: u32,
        old: PathArg,
        new: PathArg,
        follow: bool,
        empty: bool,
        now: Instant,
    ) -> Result<Outcome, Trouble> {
        let to = self.path(tid, new, now)?;
        if empty && self.is_empty(tid, old)? {
            let from = resolve::descriptor(tid, old.dirfd).map_err(Trouble::of_lookup)?;
            let to = self.locate(tid, &to, false)?;
            self.cache.forget_all(tid, now);
            return Ok(files::link(&self.watch, &from, &to).into());
        }
        let from = self.path(tid, old, now)?;
        // A hard link to a symbolic link is a new symbolic link.
        let direct = !follow && self.names_a_link(tid, &from, now)?;
        let allowed = self.surely_allowed(tid, &from, follow, now)? && self.surely_allowed(tid, &to, false, now)?;
        let outcome = if allowed {
            Ok(Outcome::Allowed)
        } else {
            let from = self.locate(tid, &from, follow)?;
            let to = self.locate(tid, &to, false)?;
            Ok(files::link(&self.watch, &from, &to).into())
        };
        if direct {
            self.cache.forget_all(tid, now);
        }
        outcome
    }

    fn names_a_link(&mut self, tid: u32, path: &FullPath, now: Instant) -> Result<bool, Trouble> {
        match self.quick_path(tid, path, now)? {
            Some((whole, _)) => Ok(resolve::is_link(self.view(tid)?, &whole)),
            None => Ok(true),
        }
    }

    fn examine_rename(
        &mut self,
        tid: u32,
        old: PathArg,
        new: PathArg,
        flags: u32,
        now: Instant,
    ) -> Result<Outcome, Trouble> {
        let (from, to) = (self.path(tid, old, now)?, self.path(tid, new, now)?);
        let allowed = self.surely_allowed(tid, &from, false, now)? && self.surely_allowed(tid, &to, false, now)?;
        let outcome = if allowed {
            Ok(Outcome::Allowed)
        } else {
            let from = self.locate(tid, &from, false)?;
            let to = self.locate(tid, &to, false)?;
            Ok(files::rename(&self.watch, &from, &to, flags).into())
        };
        self.cache.forget_all(tid, now);
        outcome
    }
}

/// True when the caller's own restrictions on the lookup let it reach its end: a path that they stop fails without
/// anyone's refusal.
fn permitted(base: &OwnedFd, text: &[u8], resolve: u64, follow: bool) -> bool {
    let resolve = ResolveFlag::from_bits_truncate(resolve);
    let how = |flags| OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | flags).resolve(resolve);
    let end = if follow { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    match openat2(base, text, how(end)) {
        Ok(_) => true,
        Err(Errno::ENOENT) => {
            let parent = split(text).map_or(text, |cut| if text.contains(&b'/') { cut.parent } else { b"." });
            openat2(base, parent, how(OFlag::O_DIRECTORY)).is_ok()
        }
        Err(_) => false,
    }
}

/// The directory that a path argument starts from, opened.
fn base(tid: u32, dirfd: i32) -> Result<OwnedFd, Errno> {
    let link = if dirfd == AT_FDCWD { format!("/proc/{tid}/cwd") } else { format!("/proc/{tid}/fd/{dirfd}") };
    open(link.as_str(), OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}
