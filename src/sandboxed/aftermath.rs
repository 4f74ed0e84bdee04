//! The look after a run: what the command newly created under protected names that nothing could be mounted on.
//!
//! Nothing was put there before the run, so nothing of ours is left by any end of it. The look itself takes place at
//! every end that this process lives to see: a command that exits, times out or is cancelled, a sandbox that is lost, a
//! run that its caller drops. It acts through descriptors, never through a symbolic link, and never outside the name.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::policy::{EffectivePolicy, OnAppear, Watched};

/// What is added to a name that is set aside.
const SUFFIX: &str = ".set-aside-by-stockade";

/// As many names are tried when the first is taken.
const NAMES: u32 = 1000;

/// Repositories that are named one by one; more are counted.
const MAX_NAMED: usize = 20;

/// Time stamps of files come from a clock that lags a tick behind.
const LAG: Duration = Duration::from_secs(1);

/// The look to be taken after one run. Whoever drops the last handle takes it, unless it was taken before.
#[derive(Debug)]
pub(super) struct Aftermath {
    policy: Arc<EffectivePolicy>,
    began: Moment,
    facts: OnceLock<Vec<String>>,
}

impl Aftermath {
    /// To be made before the command starts.
    pub(super) fn of(policy: Arc<EffectivePolicy>) -> Arc<Self> {
        Arc::new(Self { policy, began: Moment::now(), facts: OnceLock::new() })
    }

    /// Whether anything has to be looked at: a mode in which the command could write.
    pub(super) fn is_due(&self) -> bool {
        !self.policy.watched.is_empty() && self.facts.get().is_none()
    }

    /// It is known by other means that there is nothing to see.
    pub(super) fn is_as_before(&self) {
        self.facts.get_or_init(Vec::new);
    }

    /// Looks, once, and does what the policy says about what has appeared.
    pub(super) fn look(&self) -> &[String] {
        self.facts.get_or_init(|| {
            let mut facts: Vec<String> = self.policy.watched.iter().filter_map(examine).collect();
            if !self.policy.watched.is_empty() {
                facts
                    .extend(repositories(&self.policy.appeared_repositories(self.began.earliest_stamp(Moment::now()))));
            }
            facts
        })
    }
}

/// A moment on the clock that files are stamped by, which may be set, and on the one that nobody sets.
#[derive(Debug, Clone, Copy)]
struct Moment {
    wall: SystemTime,
    steady: Instant,
}

impl Moment {
    fn now() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// No file made from this moment on bears an earlier stamp, even where the clock was set back by `now`.
    fn earliest_stamp(self, now: Self) -> SystemTime {
        let passed = now.steady.duration_since(self.steady);
        let by_wall = now.wall.checked_sub(passed).unwrap_or(SystemTime::UNIX_EPOCH);
        self.wall.min(by_wall).checked_sub(LAG).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        if self.is_due() {
            for fact in self.look() {
                tracing::warn!(fact, "after a run whose result nobody took");
            }
        }
    }
}

fn repositories(new: &[PathBuf]) -> Vec<String> {
    let mut facts: Vec<String> = new
        .iter()
        .take(MAX_NAMED)
        .map(|path| {
            format!(
                "a repository appeared while the command ran: {}; its hooks and configuration are the command's own",
                path.display()
            )
        })
        .collect();
    if new.len() > MAX_NAMED {
        facts.push(format!("{} more repositories appeared while the command ran", new.len() - MAX_NAMED));
    }
    facts
}

/// What became of one name; `None` when it is as it was.
fn examine(name: &Watched) -> Option<String> {
    let now = std::fs::read_link(&name.path);
    match (&name.link, &now) {
        (Some(before), Ok(now)) if before == now => return None,
        // Neither a link nor anything else, whatever stands on the way to it.
        (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => return None,
        _ => {}
    }
    match appeared(&name.path) {
        Ok(Some(place)) => Some(told(name, &place)),
        Ok(None) if name.link.is_some() => {
            Some(format!("{} was a symbolic link and is gone: {}{}", name.path.display(), name.reason, restored(name)))
        }
        Ok(None) => None,
        Err(error) => Some(format!(
            "{} could not be looked at after the run: {error}; it is protected: {}",
            name.path.display(),
            name.reason
        )),
    }
}

/// The first thing on the way to a name that is not a directory to go through: the name itself, or a symbolic link that
/// now leads to it.
struct Place {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Finds it, following no link; `None` when nothing is there.
fn appeared(path: &Path) -> io::Result<Option<Place>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut directory = rustix::fs::open("/", flags, Mode::empty())?;
    let mut at = PathBuf::from("/");
    let mut names = path.iter().skip(1).peekable();
    while let Some(name) = names.next() {
        at.push(name);
        let meta = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            meta => meta?,
        };
        let link = FileType::from_raw_mode(meta.st_mode).is_symlink();
        if link || names.peek().is_none() {
            return Ok(Some(Place { directory, name: name.to_owned(), path: at }));
        }
        directory = match rustix::fs::openat2(&directory, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            opened => opened?,
        };
    }
    Ok(None)
}

fn told(name: &Watched, place: &Place) -> String {
    let done = match name.on_appear {
        OnAppear::Keep => "it was kept".to_owned(),
        OnAppear::SetAside => match set_aside(place) {
            Ok(to) => format!("it was set aside as {}{}", to.display(), restored(name)),
            Err(error) => format!("it could not be set aside: {error}"),
        },
        OnAppear::Remove => match remove(place) {
            Ok(()) => format!("it was removed{}", restored(name)),
            Err(error) => format!("it could not be removed: {error}"),
        },
    };
    let verb = if name.link.is_some() { "was changed" } else { "appeared" };
    let through = if place.path == name.path {
        String::new()
    } else {
        format!(" through the symbolic link {}", place.path.display())
    };
    format!("{} {verb}{through} while the command ran, and is protected: {}; {done}", name.path.display(), name.reason)
}

/// Renames it where it stands. A name that is taken is not touched.
fn set_aside(place: &Place) -> io::Result<PathBuf> {
    for number in 1..=NAMES {
        let mut name = place.name.clone();
        name.push(SUFFIX);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let (from, to) = (&place.directory, &place.directory);
        match rustix::fs::renameat_with(from, &place.name, to, &name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            renamed => return Ok(renamed.map(|()| place.path.with_file_name(name))?),
        }
    }
    Err(Errno::EXIST.into())
}

/// Removes it with all that is in it; links in it are removed and not followed.
fn remove(place: &Place) -> io::Result<()> {
    match rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return Ok(done?),
    }
    // The parent by descriptor, so that nothing on the way can be exchanged meanwhile.
    let parent = PathBuf::from(format!("/proc/self/fd/{}", place.directory.as_raw_fd()));
    std::fs::remove_dir_all(parent.join(&place.name))
}

/// Puts a link back that was there before, where the policy does not keep what replaced it.
fn restored(name: &Watched) -> String {
    let Some(target) = name.link.as_ref().filter(|_| name.on_appear != OnAppear::Keep) else { return String::new() };
    match restore(&name.path, target) {
        Ok(()) => "; the link is back as it was".to_owned(),
        Err(error) => format!("; the link could not be put back: {error}"),
    }
}

fn restore(path: &Path, target: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let directory = rustix::fs::openat2(rustix::fs::CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    rustix::fs::symlinkat(target, &directory, name as &OsStr)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Room {
        root: PathBuf,
        _dir: tempfile::TempDir,
    }

    impl Room {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            std::fs::create_dir(root.join("ws")).unwrap();
            std::fs::create_dir(root.join("out")).unwrap();
            std::fs::write(root.join("out/file"), "host").unwrap();
            Self { root, _dir: dir }
        }

        fn watched(&self, path: &str, on_appear: OnAppear) -> Watched {
            Watched { path: self.root.join(path), link: None, reason: "a reason".into(), on_appear }
        }

        fn names(&self, directory: &str) -> Vec<String> {
            let entries = std::fs::read_dir(self.root.join(directory)).unwrap();
            let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_clock_that_is_set_hides_nothing() {
        let began = Moment::now();
        let hour = Duration::from_secs(3600);
        let after = |wall: SystemTime| Moment { wall, steady: began.steady + hour };
        let steady = began.earliest_stamp(after(began.wall + hour));
        assert_eq!(steady, began.wall - LAG);
        assert_eq!(began.earliest_stamp(after(began.wall + 100 * hour)), began.wall - LAG, "set forward");
        // Set back by ten hours right after the start: what was made then bears a stamp ten hours before.
        assert_eq!(began.earliest_stamp(after(began.wall - 9 * hour)), began.wall - 10 * hour - LAG);
        let epoch = began.earliest_stamp(after(SystemTime::UNIX_EPOCH));
        assert!(epoch <= SystemTime::UNIX_EPOCH, "{epoch:?}");
    }

    #[test]
    fn nothing_there_says_nothing() {
        let room = Room::new();
        assert_eq!(examine(&room.watched("ws/.vscode", OnAppear::Remove)), None);
        assert_eq!(examine(&room.watched("ws/no/such/parent", OnAppear::Remove)), None);
        assert!(room.names("ws").is_empty());
    }

    #[test]
    fn what_appears_is_kept_set_aside_or_removed() {
        for (on_appear, left) in [
            (OnAppear::Keep, vec![".claude"]),
            (OnAppear::SetAside, vec![".claude.set-aside-by-stockade"]),
            (OnAppear::Remove, vec![]),
        ] {
            let room = Room::new();
            std::fs::create_dir_all(room.root.join("ws/.claude/deep")).unwrap();
            std::fs::write(room.root.join("ws/.claude/deep/settings"), "planted").unwrap();
            symlink("../../out", room.root.join("ws/.claude/link")).unwrap();
            let fact = examine(&room.watched("ws/.claude", on_appear)).unwrap();
            assert!(fact.contains("appeared") && fact.contains("a reason"), "{fact}");
            assert_eq!(room.names("ws"), left, "{fact}");
            assert_eq!(room.names("out"), ["file"], "nothing is followed");
        }
    }

    #[test]
    fn a_taken_name_is_not_overwritten() {
        let room = Room::new();
        for _ in 0..3 {
            std::fs::write(room.root.join("ws/.envrc"), "planted").unwrap();
            examine(&room.watched("ws/.envrc", OnAppear::SetAside)).unwrap();
        }
        let suffixed = |end: &str| format!(".envrc.set-aside-by-stockade{end}");
        assert_eq!(room.names("ws"), [suffixed(""), suffixed("-2"), suffixed("-3")]);
    }

    #[test]
    fn a_link_on_the_way_is_what_appeared_and_is_not_followed() {
        let room = Room::new();
        symlink("../out", room.root.join("ws/.config")).unwrap();
        let fact = examine(&room.watched("ws/.config/file", OnAppear::Remove)).unwrap();
        assert!(fact.contains("through the symbolic link"), "{fact}");
        assert!(room.names("ws").is_empty());
        assert_eq!(std::fs::read_to_string(room.root.join("out/file")).unwrap(), "host");
    }

    #[test]
    fn a_protected_link_is_put_back_unless_the_change_is_kept() {
        for (on_appear, kept) in [(OnAppear::Keep, "planted"), (OnAppear::SetAside, "host"), (OnAppear::Remove, "host")]
        {
            let room = Room::new();
            symlink("../out/file", room.root.join("ws/.envrc")).unwrap();
            let mut name = room.watched("ws/.envrc", on_appear);
            name.link = Some("../out/file".into());
            assert_eq!(examine(&name), None);
            std::fs::remove_file(&name.path).unwrap();
            std::fs::write(&name.path, "planted").unwrap();
            assert!(examine(&name).unwrap().contains("was changed"));
            assert_eq!(std::fs::read_to_string(&name.path).unwrap(), kept);
            std::fs::remove_file(&name.path).unwrap();
            assert!(examine(&name).unwrap().contains("is gone"));
            assert_eq!(name.path.symlink_metadata().is_ok(), on_appear != OnAppear::Keep);
        }
    }
}
