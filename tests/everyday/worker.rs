//! Those who work, each with a workspace and a home, and what they run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel;
use crate::user::{Programs, User, scratch};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Git trusts repositories of other owners only when told to, inside as outside.
const GIT_CONFIG: &str = "[user]\n\tname = t\n\temail = t@example.org\n[safe]\n\tdirectory = *\n\
                          [protocol \"file\"]\n\tallow = always\n[init]\n\tdefaultBranch = main\n";

/// What must be on the disk afterwards.
pub(crate) enum Left {
    /// A file with just this text.
    Text(&'static str, &'static str),
    /// A file of at least so many bytes.
    Bytes(&'static str, u64),
    Directory(&'static str),
    Nothing(&'static str),
}

/// Somebody at work.
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    user: User,
    owner: User,
    groups: &'static str,
    dir: tempfile::TempDir,
    programs: Arc<Programs>,
}

impl Worker {
    fn new(name: &'static str, user: User, owner: User, groups: &'static str) -> Self {
        let dir = scratch();
        for name in ["work", "home"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("home/.gitconfig"), GIT_CONFIG).unwrap();
        user.own(dir.path());
        owner.own(&dir.path().join("work"));
        Self { name, user, owner, groups, dir, programs: Programs::get() }
    }

    /// Everybody. Where the tests do not run as root, [`User::all`] says what is left out.
    pub(crate) fn all() -> Vec<Self> {
        let users = User::all();
        let [root, ordinary] = users[..] else { return vec![Self::new("whoever runs this", users[0], users[0], "")] };
        vec![
            Self::new("root", root, root, ""),
            Self::new("root in a workspace of another", root, ordinary, ""),
            Self::new("an ordinary user", ordinary, ordinary, ""),
            Self::new("a user with supplementary groups", ordinary, ordinary, "1500,1501,2000"),
        ]
    }

    /// Whether there are groups beside the one of files made.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// A command as this worker, unconfined.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = if self.user == User::current() {
            Command::new(program)
        } else {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", self.user.uid)).arg(format!("--regid={}", self.user.gid));
            let groups = format!("--groups={}", self.groups);
            command.arg(if self.groups.is_empty() { "--clear-groups" } else { &groups }).args(["--", program]);
            command
        };
        command.env_clear().env("PATH", PATH).env("HOME", self.root().join("home")).current_dir(self.work());
        command
    }

    /// Before confinement: what is there already. Everything belongs to the workspace's owner afterwards.
    pub(crate) fn prepare(&self, script: &str) {
        let output = self.command("bash").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        if self.user.is_root() {
            self.owner.own(&self.work());
        }
    }

    /// `stockade run --json ARGS -c SCRIPT`, with the script under `bash -e`.
    pub(crate) fn run(&self, args: &[&str], script: &str) -> Value {
        self.run_behind(&[], args, script)
    }

    /// The same, started by another program that gets the command line after its own arguments.
    fn run_behind(&self, front: &[&str], args: &[&str], script: &str) -> Value {
        let before = self.home();
        let mut inner = self.command(self.programs.stockade.to_str().unwrap());
        inner.args(["run", "--json", "--mode", "workspace-write", "--timeout-ms", "240000"]);
        inner.args(args).arg("-c").arg(format!("set -e -o pipefail\n{script}"));
        let mut command = inner;
        if let Some((program, arguments)) = front.split_first() {
            let behind = command;
            command = Command::new(program);
            command.args(arguments).arg("--").arg(behind.get_program()).args(behind.get_args());
            command.env_clear().envs(behind.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.current_dir(self.work());
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{}: {script}: {stderr}", self.name);
        assert_eq!(self.home(), before, "{}: {script}: the home directory changed", self.name);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs what has to work.
    pub(crate) fn works(&self, script: &str, left: &[Left]) -> Value {
        self.works_with(&[], script, left)
    }

    pub(crate) fn works_with(&self, args: &[&str], script: &str, left: &[Left]) -> Value {
        self.worked(self.run(args, script), script, left)
    }

    pub(crate) fn works_behind(&self, front: &[&str], script: &str, left: &[Left]) -> Value {
        self.worked(self.run_behind(front, &[], script), script, left)
    }

    fn worked(&self, result: Value, script: &str, left: &[Left]) -> Value {
        assert_eq!(result["exitCode"], 0, "{}: {script}: {result:#}", self.name);
        let gaps = serde_json::to_value(kernel::gaps_with_namespaces(self.user.is_root())).unwrap();
        assert_eq!(result["sandbox"]["gaps"], gaps, "{}: {result:#}", self.name);
        assert_eq!(result["sandbox"]["denied"], false, "{}: {script}: {result:#}", self.name);
        for left in left {
            self.look(left, script);
        }
        result
    }

    fn look(&self, left: &Left, script: &str) {
        let at = |path: &str| self.work().join(path);
        match left {
            Left::Text(path, text) => {
                let found = fs::read_to_string(at(path)).unwrap_or_else(|error| panic!("{path}: {error}: {script}"));
                assert_eq!(found, *text, "{}: {path}: {script}", self.name);
            }
            Left::Bytes(path, least) => {
                let meta = fs::symlink_metadata(at(path)).unwrap_or_else(|error| panic!("{path}: {error}: {script}"));
                assert!(meta.is_file() && meta.len() >= *least, "{}: {path}: {} bytes", self.name, meta.len());
                assert_eq!(meta.uid(), self.user.uid, "{}: {path}: whose file it is", self.name);
            }
            Left::Directory(path) => assert!(at(path).is_dir(), "{}: {path}: {script}", self.name),
            Left::Nothing(path) => assert!(at(path).symlink_metadata().is_err(), "{}: {path}: {script}", self.name),
        }
    }

    /// Every name of the home directory with the time of its last change.
    fn home(&self) -> BTreeMap<PathBuf, (i64, i64)> {
        let mut found = BTreeMap::new();
        let mut directories = vec![self.root().join("home")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                found.insert(path.clone(), (meta.ctime(), meta.ctime_nsec()));
                if meta.is_dir() {
                    directories.push(path);
                }
            }
        }
        found
    }

    /// What git, outside, says of a repository below the workspace.
    pub(crate) fn git(&self, directory: &str, args: &[&str]) -> String {
        let output = self.command("git").arg("-C").arg(self.work().join(directory)).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}
