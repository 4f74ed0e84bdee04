//! Building the probes, the scene they act on, and the bystander whose condition is compared before and after.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use tempfile::TempDir;

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
        if getuid().as_raw() == self.uid {
            return Vec::new();
        }
        ["setpriv", &format!("--reuid={}", self.uid), &format!("--regid={}", self.gid), "--clear-groups"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Whether this test can act as this actor at all: root can be anybody, others only themselves.
    pub(crate) fn available(self) -> bool {
        getuid().is_root() || getuid().as_raw() == self.uid
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
        use std::io::{Read, Seek};
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Finished { stdout: text(&mut out), stderr: text(&mut err), hung }
}

fn wait(child: &mut Child, timeout: Duration) -> (Option<i32>, bool) {
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

/// A process of the host with secrets, services and objects of its own.
pub(crate) struct Victim {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) values: BTreeMap<String, String>,
}

impl Victim {
    fn start(scene: &Path, actor: Actor, token: &str, canary: &str, sysv: i32) -> Self {
        let mut words = actor.prefix();
        let bin = scene.join("bin/probe").display().to_string();
        let out = scene.join("out").display().to_string();
        words.extend([bin, "victim".into(), token.into(), out, sysv.to_string()]);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .env("STOCKADE_CANARY", canary)
            .current_dir(scene)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (reader, kept) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let mut victim = Self { child, stdin, lines, values: BTreeMap::new() };
        let opening = victim.lines_until("ready", Duration::from_secs(20)).expect("the bystander starts");
        victim.values = opening
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        victim.lines.lock().unwrap().clear();
        victim
    }

    fn lines_until(&self, last: &str, timeout: Duration) -> Option<Vec<String>> {
        let started = Instant::now();
        while started.elapsed() < timeout {
            let lines = self.lines.lock().unwrap();
            if lines.iter().any(|line| line == last) {
                return Some(lines.clone());
            }
            drop(lines);
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Everything that happened to it so far, and its condition now.
    fn condition(&mut self) -> Vec<String> {
        self.lines.lock().unwrap().retain(|line| line.starts_with("event"));
        let asked = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"state\n").is_ok());
        let answer = if asked { self.lines_until("end", Duration::from_millis(1500)) } else { None };
        answer.unwrap_or_else(|| vec![String::from("the bystander is dead or stopped")])
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

/// One fresh set of files, host process and host services.
pub(crate) struct Scene {
    directory: TempDir,
    pub(crate) actor: Actor,
    pub(crate) token: String,
    pub(crate) canary: String,
    sysv: i32,
    pub(crate) victim: Victim,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

/// The files of a scene, made once for an actor and copied from then on.
pub(crate) struct Template {
    directory: TempDir,
    actor: Actor,
}

impl Template {
    pub(crate) fn new(actor: Actor) -> Self {
        // Not /tmp, which a sandbox has one of its own of: there nothing could be reached and nothing be proved.
        let directory = tempfile::Builder::new().prefix("stockade-t").tempdir_in("/var/tmp").unwrap();
        open_to_all(directory.path());
        lay_out(directory.path(), actor);
        Self { directory, actor }
    }

    pub(crate) fn scene(&self) -> Scene {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new().prefix("stockade-s").tempdir_in("/var/tmp").unwrap();
        open_to_all(directory.path());
        let copied = Command::new("cp")
            .arg("-aT")
            .arg(self.directory.path())
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(copied.success());
        let pid = std::process::id();
        let token = format!("stk{pid}x{number}");
        let canary = format!("canary-{token}-{:08x}", pid.wrapping_mul(2_654_435_761).wrapping_add(number));
        let sysv = i32::try_from((pid % 16_000) * 65_536 + (number % 65_536)).unwrap() + 1;
        for secret in SECRETS {
            fs::write(directory.path().join("home").join(secret), format!("{canary}\n")).unwrap();
        }
        let victim = Victim::start(directory.path(), self.actor, &token, &canary, sysv);
        Scene { directory, actor: self.actor, token, canary, sysv, victim }
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Credentials under the scene's HOME, all holding the secret.
const SECRETS: &[&str] = &[
    ".ssh/id_test",
    ".aws/credentials",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/key",
];

fn put(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn lay_out(root: &Path, actor: Actor) {
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(build(), root.join("bin/probe")).unwrap();
    fs::set_permissions(root.join("bin/probe"), fs::Permissions::from_mode(0o755)).unwrap();
    for secret in SECRETS {
        put(root.join("home").join(secret), "later");
    }
    for name in [".bashrc", ".profile", ".config/settings"] {
        put(root.join("home").join(name), "# as it was\n");
    }
    for place in ["out", "ws"] {
        let at = root.join(place);
        put(at.join("file"), &"as it was\n".repeat(20));
        put(at.join("dir/inner"), "inner\n");
        put(at.join("big"), &"0123456789abcdef".repeat(1024));
        put(at.join("marked"), "marked\n");
        put(at.join("exec.sh"), "#!/bin/sh\nexit 0\n");
        fs::set_permissions(at.join("exec.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(at.join("empty")).unwrap();
        run_quietly(&[&root.join("bin/probe").display().to_string(), "setxattr", &at.join("marked").display().to_string(), "user.mark", "setxattr"]);
    }
    put(root.join("out/rights"), "rights\n");
    put(root.join("out/hard"), "hard\n");
    put(root.join("out/mounted/file"), "mounted\n");
    put(root.join("out/held-back"), "");
    lay_out_workspace(&root.join("ws"));
    put(root.join("bare/readme"), "bare\n");
    fs::create_dir_all(root.join("bare/scratch")).unwrap();
    lay_out_linked(root);
    lay_out_repository(&root.join("ws"));
    give(root, actor);
}

fn lay_out_workspace(ws: &Path) {
    for name in ["plain2", "exec2.sh"] {
        put(ws.join(name), "x\n");
    }
    for name in ["scratch", "mnt", "build-upper", "build-work", "race2"] {
        fs::create_dir_all(ws.join(name)).unwrap();
    }
    put(ws.join("race2/file"), "mine\n");
    put(ws.join("mnt/file"), "covered\n");
    symlink("../out", ws.join("race2-out")).unwrap();
    symlink("../out", ws.join("way-out")).unwrap();
    symlink("../out/file", ws.join("file-out")).unwrap();
    symlink("../out/not-yet", ws.join("dangling-out")).unwrap();
    fs::hard_link(ws.join("../out/hard"), ws.join("hard-out")).unwrap();
    for name in [".vscode/settings.json", ".idea/workspace.xml", ".claude/settings.json", ".mcp.json", ".envrc"] {
        put(ws.join(name), "{}\n");
    }
}

/// A repository that arrives with its protected names planted as links that lead out.
fn lay_out_linked(root: &Path) {
    let linked = root.join("linked");
    fs::create_dir_all(linked.join("scratch")).unwrap();
    put(linked.join(".git/HEAD"), "ref: refs/heads/main\n");
    put(linked.join(".git/config"), "[core]\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(linked.join(".git").join(name)).unwrap();
    }
    for (name, target) in [(".git/hooks", "hooks"), (".claude", "claude"), (".vscode", "vscode")] {
        put(root.join("out/far").join(target).join("settings.json"), "{}\n");
        let up = "../".repeat(name.split('/').count());
        symlink(format!("{up}out/far/{target}"), linked.join(name)).unwrap();
    }
    put(root.join("out/far/envrc"), "as it was\n");
    symlink("../out/far/envrc", linked.join(".envrc")).unwrap();
}

/// A real repository with a nested one, a submodule's directory and a linked worktree.
fn lay_out_repository(ws: &Path) {
    let git = |at: &Path, words: &[&str]| {
        let mut all = vec!["git", "-C"];
        let at = at.display().to_string();
        all.push(&at);
        all.extend(["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]);
        all.extend(words);
        run_quietly(&all);
    };
    fs::create_dir_all(ws.join("vendor/sub")).unwrap();
    for at in [ws.to_path_buf(), ws.join("vendor/sub")] {
        git(&at, &["init", "-q", "--template="]);
    }
    git(ws, &["config", "extensions.worktreeConfig", "true"]);
    git(ws, &["add", "file", "plain2"]);
    git(ws, &["commit", "-qm", "first"]);
    git(ws, &["worktree", "add", "-q", "--detach", "tree"]);
    // Relative, so that the copies of the template point to themselves.
    fs::write(ws.join("tree/.git"), "gitdir: ../.git/worktrees/tree\n").unwrap();
    fs::write(ws.join(".git/worktrees/tree/gitdir"), "../../../tree/.git\n").unwrap();
    for name in [
        ".git/hooks/pre-commit",
        ".git/config.worktree",
        ".git/info/attributes",
        ".git/modules/sub/hooks/post-checkout",
        ".git/modules/sub/config",
        ".git/worktrees/tree/config.worktree",
        "vendor/sub/.git/hooks/pre-commit",
    ] {
        put(ws.join(name), "# as it was\n");
    }
    put(ws.join(".git/modules/sub/HEAD"), "ref: refs/heads/main\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(ws.join(".git/modules/sub").join(name)).unwrap();
    }
}

fn run_quietly(words: &[&str]) {
    let done = Command::new(words[0])
        .args(&words[1..])
        .env_clear()
        .env("PATH", PATH)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Makes the actor the owner of everything but the probe.
fn give(path: &Path, actor: Actor) {
    if !getuid().is_root() {
        return;
    }
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_symlink() {
        std::os::unix::fs::lchown(path, Some(actor.uid), Some(actor.gid)).unwrap();
        return;
    }
    chown(path, Some(actor.uid), Some(actor.gid)).unwrap();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), actor);
        }
    }
}

impl Scene {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn probe(&self) -> String {
        self.path("bin/probe").display().to_string()
    }

    /// Fills in the `{names}` of a row.
    pub(crate) fn fill(&self, text: &str, scratch: &Path) -> String {
        let mut filled = text.to_owned();
        for name in ["out", "ws", "bare", "linked", "home", "bin"] {
            filled = filled.replace(&format!("{{{name}}}"), &self.path(name).display().to_string());
        }
        for (name, value) in &self.victim.values {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
            .replace("{scratch}", &scratch.display().to_string())
            .replace("{probe}", &self.probe())
            .replace("{token}", &self.token)
            .replace("{sysv}", &self.sysv.to_string())
            .replace("{uid}", &self.actor.uid.to_string())
            .replace("{gid}", &self.actor.gid.to_string())
    }

    /// Files and bystander as the outside sees them now. `paths` are compared whole; below `workspaces` only setuid
    /// programs, file capabilities and device nodes are looked for.
    pub(crate) fn world(&mut self, paths: &[PathBuf], workspaces: &[PathBuf]) -> Vec<String> {
        let mut lines = Vec::new();
        for (tool, list) in [("snapshot", paths), ("special", workspaces)] {
            if list.is_empty() {
                continue;
            }
            let listed = Command::new(self.path("bin/probe")).arg(tool).args(list).output();
            match listed {
                Ok(listed) => lines.extend(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned)),
                Err(error) => lines.push(format!("the probe itself cannot be run any more: {error}")),
            }
        }
        lines.extend(self.victim.condition());
        lines
    }

    /// Processes with the scene's token in their command line, the bystander left out.
    pub(crate) fn survivors(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            if pid != self.victim.pid().as_raw() && words.iter().any(|word| word == self.token.as_str()) {
                found.push(Pid::from_raw(pid));
            }
        }
        found
    }

    /// Ends what an unconfined attack left behind.
    pub(crate) fn end_survivors(&self) {
        // Again and again, because some of them jump from process to process.
        let (mut quiet, mut seen) = (0, false);
        for _ in 0..400 {
            let left = self.survivors();
            quiet = if left.is_empty() { quiet + 1 } else { 0 };
            seen |= !left.is_empty();
            if quiet == 3 || !seen {
                return;
            }
            for pid in left {
                if let Err(error) = kill(pid, Signal::SIGKILL) {
                    assert_eq!(error, nix::errno::Errno::ESRCH);
                }
            }
            if quiet == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end_survivors();
        drop(self.victim.stdin.take());
        let pid = self.victim.pid();
        let killed = kill(pid, Signal::SIGCONT).is_err();
        let (code, hung) = wait(&mut self.victim.child, Duration::from_secs(2));
        if killed || hung || code != Some(0) {
            let mut words = self.actor.prefix();
                words.extend([build().display().to_string(), "victim-cleanup".into(), self.token.clone()]);
            words.push(self.sysv.to_string());
            run(&words, &[(String::from("PATH"), PATH.into())], Path::new("/"), Duration::from_secs(5));
        }
    }
}
