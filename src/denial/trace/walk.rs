//! The slow lookup, one name at a time, for paths that lead through another process's `/proc`.
//!
//! `openat2` within a root does not follow the links in `/proc/PID` and reads `/proc/self` as its caller; the process
//! that is looked at means itself.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use super::process;
use super::resolve::{Existing, Located, Place, View, child, text_of};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
/// More names than any path of `PATH_MAX` bytes and its links need.
const MAX_NAMES: usize = 4096;
/// Inode number of the root of every procfs.
const PROC_ROOT: u64 = 1;

/// Walks an absolute path.
pub(crate) fn walk(view: &View, tid: u32, path: &[u8], follow: bool) -> Result<Located, Errno> {
    let slash = path.ends_with(b"/");
    let mut todo: VecDeque<Vec<u8>> = names(path).collect();
    let mut here = view.directory(b"/")?;
    let mut links = 0;
    let mut steps = 0;
    while let Some(name) = todo.pop_front() {
        steps += 1;
        if steps > MAX_NAMES {
            return Err(Errno::ENAMETOOLONG);
        }
        if name == b".." {
            here = parent(view, &here)?;
            continue;
        }
        let last = todo.is_empty();
        let in_proc = on_proc(&here)?;
        if let Some(own) = in_proc.then(|| own_name(&here, &name, tid)).flatten() {
            names(&own).rev().for_each(|part| todo.push_front(part));
            continue;
        }
        let Some(found) = child(&here, OsStr::from_bytes(&name))? else {
            return if last { Ok(ended(here, name, slash, None)?) } else { Err(Errno::ENOENT) };
        };
        if found.is_link() && (!last || follow || slash) {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::ELOOP);
            }
            if in_proc && !is_proc_root(&here)? {
                let object = Existing::new(through(&here, &name)?)?;
                if last {
                    let path = text_of(&object.fd).ok();
                    return Ok(Located::Object { found: object, path });
                }
                here = object.fd;
                continue;
            }
            let text = readlinkat(&here, OsStr::from_bytes(&name))?.into_vec();
            if text.starts_with(b"/") {
                here = view.directory(b"/")?;
            }
            names(&text).rev().for_each(|part| todo.push_front(part));
            continue;
        }
        if last {
            return ended(here, name, slash, Some(found));
        }
        if !found.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        here = found.fd;
    }
    let path = text_of(&here).ok();
    Ok(Located::Object { found: Existing::new(here)?, path })
}

fn ended(directory: OwnedFd, name: Vec<u8>, slash: bool, target: Option<Existing>) -> Result<Located, Errno> {
    let within = text_of(&directory)?;
    Ok(Located::Name(Place { directory, within, name: OsStr::from_bytes(&name).to_owned(), slash, target }))
}

/// The parts of a path that move; empty ones and single dots do not.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

fn parent(view: &View, here: &OwnedFd) -> Result<OwnedFd, Errno> {
    let text = text_of(here)?;
    view.directory(text.parent().unwrap_or(&text).as_os_str().as_bytes())
}

fn on_proc(here: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstatfs(here)?.filesystem_type() == PROC_SUPER_MAGIC)
}

fn is_proc_root(here: &OwnedFd) -> Result<bool, Errno> {
    Ok(nix::sys::stat::fstat(here)?.st_ino == PROC_ROOT)
}

/// What `self` and `thread-self` at the root of procfs mean for a process.
fn own_name(here: &OwnedFd, name: &[u8], tid: u32) -> Option<Vec<u8>> {
    let thread = match name {
        b"self" => false,
        b"thread-self" => true,
        _ => return None,
    };
    if !is_proc_root(here).ok()? {
        return None;
    }
    let who = process::identity(tid)?;
    Some(if thread { format!("{}/task/{}", who.inner, who.inner_thread) } else { who.inner.to_string() }.into_bytes())
}

/// The object behind a link of `/proc/PID`, whatever its text says.
fn through(here: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(here, OsStr::from_bytes(name), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
}
