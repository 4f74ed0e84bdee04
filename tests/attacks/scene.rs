//! A scene to attack: files, and a bystander whose condition is compared before and after.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::layout::{SECRETS, lay_out, open_to_all};
use crate::probes::{Actor, PATH, build, run, wait};

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
        Scene { directory, actor: self.actor, token, canary, sysv, victim }
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
