//! A scene to attack: files, and a bystander whose condition is compared before and after.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::layout::{SECRETS, lay_out, open_to_all};
use crate::probes::{Actor, PATH, build, run, wait};

/// Lines that another process writes, as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        Self(receiver)
    }

    /// Everything up to a line that begins so, and that line; what there was when it did not come in time.
    pub(crate) fn until(&self, last: &str, timeout: Duration) -> (Vec<String>, bool) {
        let (started, mut lines) = (Instant::now(), Vec::new());
        while let Ok(line) = self.0.recv_timeout(timeout.saturating_sub(started.elapsed())) {
            let end = line.starts_with(last);
            lines.push(line);
            if end {
                return (lines, true);
            }
        }
        (lines, false)
    }
}

/// A process of the host with secrets, services and objects of its own.
pub(crate) struct Victim {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    /// What befell it so far.
    events: Vec<String>,
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
        let lines = Lines::of(child.stdout.take().unwrap());
        let (opening, whole) = lines.until("ready", Duration::from_secs(60));
        assert!(whole, "the bystander does not start: {opening:?}");
        let values = opening
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self { child, stdin, lines, events: Vec::new(), values }
    }

    /// Everything that happened to it so far, and its condition now.
    fn condition(&mut self) -> Vec<String> {
        let asked = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"state\n").is_ok());
        let (mut answer, whole) = if asked { self.lines.until("end", ANSWER) } else { (Vec::new(), false) };
        self.events.extend(answer.extract_if(.., |line| line.starts_with("event")));
        answer.extend_from_slice(&self.events);
        if !whole {
            answer.push(BYSTANDER_GONE.to_owned());
        }
        answer
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

/// Stands for its condition when it does not answer.
pub(crate) const BYSTANDER_GONE: &str = "the bystander is dead or stopped";

/// How long a process of the test's own may take to answer on a busy machine.
const ANSWER: Duration = Duration::from_secs(5);

/// Lists what is watched, again and again.
pub(crate) struct Observer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    last: Vec<String>,
}

impl Observer {
    /// `paths` are compared whole; below `workspaces` only setuid programs, file capabilities and device nodes are
    /// looked for.
    fn start(paths: &[PathBuf], workspaces: &[PathBuf]) -> Self {
        let mut child = Command::new(build())
            .arg("watch")
            .args(paths)
            .arg("--")
            .args(workspaces)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), child, lines, last: Vec::new() }
    }

    fn look(&mut self) -> Vec<String> {
        self.stdin.as_mut().unwrap().write_all(b"look\n").unwrap();
        let (lines, whole) = self.lines.until("end", Duration::from_secs(60));
        assert!(whole, "the observer does not answer");
        if lines.first().is_none_or(|line| line != "same") {
            self.last = lines;
        }
        self.last.clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
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
    observer: Option<Observer>,
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
        let copied = Command::new("cp").arg("-aT").arg(self.directory.path()).arg(directory.path()).status().unwrap();
        assert!(copied.success());
        let pid = std::process::id();
        let token = format!("stk{pid}x{number}");
        let canary = format!("canary-{token}-{:08x}", pid.wrapping_mul(2_654_435_761).wrapping_add(number));
        let sysv = i32::try_from((pid % 16_000) * 65_536 + (number % 65_536)).unwrap() + 1;
        for secret in SECRETS {
            fs::write(directory.path().join("home").join(secret), format!("{canary}\n")).unwrap();
        }
        let victim = Victim::start(directory.path(), self.actor, &token, &canary, sysv);
        Scene { directory, actor: self.actor, token, canary, sysv, victim, observer: None }
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
        let (uid, gid) = self.actor.ids();
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
            .replace("{uid}", &uid.to_string())
            .replace("{gid}", &gid.to_string())
    }

    /// What `world` is to look at.
    pub(crate) fn watch(&mut self, paths: &[PathBuf], workspaces: &[PathBuf]) {
        self.observer = Some(Observer::start(paths, workspaces));
    }

    /// Files and bystander as the outside sees them now.
    pub(crate) fn world(&mut self) -> Vec<String> {
        let mut lines = self.observer.as_mut().unwrap().look();
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
