//! Processes that were started to be attacked.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::verify::facts::{Victim, Victims};
use crate::verify::probe::VICTIM;

/// All of them.
pub(super) struct Processes {
    terminate: Running,
    stop: Running,
    kill: Running,
    trace: Running,
    other: Running,
    second: Running,
    /// Processors of `other` as they were.
    processors: Option<String>,
}

/// One that runs, until this is dropped.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    victim: Victim,
}

impl Processes {
    pub(super) fn start(program: &Path, token: &str) -> io::Result<Self> {
        let start = || Running::start(program, token);
        let other = start()?;
        let processors = of_proc(other.victim, "status", "Cpus_allowed_list");
        let [terminate, stop, kill, trace, second] = [start()?, start()?, start()?, start()?, start()?];
        Ok(Self { terminate, stop, kill, trace, other, second, processors })
    }

    pub(super) fn victims(&self) -> Victims {
        Victims {
            terminate: self.terminate.victim,
            stop: self.stop.victim,
            kill: self.kill.victim,
            trace: self.trace.victim,
            other: self.other.victim,
            second: self.second.victim,
        }
    }

    pub(super) fn terminated(&mut self) -> bool {
        self.terminate.ended()
    }

    pub(super) fn killed(&mut self) -> bool {
        self.kill.ended()
    }

    pub(super) fn traced(&mut self) -> bool {
        self.trace.ended()
    }

    pub(super) fn stopped(&self) -> bool {
        of_proc(self.stop.victim, "status", "State").is_some_and(|state| state.starts_with('T'))
    }

    /// Whether the memory of `other` was written.
    pub(super) fn written(&mut self) -> bool {
        self.other.written()
    }

    /// Whether that of the second was.
    pub(super) fn second_written(&mut self) -> bool {
        self.second.written()
    }

    pub(super) fn niceness(&self) -> Option<i64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.other.victim.pid)).ok()?;
        // The name of the program may hold anything; the fields after it begin behind its parenthesis.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(16)?.parse().ok()
    }

    pub(super) fn processors_changed(&self) -> bool {
        of_proc(self.other.victim, "status", "Cpus_allowed_list") != self.processors
    }

    pub(super) fn core_limit(&self) -> Option<String> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.other.victim.pid)).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"))?;
        line.split_whitespace().next().map(str::to_owned)
    }

    pub(super) fn score(&self) -> Option<String> {
        let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", self.other.victim.pid)).ok()?;
        Some(score.trim().to_owned())
    }
}

impl Running {
    fn start(program: &Path, token: &str) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(["probe", VICTIM, token])
            .env("STOCKADE_VERIFY", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let Some(stdout) = stdout else { return Err(io::Error::other("a process without output")) };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let victim = serde_json::from_str(&line).map_err(|error| {
            io::Error::other(format!("{} does not answer as a process to be attacked: {error}", program.display()))
        });
        let mut running = Self { child, stdin, stdout, victim: Victim::default() };
        running.victim = victim?;
        Ok(running)
    }

    fn ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    fn written(&mut self) -> bool {
        let Some(stdin) = &mut self.stdin else { return false };
        let mut answer = [0];
        let asked = stdin.write_all(b"?").and_then(|()| stdin.flush());
        asked.and_then(|()| self.stdout.read_exact(&mut answer)).is_ok() && &answer == b"y"
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait().map(drop));
        if let Err(error) = ended {
            tracing::warn!(%error, pid = self.victim.pid, "a throw-away process could not be ended");
        }
    }
}

fn of_proc(victim: Victim, file: &str, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{}/{file}", victim.pid)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Processes with all these words in their arguments. They are ended: nobody else has the token.
pub(super) fn end_survivors(words: [&str; 2]) -> usize {
    let mut ended = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let arguments: Vec<&str> = line.split('\0').collect();
        if words.iter().all(|word| arguments.contains(word)) {
            ended += usize::from(kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok());
        }
    }
    ended
}
