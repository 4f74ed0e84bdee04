//! Running the `stockade` command.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use crate::user::{Programs, User, scratch};

/// A user at a shell prompt: a home, a workspace that is the current directory, and `stockade`.
pub(crate) struct Prompt {
    pub(crate) user: User,
    dir: tempfile::TempDir,
    programs: Arc<Programs>,
}

impl Prompt {
    pub(crate) fn of(user: User) -> Self {
        let dir = scratch();
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        user.own(dir.path());
        Self { user, dir, programs: Programs::get() }
    }

    /// One for each user.
    pub(crate) fn all() -> Vec<Self> {
        User::all().into_iter().map(Self::of).collect()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    pub(crate) fn program(&self) -> &Path {
        &self.programs.stockade
    }

    /// The test program itself, where the user can execute it.
    pub(crate) fn test(&self) -> &Path {
        &self.programs.own
    }

    /// `program`, as the user, with nothing to read.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.user.command(program);
        command.current_dir(self.work()).env("HOME", self.root().join("home")).env("TMPDIR", self.root().join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `stockade run ARGS`.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(self.program());
        command.arg("run").args(args);
        command
    }
}

/// Exit status, standard output and standard error of a command.
pub(crate) fn outcome(command: &mut Command) -> (i32, String, String) {
    seen(&command.output().unwrap())
}

pub(crate) fn seen(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The same, with something to read.
pub(crate) fn outcome_with_input(command: &mut Command, input: &[u8]) -> (i32, String, String) {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    seen(&child.wait_with_output().unwrap())
}
