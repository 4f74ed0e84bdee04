//! A person's terminal: usable by the command, left as it was found.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};

use crate::cli::Prompt;

/// A pseudo-terminal: our end and the command's.
struct Terminal {
    ours: File,
    theirs: OwnedFd,
}

impl Terminal {
    fn open() -> Self {
        let pair = openpty(None, None).unwrap();
        Self { ours: File::from(pair.master), theirs: pair.slave }
    }

    /// Makes it the command's standard input, output and error.
    fn attach(&self, command: &mut Command) {
        let copy = || self.theirs.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
    }

    fn settings(&self) -> Termios {
        tcgetattr(&self.theirs).unwrap()
    }

    fn flags(&self) -> OFlag {
        OFlag::from_bits_retain(fcntl(self.theirs.as_fd(), FcntlArg::F_GETFL).unwrap())
    }

    /// Reads until what was written contains `text`.
    fn expect(&mut self, text: &str) -> String {
        let mut seen = String::new();
        let end = Instant::now() + Duration::from_secs(20);
        while !seen.contains(text) {
            assert!(Instant::now() < end, "{text:?} never came: {seen:?}");
            let mut buffer = [0; 4096];
            let length = self.ours.read(&mut buffer).unwrap();
            seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        seen
    }
}

#[test]
fn settings_are_restored() {
    for prompt in Prompt::all() {
        let script = "test -t 0 && test -t 1 && test -t 2 || exit 9; stty -echo -icanon; stty -a; echo changed";
        let mut terminal = Terminal::open();
        let (settings, flags) = (terminal.settings(), terminal.flags());
        assert!(settings.local_flags.contains(LocalFlags::ECHO | LocalFlags::ICANON));
        let mut command = prompt.run(["-c", script]);
        terminal.attach(&mut command);
        let mut child = command.spawn().unwrap();
        let seen = terminal.expect("changed");
        assert!(seen.contains("-echo ") && seen.contains("-icanon"), "the command's change took effect: {seen}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(terminal.settings() == settings && terminal.flags() == flags, "{:?}", terminal.settings());

        // The control: without stockade the change stays.
        let mut command = prompt.command("bash");
        command.args(["-c", script]);
        terminal.attach(&mut command);
        let mut child = command.spawn().unwrap();
        terminal.expect("changed");
        child.wait().unwrap();
        assert!(terminal.settings() != settings);
    }
}

#[test]
fn what_is_typed_is_read() {
    for prompt in Prompt::all() {
        let mut terminal = Terminal::open();
        let mut command = prompt.run(["-c", "echo ready; read -r line; echo \"<$line>\""]);
        terminal.attach(&mut command);
        let mut child = command.spawn().unwrap();
        terminal.expect("ready");
        terminal.ours.write_all(b"typed\n").unwrap();
        terminal.expect("<typed>");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// The terminal sends SIGINT to its foreground group, which is ours; the command has a session of its own.
#[test]
fn control_c_reaches_the_command() {
    for prompt in Prompt::all() {
        let mut terminal = Terminal::open();
        let mut command = prompt.command("setsid");
        command.args(["--ctty", "--wait"]).arg(prompt.program());
        command.args(["run", "-c", "trap 'echo caught; exit 5' INT; echo ready; sleep 1000 & wait"]);
        terminal.attach(&mut command);
        let mut child = command.spawn().unwrap();
        terminal.expect("ready");
        terminal.ours.write_all(b"\x03").unwrap();
        terminal.expect("caught");
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}
