//! The users that commands are tried as.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::unistd::{getegid, geteuid};

/// Somebody to run commands as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Any uid without an account and without rights will do.
const ORDINARY: User = User { uid: 1500, gid: 1500 };

impl User {
    /// Whoever runs the tests.
    pub(crate) fn current() -> Self {
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// Both users when root runs the tests. Only root can become another: an ordinary user can try itself alone, which
    /// is said aloud, and is an error where `STOCKADE_TEST_BOTH_USERS` is set, as it is in continuous integration.
    pub(crate) fn all() -> Vec<Self> {
        let current = Self::current();
        if current.uid == 0 {
            return vec![current, ORDINARY];
        }
        assert!(std::env::var_os("STOCKADE_TEST_BOTH_USERS").is_none(), "both users were asked for: run as root");
        eprintln!("not root: what root's commands may do is not tested in this run");
        vec![current]
    }

    pub(crate) fn is_root(self) -> bool {
        self.uid == 0
    }

    pub(crate) fn name(self) -> &'static str {
        if self.is_root() { "root" } else { "an ordinary user" }
    }

    /// A command that runs `program` as this user.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        if self == Self::current() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.uid))
            .arg(format!("--regid={}", self.gid))
            .args(["--clear-groups", "--"])
            .arg(program);
        command
    }

    /// Makes this user the owner of everything from `path` down.
    pub(crate) fn own(self, path: &Path) {
        lchown(path, Some(self.uid), Some(self.gid)).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                self.own(&entry.unwrap().path());
            }
        }
    }
}

/// A directory below `/var/tmp` that every user may enter; `/tmp` would be out of sight in a sandbox.
pub(crate) fn scratch() -> tempfile::TempDir {
    let permissions = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("stockade-test-").permissions(permissions).tempdir_in("/var/tmp").unwrap()
}

/// Programs of this test where every user can execute them: the checkout may lie in somebody's home.
pub(crate) struct Programs {
    _dir: tempfile::TempDir,
    pub(crate) stockade: PathBuf,
    /// This test binary.
    pub(crate) own: PathBuf,
}

impl Programs {
    /// Shared by everybody who has it at the same time, and removed when nobody has.
    pub(crate) fn get() -> Arc<Self> {
        static PROGRAMS: Mutex<Weak<Programs>> = Mutex::new(Weak::new());
        let mut shared = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let programs = Arc::new(Self::place());
            *shared = Arc::downgrade(&programs);
            programs
        })
    }

    fn place() -> Self {
        let dir = scratch();
        let place = |from: &Path, name: &str| {
            let to = dir.path().join(name);
            // A link costs nothing; across file systems only a copy can do.
            std::fs::hard_link(from, &to).or_else(|_| std::fs::copy(from, &to).map(drop)).unwrap();
            to
        };
        let stockade = place(Path::new(env!("CARGO_BIN_EXE_stockade")), "stockade");
        let own = place(&std::env::current_exe().unwrap(), "test");
        Self { stockade, own, _dir: dir }
    }
}
