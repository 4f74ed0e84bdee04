//! Every look at the host that deciding a policy takes, and whether it would show the same again.
//!
//! A policy depends on what stands at certain names and on what certain directories and files hold. While one is decided
//! under [`Ground::record`], each look leaves a note of what it was at; as long as every one of them is still the same, so
//! is the decision.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, statx};

/// A change of content and a look at it within this time may carry the same time stamp, as coarse as the kernel's clock.
const COARSE: Duration = Duration::from_millis(50);

thread_local! {
    static NOTES: RefCell<Option<Notes>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Notes {
    names: BTreeMap<PathBuf, Option<Identity>>,
    contents: BTreeMap<PathBuf, Option<Content>>,
    /// Something was changed only just now, so a further change might not show.
    fresh: bool,
}

/// One file: device, number and kind, and when it came to be, because numbers are used again. Where the file system does
/// not keep that, its last change stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: [u32; 2],
    number: u64,
    kind: u16,
    made: (i64, u32),
}

/// What a directory or file holds, as far as its own times tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    identity: Identity,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

/// What stands at a name, a final link not followed; `None` for nothing, or nothing that this user may look at.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    look(path).map(|found| identity_of(&found))
}

fn look(path: &Path) -> Option<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()
}

/// The bits of a mode that tell what kind of file it is.
const KIND: u16 = 0o170_000;

fn identity_of(found: &Statx) -> Identity {
    let kept = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let made = if kept { found.stx_btime } else { found.stx_ctime };
    Identity {
        device: [found.stx_dev_major, found.stx_dev_minor],
        number: found.stx_ino,
        kind: found.stx_mode & KIND,
        made: time(made),
    }
}

fn content(path: &Path) -> Option<Content> {
    look(path).map(|found| Content {
        identity: identity_of(&found),
        size: found.stx_size,
        modified: time(found.stx_mtime),
        changed: time(found.stx_ctime),
    })
}

fn time(stamp: StatxTimestamp) -> (i64, u32) {
    (stamp.tv_sec, stamp.tv_nsec)
}

/// As [`Path::symlink_metadata`].
pub(crate) fn at(path: &Path) -> io::Result<Metadata> {
    let found = path.symlink_metadata();
    // One look, not two: most names that are looked at are those that settings could have and that are not there.
    note_name(path, || match &found {
        Ok(meta) => identity_in(meta).or_else(|| identity(path)),
        Err(_) => None,
    });
    found
}

/// The same as [`identity`] tells; `None` where the standard library does not say enough.
fn identity_in(meta: &Metadata) -> Option<Identity> {
    let made = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Identity {
        device: [libc::major(meta.dev()), libc::minor(meta.dev())],
        number: meta.ino(),
        kind: u16::try_from(meta.mode() & u32::from(KIND)).ok()?,
        made: (i64::try_from(made.as_secs()).ok()?, made.subsec_nanos()),
    })
}

/// As [`std::fs::read_link`].
pub(super) fn link(path: &Path) -> io::Result<PathBuf> {
    note_name(path, || identity(path));
    std::fs::read_link(path)
}

/// As [`std::fs::read_dir`].
pub(crate) fn list(path: &Path) -> io::Result<ReadDir> {
    note_content(path);
    std::fs::read_dir(path)
}

/// As [`std::fs::read_to_string`].
pub(super) fn text(path: &Path) -> io::Result<String> {
    note_content(path);
    std::fs::read_to_string(path)
}

/// True for a directory, not for a link to one.
pub(super) fn is_directory(path: &Path) -> bool {
    at(path).is_ok_and(|meta| meta.is_dir())
}

/// True for a regular file, not for a link to one.
pub(super) fn is_file(path: &Path) -> bool {
    at(path).is_ok_and(|meta| meta.is_file())
}

fn note_name(path: &Path, identity: impl FnOnce() -> Option<Identity>) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes
            && !notes.names.contains_key(path)
        {
            notes.names.insert(path.to_owned(), identity());
        }
    });
}

fn note_content(path: &Path) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes
            && !notes.contents.contains_key(path)
        {
            let content = content(path);
            notes.fresh |= content.is_some_and(|content| is_fresh(content.changed));
            notes.contents.insert(path.to_owned(), content);
        }
    });
}

/// True as well for what is said to change in the future.
fn is_fresh(changed: (i64, u32)) -> bool {
    age(changed).is_none_or(|age| age < COARSE)
}

/// How long ago that was; `None` for the future.
fn age((seconds, nanoseconds): (i64, u32)) -> Option<Duration> {
    let changed = u64::try_from(seconds).map_or(UNIX_EPOCH, |seconds| UNIX_EPOCH + Duration::new(seconds, nanoseconds));
    SystemTime::now().duration_since(changed).ok()
}

impl Notes {
    /// Many names in one directory are one look at whether anything was added to it, taken from it or replaced in it: where
    /// nothing has been for a while, or where they are very many.
    fn into_ground(mut self) -> Ground {
        let mut names: BTreeMap<&Path, usize> = BTreeMap::new();
        for parent in self.names.keys().filter_map(|path| path.parent()) {
            *names.entry(parent).or_default() += 1;
        }
        let enough = |count: usize, age: Duration| age > COARSE && count >= VERY_MANY || age > QUIET && count >= MANY;
        let together: BTreeMap<PathBuf, Option<Content>> = names
            .into_iter()
            .filter(|(_, count)| *count >= MANY)
            .filter_map(|(parent, count)| Some((parent.to_owned(), content(parent)?, count)))
            .filter(|(_, content, count)| age(content.changed).is_some_and(|age| enough(*count, age)))
            .map(|(parent, content, _)| (parent, Some(content)))
            .collect();
        for (path, content) in together {
            self.contents.entry(path).or_insert(content);
        }
        // What was read of a directory covers the names in it. Each may have been looked at before the directory was, so it
        // is looked at once more.
        let contents = &self.contents;
        let covered =
            |path: &Path| path.parent().is_some_and(|parent| contents.get(parent).is_some_and(Option::is_some));
        self.names.retain(|path, found| !covered(path) || identity(path) != *found);
        Ground { names: self.names, contents: self.contents }
    }
}

/// So many names in one directory are many, and a directory that has not changed for so long is quiet.
const MANY: usize = 3;
const QUIET: Duration = Duration::from_secs(300);
/// So many would take longer to look at, each time, than to decide anew when the directory changes.
const VERY_MANY: usize = 64;

/// What a decision stood on.
#[derive(Debug)]
pub(crate) struct Ground {
    names: BTreeMap<PathBuf, Option<Identity>>,
    contents: BTreeMap<PathBuf, Option<Content>>,
}

impl Ground {
    /// Decides, and tells what that stood on; `None` where a change could go unseen, because one was made just now.
    pub(crate) fn record<T>(decide: impl FnOnce() -> T) -> (T, Option<Self>) {
        NOTES.set(Some(Notes::default()));
        let decided = decide();
        let notes = NOTES.take().filter(|notes| !notes.fresh);
        (decided, notes.map(Notes::into_ground))
    }

    /// Looks that were taken.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.contents.len()
    }

    /// Whether every look would show what it did.
    pub(crate) fn stands(&self) -> bool {
        self.names.iter().all(|(path, then)| identity(path) == *then)
            && self.contents.iter().all(|(path, then)| content(path) == *then)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn old(path: &Path) {
        let then = SystemTime::now() - Duration::from_secs(60);
        fs::File::open(path).unwrap().set_modified(then).unwrap();
        // The change time cannot be set: wait until it is old enough.
        std::thread::sleep(COARSE + Duration::from_millis(20));
    }

    #[test]
    fn both_ways_of_looking_tell_one_identity() {
        for path in ["/", "/proc/self", "/dev/null", "/etc/passwd", "/proc/self/exe", "/dev/shm"] {
            let path = Path::new(path);
            let meta = path.symlink_metadata().unwrap();
            assert!(identity_in(&meta).is_none_or(|found| Some(found) == identity(path)), "{}", path.display());
        }
        let place = tempfile::tempdir().unwrap();
        assert_eq!(identity_in(&place.path().symlink_metadata().unwrap()), identity(place.path()));
    }

    type Step<'a> = &'a dyn Fn();

    #[test]
    fn a_decision_stands_until_something_it_looked_at_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path(), dir.path().join("file"));
        fs::write(&file, "1").unwrap();
        old(root);
        let looks: [(&str, Step<'_>, Step<'_>); 4] = [
            ("appears", &|| drop(at(&root.join("absent"))), &|| fs::write(root.join("absent"), "").unwrap()),
            ("is replaced", &|| drop(at(&file)), &|| {
                fs::remove_file(&file).unwrap();
                fs::write(&file, "2").unwrap();
            }),
            ("is added to", &|| drop(list(root)), &|| fs::write(root.join("new"), "").unwrap()),
            ("is rewritten", &|| drop(text(&file)), &|| fs::write(&file, "3").unwrap()),
        ];
        for (what, look, change) in looks {
            old(root);
            let ((), ground) = Ground::record(look);
            let ground = ground.unwrap();
            assert!(ground.stands(), "{what}: nothing happened");
            fs::write(root.join("elsewhere-unlooked"), "").unwrap();
            change();
            assert!(!ground.stands(), "{what}");
        }
        let ((), fresh) = Ground::record(|| drop(text(&file)));
        assert!(fresh.is_none(), "changed a moment ago");
    }
}
