//! `stockade shell` as a person uses it: on a real terminal, looked at from its other side.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "shell_support/mod.rs"]
mod shell_support;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use shell_support::{STOCKADE, Session, scene};

#[test]
fn the_prompt_names_the_mode_and_the_terminal_is_real() {
    let dir = scene();
    for uid in [0, 1500] {
        let mut shell = Session::start(&dir, uid, &["--mode", "workspace-write"]);
        shell.expect("[workspace-write] ");
        shell.run("tty; test -t 0 && test -t 2 && echo both", "/dev/pts/0");
        shell.expect("both");
        shell.run("echo to-the-terminal > /dev/tty", "\nto-the-terminal");
        shell.run("ls /dev/pts | wc -w", "\n2");
        assert_eq!(shell.leave(), Some(0), "uid {uid}");
    }
}

#[test]
fn what_is_refused_is_summed_up_and_what_is_allowed_lands() {
    let dir = scene();
    let mut shell = Session::start(&dir, 0, &["--mode", "read-only"]);
    shell.run("touch refused", "Read-only file system");
    shell.type_line("exit 7");
    assert_eq!(shell.end(), Some(7));
    let seen = shell.seen();
    assert!(seen.contains("stockade: 1 denial in this session"), "{seen}");
    assert!(seen.contains("stockade: denied fs.create") && seen.contains("refused by touch"), "{seen}");
    assert!(!dir.path().join("refused").exists());

    let mut shell = Session::start(&dir, 0, &["--mode", "workspace-write"]);
    shell.run("touch allowed; echo did=$?", "did=0");
    assert_eq!(shell.leave(), Some(0));
    assert!(dir.path().join("allowed").exists());
    assert!(!shell.seen().contains("denial"), "{}", shell.seen());
}

#[test]
fn the_size_follows_the_callers_terminal() {
    let dir = scene();
    let mut shell = Session::start(&dir, 0, &[]);
    shell.run("stty size", "\n24 80");
    shell.resize(33, 101);
    // SIGWINCH and the command race: ask until the answer is the new one.
    shell.run("until [ \"$(stty size)\" = '33 101' ]; do sleep 0.05; done; echo resized", "\nresized");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn jobs_are_controlled_and_interrupts_reach_the_foreground_only() {
    let dir = scene();
    let mut shell = Session::start(&dir, 0, &[]);
    shell.type_line("sleep 1000; echo status=$?");
    shell.wait_for_foreground("sleep");
    shell.type_bytes(b"\x03");
    shell.expect("^C");
    shell.run("sleep 1001 & jobs", "Running");
    shell.type_line("fg");
    shell.wait_for_foreground("sleep");
    shell.type_bytes(b"\x1a");
    shell.expect("Stopped");
    shell.run("bg; jobs -r | wc -l", "\n1");
    shell.run("kill %1; wait %1; echo killed=$?", "killed=143");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn the_callers_terminal_is_as_it_was_however_the_shell_ends() {
    let dir = scene();
    let signalled = [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGQUIT, 131)];
    for (signal, status) in signalled {
        let mut shell = Session::start(&dir, 0, &[]);
        shell.expect("[read-only] ");
        assert!(shell.is_raw());
        // A job that a hang-up does not end must go as well.
        shell.run("(trap '' HUP TERM; sleep 1000) & echo started", "\nstarted");
        shell.signal(signal);
        let ended = shell.end();
        assert_eq!(ended, Some(status), "{signal}: {}", shell.seen());
        assert!(!shell.is_raw() && shell.settings_are_back(), "{signal}");
    }
    let mut shell = Session::start(&dir, 0, &["--timeout-ms", "700"]);
    shell.expect("[read-only] ");
    assert_eq!(shell.end(), Some(124));
    assert!(shell.settings_are_back());
    let mut shell = Session::start(&dir, 0, &[]);
    shell.run("stty -echo -icanon; printf '\\033[?1049h\\033[?25l'; echo mess", "mess");
    assert_eq!(shell.leave(), Some(0));
    assert!(shell.settings_are_back());
    let seen = shell.seen();
    assert!(seen.rfind("\x1b[?1049l") > seen.rfind("\x1b[?1049h"), "the alternate screen is left: {seen:?}");
    assert!(seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"), "{seen:?}");
}

/// SIGKILL gives nobody a last word: of the shell inside, and of the launcher that holds its sandbox.
#[test]
fn the_callers_terminal_is_as_it_was_when_what_runs_in_it_is_killed() {
    let dir = scene();
    for uid in [0, 1500] {
        let mut shell = Session::start(&dir, uid, &[]);
        shell.expect("[read-only] ");
        shell.type_line("kill -9 $$");
        assert_eq!(shell.end(), Some(137), "uid {uid}: {}", shell.seen());
        assert!(!shell.is_raw() && shell.settings_are_back(), "uid {uid}");

        let mut shell = Session::start(&dir, uid, &[]);
        shell.run("sleep 4567 & echo started", "\nstarted");
        assert!(shell.is_raw());
        let launchers = shell.children();
        assert!(!launchers.is_empty());
        for launcher in launchers {
            nix::sys::signal::kill(launcher, Signal::SIGKILL).unwrap();
        }
        assert_eq!(shell.end(), Some(125), "uid {uid}: {}", shell.seen());
        assert!(!shell.is_raw() && shell.settings_are_back(), "uid {uid}");
        assert!(shell.seen().contains("stockade: "), "it says so: {}", shell.seen());
    }
}

/// SIGKILL of stockade itself, of it alone and with its whole job: nobody but another process can give the terminal back.
#[test]
fn the_callers_terminal_is_as_it_was_when_stockade_is_killed() {
    let dir = scene();
    for uid in [0, 1500] {
        for whole_job in [false, true] {
            let mut shell = Session::start(&dir, uid, &[]);
            shell.run("printf '\\033[?1049h\\033[?25l'; echo mess", "mess");
            shell.run("sleep 4568 & echo started", "\nstarted");
            assert!(shell.is_raw());
            if whole_job {
                shell.signal_job(Signal::SIGKILL);
            } else {
                shell.signal(Signal::SIGKILL);
            }
            assert_eq!(shell.end(), None, "it died of a signal");
            shell.wait_until("the settings are back", |shell| shell.settings_are_back());
            shell.expect("\u{1b}[?1049l\u{1b}[?25h");
            shell.wait_until("nobody is left", |shell| shell.companions().is_empty());
        }
        // Whoever has taken the terminal for a use of their own keeps it.
        let mut shell = Session::start(&dir, uid, &[]);
        shell.expect("[read-only] ");
        assert!(!shell.companions().is_empty(), "the control: there is somebody to leave");
        let taken = shell.take_for_itself();
        shell.signal(Signal::SIGKILL);
        assert_eq!(shell.end(), None);
        shell.wait_until("nobody is left", |shell| shell.companions().is_empty());
        assert!(shell.settings_are(&taken), "uid {uid}");
    }
}

#[test]
fn a_stopped_shell_gives_the_terminal_back_meanwhile() {
    let dir = scene();
    let mut shell = Session::start(&dir, 0, &[]);
    shell.expect("[read-only] ");
    assert!(shell.is_raw());
    shell.signal(Signal::SIGTSTP);
    shell.wait_until("it is stopped, and the settings are back", |shell| {
        shell.is_stopped() && shell.settings_are_back()
    });
    shell.signal(Signal::SIGCONT);
    shell.wait_until("it is raw again", |shell| shell.is_raw());
    shell.run("echo still here", "\nstill here");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn the_clipboard_is_out_of_reach_and_titles_are_not() {
    let dir = scene();
    let mut shell = Session::start(&dir, 0, &[]);
    shell.run("printf '\\033]0;title\\007\\033]52;c;c3RvbGVu\\007\\033P+q\\033\\\\done\\n'", "done\r");
    assert_eq!(shell.leave(), Some(0));
    let seen = shell.seen();
    assert!(seen.contains("\x1b]0;title\x07"), "{seen:?}");
    assert!(!seen.contains("\x1b]52") && !seen.contains("\x1bP"), "{seen:?}");
}

#[test]
fn nothing_can_be_typed_into_the_terminal_from_inside() {
    let dir = scene();
    // The number, and the same with high bits set, which the kernel ignores.
    let inject = "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); \
        print([l.ioctl(0, ctypes.c_ulong(n), b\"x\") or ctypes.get_errno() for n in (0x5412, 0x5412 + (1 << 32))], \
        [ctypes.get_errno()])'";
    let mut shell = Session::start(&dir, 0, &[]);
    shell.run(inject, "\n[-1, -1] [1]");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn input_that_is_no_terminal_is_typed_to_its_end() {
    let dir = scene();
    let mut child = Command::new(STOCKADE)
        .arg("shell")
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"echo one-$((1+1))\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("one-2"), "{output:?}");
}

#[test]
fn a_session_is_recorded() {
    let (dir, journals) = (scene(), tempfile::tempdir().unwrap());
    let journal = journals.path().join("journal");
    let mut shell = Session::start(&dir, 0, &["--journal", journal.to_str().unwrap()]);
    shell.run("touch refused", "Read-only");
    shell.type_line("exit 3");
    assert_eq!(shell.end(), Some(3));
    let text = fs::read_to_string(&journal).unwrap();
    let ended: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&ended["exitCode"], &ended["command"][0]), (&3.into(), &"bash".into()));
    assert_eq!(ended["denials"][0]["kind"], "fs.create");
}
