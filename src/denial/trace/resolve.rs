//! Paths as the calling process sees them: its root, its links, its mounts.
//!
//! Objects are only ever opened with `O_PATH`, so neither a FIFO nor a device is touched, and every descriptor is
//! owned by a value.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use super::process::{self, named};

/// Times a lookup is tried again when the tree moves under it.
const RETRIES: usize = 8;

/// The root directory of a process, which all its lookups start from.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) root: OwnedFd,
}

/// An object that exists.
#[derive(Debug)]
pub(crate) struct Existing {
    /// `O_PATH` descriptor.
    pub(crate) fd: OwnedFd,
    pub(crate) stat: FileStat,
}

impl Existing {
    pub(crate) fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    pub(crate) const fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode).intersection(SFlag::S_IFMT)
    }

    pub(crate) fn is_link(&self) -> bool {
        self.kind() == SFlag::S_IFLNK
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == SFlag::S_IFDIR
    }
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Located {
    /// A name in a directory, whether or not something bears it.
    Name(Place),
    /// An object reached otherwise: the root, a path that ends in a dot, or a descriptor's link in `/proc`. The path
    /// is `None` for what has none.
    Object { found: Existing, path: Option<PathBuf> },
}

impl Located {
    /// The path, where it has one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Name(place) => Some(place.path()),
            Self::Object { path, .. } => path.clone(),
        }
    }
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: OwnedFd,
    /// Resolved path of the directory.
    pub(crate) within: PathBuf,
    pub(crate) name: OsString,
    /// The path was written with a slash at its end.
    pub(crate) slash: bool,
    pub(crate) target: Option<Existing>,
}

impl Place {
    pub(crate) fn path(&self) -> PathBuf {
        self.within.join(&self.name)
    }
}

/// A path cut before its last name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    pub(crate) parent: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) slash: bool,
}

/// Cuts an absolute path. `None` when its last part is no name (`/`, `.`, `..`).
pub(crate) fn split(path: &[u8]) -> Option<Split<'_>> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let start = path[..end].iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..end];
    let parent = if start == 0 { &b"/"[..] } else { &path[..start] };
    (name != b"." && name != b"..").then_some(Split { parent, name, slash: end < path.len() })
}

/// Puts a relative path behind the directory it starts from.
pub(crate) fn join(base: &Path, text: &[u8]) -> Vec<u8> {
    let mut joined = base.as_os_str().as_bytes().to_vec();
    joined.push(b'/');
    joined.extend(text);
    joined
}

impl View {
    /// The view of a process.
    pub(crate) fn of(tid: u32) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(format!("/proc/{tid}/root").as_str(), flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a directory by absolute path.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT);
        for _ in 0..RETRIES {
            match openat2(&self.root, OsStr::from_bytes(path), how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                other => return other,
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Finds where an absolute path leads; its last link is followed when `follow`.
    pub(crate) fn locate(&self, tid: u32, path: &[u8], follow: bool) -> Result<Located, Errno> {
        if let Some(cut) = split(path) {
            match self.place(&cut) {
                Ok(place) => {
                    let through = place.target.as_ref().is_some_and(Existing::is_link) && (follow || cut.slash);
                    if !through {
                        return Ok(Located::Name(place));
                    }
                }
                // Links that lead through `/proc` mean another thing for this process than for that one.
                Err(Errno::ENOENT | Errno::ELOOP | Errno::EXDEV) => {}
                Err(error) => return Err(error),
            }
        }
        super::walk::walk(self, tid, path, follow)
    }

    fn place(&self, cut: &Split<'_>) -> Result<Place, Errno> {
        let directory = self.directory(cut.parent)?;
        let within = text_of(&directory)?;
        let target = child(&directory, OsStr::from_bytes(cut.name))?;
        Ok(Place { directory, within, name: OsStr::from_bytes(cut.name).to_owned(), slash: cut.slash, target })
    }
}

/// The object of a name in a directory, itself when it is a link; `None` when there is none.
pub(crate) fn child(directory: &OwnedFd, name: &OsStr) -> Result<Option<Existing>, Errno> {
    match openat(directory, name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()) {
        Ok(fd) => Existing::new(fd).map(Some),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// True when a name exists and is a symbolic link.
pub(crate) fn is_link(view: &View, path: &Path) -> bool {
    let relative = path.strip_prefix("/").unwrap_or(path);
    !matches!(readlinkat(&view.root, relative), Err(Errno::EINVAL | Errno::ENOENT))
}

/// Resolved path of an open object, as its own mount namespace names it.
pub(crate) fn text_of(fd: &OwnedFd) -> Result<PathBuf, Errno> {
    named(&format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// The object behind another process's descriptor.
pub(crate) fn descriptor(tid: u32, fd: i32) -> Result<Located, Errno> {
    let link = format!("/proc/{tid}/fd/{fd}");
    let object = nix::fcntl::open(link.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let path = process::directory(tid, fd).ok();
    Ok(Located::Object { found: Existing::new(object)?, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_before_their_last_name() {
        let cut = |path: &'static [u8]| split(path).map(|c| (c.parent, c.name, c.slash));
        assert_eq!(cut(b"/a/b"), Some((&b"/a/"[..], &b"b"[..], false)));
        assert_eq!(cut(b"/a//b//"), Some((&b"/a//"[..], &b"b"[..], true)));
        assert_eq!(cut(b"/a"), Some((&b"/"[..], &b"a"[..], false)));
        for path in [&b"/"[..], b"//", b"", b"/a/.", b"/a/..", b"/a/../"] {
            assert_eq!(split(path), None, "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn own_view_resolves_links_and_parents() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::fs::write(base.join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        std::os::unix::fs::symlink("real/missing", base.join("dangling")).unwrap();
        let tid = std::process::id();
        let view = View::of(tid).unwrap();
        let find = |rest: &str, follow| view.locate(tid, &join(&base, rest.as_bytes()), follow);
        let path = |located| match located {
            Located::Name(place) => place.path(),
            Located::Object { path, .. } => path.unwrap(),
        };
        assert_eq!(path(find("link/../real/file", true).unwrap()), base.join("real/file"));
        assert_eq!(path(find("link", false).unwrap()), base.join("link"));
        assert_eq!(path(find("link/", false).unwrap()), base.join("real"));
        assert_eq!(path(find("dangling", true).unwrap()), base.join("real/missing"));
        assert_eq!(path(find("real/.", true).unwrap()), base.join("real"));
        assert_eq!(find("no/file", true).unwrap_err(), Errno::ENOENT);
        assert_eq!(find("real/file/x", true).unwrap_err(), Errno::ENOTDIR);
    }

    #[test]
    fn proc_links_are_those_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let file = std::fs::File::create(base.join("f")).unwrap();
        let tid = std::process::id();
        let view = View::of(tid).unwrap();
        let text = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Located::Object { path, .. } = view.locate(tid, text.as_bytes(), true).unwrap() else { panic!("a name") };
        assert_eq!(path, Some(base.join("f")));
        let Located::Name(place) = view.locate(tid, b"/dev/fd/../comm", true).unwrap() else { panic!("an object") };
        assert_eq!(place.path(), PathBuf::from(format!("/proc/{tid}/comm")));
    }
}
