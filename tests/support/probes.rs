//! Building the probes, and running commands as root and as an ordinary user.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{getgid, getuid};

/// Programs are looked for here, inside and outside alike.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Who attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

pub(crate) const ROOT: Actor = Actor { name: "root", uid: 0, gid: 0 };
pub(crate) const USER: Actor = Actor { name: "user", uid: 1500, gid: 1500 };

impl Actor {
    /// The words before a command that make it run as this actor; none when the test is that actor already.
    pub(crate) fn prefix(self) -> Vec<String> {
        if !getuid().is_root() || self.uid == 0 {
            return Vec::new();
        }
        ["setpriv", &format!("--reuid={}", self.uid), &format!("--regid={}", self.gid), "--clear-groups"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Whether this test can act as this actor at all: an ordinary user is one already, and cannot be root.
    pub(crate) fn available(self) -> bool {
        getuid().is_root() || self.uid != 0
    }

    /// The ids that files of this actor have.
    pub(crate) fn ids(self) -> (u32, u32) {
        if getuid().is_root() { (self.uid, self.gid) } else { (getuid().as_raw(), getgid().as_raw()) }
    }
}

/// The compiled probes, built once for a given text of their sources.
pub(crate) fn build() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/probes");
    let mut files: Vec<_> = fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        fs::read(file).unwrap().hash(&mut hasher);
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let probe = directory.join(format!("probe-{:016x}", hasher.finish()));
    if probe.exists() {
        return probe;
    }
    let fresh = tempfile::Builder::new().prefix("probe-").tempdir_in(directory).unwrap();
    let object = fresh.path().join("probe");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&object)
        .args(files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "c")))
        .arg("-lrt")
        .output()
        .expect("cc, the C compiler, is needed for the attack probes");
    assert!(built.status.success(), "the probes do not compile: {}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&object, &probe).unwrap();
    probe
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) hung: bool,
}

/// Runs a command with its output in files, so that a descendant that holds a pipe open cannot hold the test.
pub(crate) fn run(words: &[String], env: &[(String, String)], directory: &Path, timeout: Duration) -> Finished {
    let mut out = tempfile::tempfile().unwrap();
    let mut err = tempfile::tempfile().unwrap();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    let (_, hung) = wait(&mut child, timeout);
    let text = |file: &mut fs::File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Finished { stdout: text(&mut out), stderr: text(&mut err), hung }
}

/// Waits for a child, and ends it when it takes too long: its exit code, and whether it had to be ended.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> (Option<i32>, bool) {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), false);
        }
        if started.elapsed() > timeout {
            child.kill().unwrap();
            return (child.wait().unwrap().code(), true);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
