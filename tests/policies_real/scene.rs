//! A real project in a workspace, its tools' caches in a home, somebody who works on it under a policy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::user::{Programs, User, scratch};

/// What is done with a project, and what shows that it was done.
pub(crate) struct Project {
    /// Its name below the fetched ones, and its language's policy.
    pub(crate) name: &'static str,
    /// Its tools take many seconds.
    pub(crate) slow: bool,
    pub(crate) script: &'static str,
    /// `--env` under every policy.
    pub(crate) env: &'static [&'static str],
    /// `--env` under `untrusted-tests` beside `HOME=/tmp`.
    pub(crate) untrusted: &'static [&'static str],
    /// `--env` under `ci`.
    pub(crate) ci: &'static [&'static str],
    /// A file of the workspace that is there afterwards.
    pub(crate) left: &'static str,
    /// So many tests run at least.
    pub(crate) tests: usize,
    /// How many tests ran, by what the tool printed.
    pub(crate) count: fn(&str) -> usize,
}

/// Where `ci/fetch-projects` put the projects. `None` when it did not run, which is said aloud, and with
/// `STOCKADE_REQUIRE_CLIENTS` set is a failure.
pub(crate) fn fetched(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/projects");
    if root.join("stamp").exists() {
        return Some(root);
    }
    let why = format!("{name}: no projects in {}; fetch them with ci/fetch-projects", root.display());
    assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "{why}");
    eprintln!("NOT TESTED: {why}");
    None
}

/// The toolchain that builds this test: it may lie in somebody's home, so it is shown under a name of its own.
fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

pub(crate) struct Scene<'a> {
    project: &'a Project,
    user: User,
    policy: &'static str,
    dir: tempfile::TempDir,
    programs: Arc<Programs>,
}

impl<'a> Scene<'a> {
    pub(crate) fn of(project: &'a Project, fetched: &Path, user: User, policy: &'a str) -> Self {
        let dir = scratch();
        copy(&fetched.join(project.name), &dir.path().join("home/src/work"));
        copy(&fetched.join(format!("{}-home", project.name)), &dir.path().join("home"));
        if policy == "rust" {
            // Under its own policy cargo unpacks what it downloaded; elsewhere that was done before.
            fs::remove_dir_all(dir.path().join("home/.cargo/registry/src")).unwrap();
        }
        fs::create_dir(dir.path().join("toolchain")).unwrap();
        fs::write(dir.path().join("home/diary"), "private").unwrap();
        git(&dir.path().join("home/src/work"));
        user.own(&dir.path().join("home"));
        let policy = stockade::policy::names().into_iter().find(|name| *name == policy).unwrap();
        Self { project, user, policy, dir, programs: Programs::get() }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn work(&self) -> PathBuf {
        self.home().join("src/work")
    }

    /// `stockade run --json --policy POLICY -c SCRIPT` in the project; the network off, whatever the policy allows.
    fn run(&self, script: &str) -> Value {
        let toolchain = self.dir.path().join("toolchain");
        let mut inner = Command::new("setpriv");
        inner.args([format!("--reuid={}", self.user.uid), format!("--regid={}", self.user.gid)]);
        inner.args(["--clear-groups", "--"]).arg(&self.programs.stockade);
        inner.args(["run", "--json", "--timeout-ms", "240000", "--network", "off", "--policy", self.policy]);
        let (home, work) = (self.home(), self.work());
        let own = match self.policy {
            "ci" => self.project.ci,
            "untrusted-tests" => self.project.untrusted,
            _ => &[],
        };
        let private_home: &[&str] = if self.policy == "untrusted-tests" { &["HOME=/tmp"] } else { &[] };
        for setting in [self.project.env, own, private_home].concat() {
            let setting = setting.replace("${HOME}", home.to_str().unwrap());
            inner.arg("--env").arg(setting.replace("${WORKSPACE}", work.to_str().unwrap()));
        }
        inner.arg("-c").arg(script);
        let mut command = if self.user == User::current() && !self.user.is_root() {
            let mut command = Command::new(&self.programs.stockade);
            command.args(inner.get_args().skip_while(|argument| *argument != "run"));
            command
        } else {
            let bind = format!("mount --bind '{}' '{}'", sysroot().display(), toolchain.display());
            let mut command = Command::new("unshare");
            command.args(["--mount", "bash", "-ec", &format!("{bind}; exec \"$@\""), "--"]);
            command.arg(inner.get_program()).args(inner.get_args());
            command
        };
        let bin = if self.user.is_root() || self.user != User::current() {
            toolchain.join("bin")
        } else {
            sysroot().join("bin")
        };
        command.env_clear().env("HOME", &home).current_dir(&work);
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {script}: {stderr}", self.name());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn name(&self) -> String {
        format!("{} under {} as {}", self.project.name, self.policy, self.user.name())
    }

    /// The project is built and tested, and nothing is denied on the way that would matter.
    pub(crate) fn works(&self) {
        let result = self.run(self.project.script);
        let stdout = result["stdout"]["text"].as_str().unwrap();
        assert_eq!(result["exitCode"], 0, "{}: {result:#}", self.name());
        assert_eq!(result["sandbox"]["denied"], false, "{}: {result:#}", self.name());
        assert_eq!(result["sandbox"]["enforcement"], "full", "{}: {result:#}", self.name());
        let ran = (self.project.count)(stdout);
        assert!(ran >= self.project.tests, "{}: {ran} tests: {stdout}", self.name());
        let left = self.work().join(self.project.left);
        assert!(left.exists(), "{}: {}", self.name(), left.display());
        println!("{}: {ran} tests passed", self.name());
    }

    /// What the policies promise beside that.
    pub(crate) fn refuses(&self) {
        for (script, refused) in [
            ("echo x >~/new".replace('~', self.home().to_str().unwrap()), true),
            ("exec 3<>/dev/tcp/192.0.2.1/443".to_owned(), true),
            (format!("cat {}/diary", self.home().display()), self.policy == "untrusted-tests"),
            ("echo x >.git/description".to_owned(), ["ci", "untrusted-tests"].contains(&self.policy)),
            ("echo x >new".to_owned(), false),
        ] {
            let result = self.run(&script);
            assert_eq!(result["exitCode"] != 0, refused, "{}: {script}: {result:#}", self.name());
        }
        assert!(!self.home().join("new").exists());
        assert_eq!(fs::read_to_string(self.work().join("new")).unwrap(), "x\n");
    }
}

/// Makes the project a repository, as a checkout is.
fn git(work: &Path) {
    let output = Command::new("git").args(["init", "--quiet"]).arg(work).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let output = Command::new("cp").args(["-rT", "--"]).args([from, to]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Tests of `test result: ok. N passed; ...`.
pub(crate) fn cargo_tests(stdout: &str) -> usize {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    lines.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

/// Tests of `== 79 passed, 1 skipped in 1.3s ==`.
pub(crate) fn pytest_tests(stdout: &str) -> usize {
    let last = stdout.lines().rfind(|line| line.contains(" passed")).unwrap_or_default();
    last.trim_start_matches(['=', ' ']).split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Lines of the Test Anything Protocol.
pub(crate) fn tap_tests(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.starts_with("ok ")).count()
}

/// Lines of `go test -v`.
pub(crate) fn go_tests(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.trim_start().starts_with("--- PASS")).count()
}
