//! A person at a terminal: the other side of a real pseudo-terminal, with `stockade shell` in a session of its own on it.
#![allow(unreachable_pub, reason = "shared by a test file")]

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Pid;

pub const STOCKADE: &str = env!("CARGO_BIN_EXE_stockade");

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A workspace that belongs to everybody.
pub fn scene() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("stockade-shell-").tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

pub struct Session {
    person: OwnedFd,
    /// Held open, so that the person's side goes on working when the shell is gone.
    terminal: OwnedFd,
    before: Termios,
    child: Child,
    seen: Vec<u8>,
    /// How far [`Session::expect`] has come.
    read: usize,
}

impl Session {
    pub fn start(dir: &tempfile::TempDir, uid: u32, options: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        chown(format!("/proc/self/fd/{}", pty.slave.as_raw_fd()), Some(uid), None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let stdio = || pty.slave.try_clone().unwrap();
        let child = Command::new("setsid")
            .args(["--ctty", "setpriv", &format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups"])
            .args([STOCKADE, "shell"])
            .args(options)
            .current_dir(dir.path())
            .env("TERM", "dumb")
            .env("HOME", dir.path())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        Self { person: pty.master, terminal: pty.slave, before, child, seen: Vec::new(), read: 0 }
    }

    pub fn type_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = nix::unistd::write(&self.person, rest).unwrap();
            rest = &rest[written..];
        }
    }

    pub fn type_line(&mut self, line: &str) {
        self.type_bytes(format!("{line}\n").as_bytes());
    }

    /// Types a line and waits for what it must show. The echo of the line itself is passed over: a text that begins a
    /// line begins with a newline here.
    pub fn run(&mut self, line: &str, expected: &str) {
        self.expect_prompt();
        self.type_line(line);
        self.expect("\n");
        self.read -= 1;
        self.expect(expected);
    }

    /// Waits for the end of the prompt.
    fn expect_prompt(&mut self) {
        self.expect_one_of(&["# ", "$ "]);
    }

    /// Waits until the text is shown after what was expected before.
    pub fn expect(&mut self, text: &str) {
        self.expect_one_of(&[text]);
    }

    fn expect_one_of(&mut self, texts: &[&str]) {
        let limit = Instant::now() + PATIENCE;
        loop {
            let new = &self.seen[self.read..];
            let end = |text: &str| {
                new.windows(text.len()).position(|window| window == text.as_bytes()).map(|at| at + text.len())
            };
            if let Some(end) = texts.iter().filter_map(|text| end(text)).min() {
                self.read += end;
                return;
            }
            assert!(Instant::now() < limit, "never shown: {texts:?}; shown: {:?}", self.seen());
            self.look();
        }
    }

    pub fn wait_until(&mut self, what: &str, test: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + PATIENCE;
        while !test(self) {
            assert!(Instant::now() < limit, "never came true: {what}; shown: {:?}", self.seen());
            self.look();
        }
    }

    /// Waits until a program of this name leads the foreground group of the terminal inside.
    pub fn wait_for_foreground(&mut self, name: &str) {
        let ours = i32::try_from(self.child.id()).unwrap();
        self.wait_until("the program is in the foreground", |_| {
            let processes = procfs::process::all_processes().unwrap().flatten();
            processes
                .filter_map(|process| process.stat().ok())
                .any(|stat| stat.comm == name && stat.pgrp == stat.tpgid && descends(stat.pid, ours))
        });
    }

    fn look(&mut self) {
        let mut ready = [PollFd::new(self.person.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::from(20_u8)).unwrap() == 0 {
            return;
        }
        let mut buffer = [0_u8; 4096];
        let length = nix::unistd::read(&self.person, &mut buffer).unwrap();
        self.seen.extend_from_slice(&buffer[..length]);
    }

    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.person, size).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Whether the shell is stopped: a SIGCONT before that is lost, and no shell sends one.
    pub fn is_stopped(&self) -> bool {
        let process = procfs::process::Process::new(i32::try_from(self.child.id()).unwrap()).unwrap();
        process.stat().unwrap().state == 'T'
    }

    /// Signals the whole job, as a shell's `kill %1` does.
    pub fn signal_job(&self, signal: Signal) {
        nix::sys::signal::killpg(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Processes that hold the terminal, but for this one and the shell itself.
    pub fn companions(&self) -> Vec<Pid> {
        // By number, not by name: the terminal inside may have the same name.
        let of = |path: &str| std::fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
        let terminal = of(&format!("/proc/self/fd/{}", self.terminal.as_raw_fd()));
        let others = [i32::try_from(std::process::id()).unwrap(), i32::try_from(self.child.id()).unwrap()];
        let holds = |process: &procfs::process::Process| {
            let mut open = process.fd().into_iter().flatten().flatten();
            open.any(|fd| of(&format!("/proc/{}/fd/{}", process.pid, fd.fd)) == terminal)
        };
        let processes = procfs::process::all_processes().unwrap().flatten();
        let found = processes.filter(|process| !others.contains(&process.pid) && holds(process));
        found.map(|process| Pid::from_raw(process.pid)).collect()
    }

    /// The processes that `stockade shell` itself started.
    pub fn children(&self) -> Vec<Pid> {
        let ours = i32::try_from(self.child.id()).unwrap();
        let processes = procfs::process::all_processes().unwrap().flatten();
        let stats = processes.filter_map(|process| process.stat().ok());
        stats.filter(|stat| stat.ppid == ours).map(|stat| Pid::from_raw(stat.pid)).collect()
    }

    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_flags.contains(LocalFlags::ICANON)
    }

    pub fn settings_are_back(&self) -> bool {
        tcgetattr(&self.terminal).unwrap() == self.before
    }

    /// Sets the terminal as a line editor does: keys one by one, and signals by keys.
    pub fn take_for_itself(&self) -> Termios {
        let mut taken = self.before.clone();
        taken.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(&self.terminal, SetArg::TCSANOW, &taken).unwrap();
        taken
    }

    pub fn settings_are(&self, settings: &Termios) -> bool {
        tcgetattr(&self.terminal).unwrap() == *settings
    }

    /// Leaves by Ctrl-D.
    pub fn leave(&mut self) -> Option<i32> {
        self.expect_prompt();
        self.type_bytes(b"\x04");
        self.end()
    }

    /// Waits for the end and gives the exit status.
    pub fn end(&mut self) -> Option<i32> {
        let limit = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().unwrap();
            self.look();
            if let Some(status) = ended {
                self.look();
                return status.code();
            }
            assert!(Instant::now() < limit, "it does not end; shown: {:?}", self.seen());
        }
    }
}

fn descends(mut pid: i32, from: i32) -> bool {
    while pid > 1 {
        if pid == from {
            return true;
        }
        let parent = procfs::process::Process::new(pid).and_then(|process| process.stat()).map(|stat| stat.ppid);
        pid = parent.unwrap_or(0);
    }
    false
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
