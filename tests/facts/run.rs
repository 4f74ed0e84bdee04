//! One command through `stockade run --json`.

use std::path::Path;
use std::process::Stdio;

use stockade::executor::RunResult;

use crate::user::{Programs, User};

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) user: User,
    pub(crate) landlock: bool,
    pub(crate) traced: bool,
}

impl Setting {
    /// Both backends, with and without the trace.
    pub(crate) fn all_of(user: User) -> Vec<Self> {
        let with = |landlock, traced| Self { user, landlock, traced };
        vec![with(false, true), with(true, true), with(false, false), with(true, false)]
    }

    pub(crate) const fn backend(self) -> &'static str {
        if self.landlock { "landlock" } else { "mounts" }
    }

    pub(crate) fn name(self) -> String {
        let trace = if self.traced { "trace" } else { "no trace" };
        format!("{}, {}, {trace}", self.user.name(), self.backend())
    }
}

/// Runs a command line in the `work` below `root`.
pub(crate) fn shell(
    setting: Setting,
    programs: &Programs,
    root: &Path,
    mode: &str,
    args: &[String],
    line: &str,
) -> RunResult {
    let mut command = setting.user.command(&programs.stockade);
    command.args(["run", "--json", "--mode", mode, "--trace", if setting.traced { "auto" } else { "off" }]);
    if setting.landlock {
        command.args(["--backend", "landlock"]);
    }
    command.args(args).args(["-c", line]).current_dir(root.join("work"));
    command.env("HOME", root.join("home")).env("TMPDIR", root.join("tmp")).env("LC_ALL", "C.UTF-8");
    command.env_remove("PYTHONDONTWRITEBYTECODE");
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "t").env(format!("GIT_{name}_EMAIL"), "t@t");
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let parsed = serde_json::from_str(&text);
    parsed.unwrap_or_else(|error| {
        panic!("{}: {line}: {error}: {text}{}", setting.name(), String::from_utf8_lossy(&output.stderr))
    })
}
