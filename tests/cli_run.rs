//! `stockade run` as its callers see it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

#[path = "cli_run/json.rs"]
mod json;
#[path = "cli_run/terminal.rs"]
mod terminal;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use cli::{Prompt, outcome, outcome_with_input};

#[test]
fn exit_statuses() {
    for prompt in Prompt::all() {
        let work = prompt.work();
        fs::write(work.join("plain"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(work.join("plain"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(work.join("folder")).unwrap();
        let cases: &[(&[&str], i32)] = &[
            (&["--", "true"], 0),
            (&["--", "false"], 1),
            (&["-c", "exit 7"], 7),
            (&["-c", "exit 124"], 124),
            (&["-c", "exit 255"], 255),
            (&["-c", "kill -TERM $$"], 128 + 15),
            (&["-c", "kill -KILL $$"], 128 + 9),
            (&["-c", "kill -SEGV $$"], 128 + 11),
            (&["--timeout-ms", "200", "--", "sleep", "1000"], 124),
            (&["--timeout-ms", "0", "--", "true"], 0),
            (&["--mode", "danger-full-access", "-c", "exit 9"], 9),
            (&["--workdir", "/nowhere", "--", "true"], 125),
            (&["--backend", "landlock", "--require", "full", "--", "true"], 125),
            (&["--", "./plain"], 126),
            (&["--", "./folder"], 126),
            (&["--", "no-such-program-anywhere"], 127),
            (&["--", "./no-such-program"], 127),
            // The shell's own, not ours.
            (&["-c", "no-such-program-anywhere"], 127),
            (&["-c", "./plain"], 126),
            (&["--no-such-option", "--", "true"], 2),
            (&[], 2),
            (&["-c", "true", "--", "true"], 2),
        ];
        for (args, status) in cases {
            let (found, _, stderr) = outcome(&mut prompt.run(*args));
            assert_eq!(found, *status, "{args:?}: {stderr}");
            let ours = args.first() != Some(&"-c") || args.len() > 2;
            if ours && matches!(status, 2 | 125..=127) {
                assert!(stderr.starts_with("stockade: "), "{args:?}: {stderr}");
            } else {
                assert!(!stderr.contains("stockade: "), "{args:?}: {stderr}");
            }
        }
    }
}

#[test]
fn standard_streams_are_the_callers() {
    for prompt in Prompt::all() {
        let input: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let script = "tee copy >/dev/null 2>&1; echo out; echo err >&2; wc -c";
        let output = {
            let mut command = prompt.run(["-c", "cat"]);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let sent = input.clone();
            let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &sent));
            let output = child.wait_with_output().unwrap();
            writer.join().unwrap().unwrap();
            output
        };
        assert!(output.stdout == input, "every byte comes through");
        let (_, stdout, stderr) = outcome_with_input(&mut prompt.run(["-c", script]), b"123456");
        assert_eq!((stdout.as_str(), stderr.as_str()), ("out\n0\n", "err\n"));
        // One file for both keeps their order.
        let both = prompt.root().join("both");
        let file = fs::File::create(&both).unwrap();
        let mut command = prompt.run(["-c", "for n in $(seq 100); do echo $n; echo $n >&2; done"]);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        assert!(command.status().unwrap().success());
        let expected: String = (1..=100).map(|n| format!("{n}\n{n}\n")).collect();
        assert_eq!(fs::read_to_string(&both).unwrap(), expected);
    }
}

#[test]
fn standard_input_is_passed_through() {
    for prompt in Prompt::all() {
        assert_eq!(outcome_with_input(&mut prompt.run(["--", "cat"]), b"hello").1, "hello");
        let (_, stdout, _) = outcome_with_input(&mut prompt.run(["--json", "--", "cat"]), b"hello");
        let result: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(result["stdout"]["text"], "hello");
    }
}

/// A command that says when it is up.
fn start(prompt: &Prompt, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = prompt.run(["-c", script]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    (child, stdout)
}

#[test]
fn signals_reach_the_command() {
    for prompt in Prompt::all() {
        for signal in
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2]
        {
            let name = signal.as_str().trim_start_matches("SIG");
            let script = format!("trap 'echo caught; exit 5' {name}; echo up; sleep 1000 & wait");
            let (mut child, mut stdout) = start(&prompt, &script);
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
            let mut rest = String::new();
            stdout.read_to_string(&mut rest).unwrap();
            assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("caught\n", Some(5)), "{signal}");
        }
        // One that does not handle it dies of it, and the status says so.
        let (mut child, _stdout) = start(&prompt, "echo up; exec sleep 1000");
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    for prompt in Prompt::all() {
        let (mut child, stdout) = start(&prompt, "echo up; exec yes");
        drop(stdout);
        let end = Instant::now() + Duration::from_secs(20);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "it writes on to nobody"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(128 + 13));
        let text = format!("{} run -c 'yes | head -n 100000' | head -n 1", prompt.program().display());
        assert_eq!(outcome(prompt.command("bash").args(["-c", &text])).1, "y\n");
    }
}

#[test]
fn environment() {
    for prompt in Prompt::all() {
        let environment = |args: &[&str]| {
            let mut command = prompt.run(args.iter().chain(&["--", "env"]));
            command.env("PLAIN", "plain").env("MY_TOKEN", "secret").env("OTHER_PASSWORD", "secret");
            command.env("LD_LIBRARY_PATH", "/nowhere").env("BASH_ENV", "/nowhere").env("DSH_X", "managed");
            command.env("BASH_FUNC_ls%%", "() { echo hijacked; }").env("PROMPT_COMMAND", "true");
            let (status, stdout, stderr) = outcome(&mut command);
            assert_eq!(status, 0, "{stderr}");
            stdout
        };
        let plain = environment(&[]);
        assert!(plain.contains("\nPLAIN=plain\n") || plain.starts_with("PLAIN=plain\n"), "{plain}");
        for name in
            ["MY_TOKEN", "OTHER_PASSWORD", "LD_LIBRARY_PATH", "BASH_ENV", "DSH_X", "BASH_FUNC", "PROMPT_COMMAND"]
        {
            assert!(!plain.contains(name), "{name}: {plain}");
        }
        let passed = environment(&["--pass-env", "MY_TOKEN"]);
        assert!(passed.contains("MY_TOKEN=secret") && !passed.contains("OTHER_PASSWORD"), "{passed}");
        let set = environment(&["--env", "A=b = c", "--env", "MY_TOKEN=given", "--env", "EMPTY="]);
        for line in ["A=b = c\n", "MY_TOKEN=given\n", "EMPTY=\n"] {
            assert!(set.contains(line), "{set}");
        }
    }
}

#[test]
fn where_commands_start() {
    for prompt in Prompt::all() {
        let other = prompt.root().join("other");
        fs::create_dir_all(other.join("inner")).unwrap();
        fs::create_dir(prompt.work().join("sub")).unwrap();
        let pwd = |args: &[&str]| outcome(&mut prompt.run(args.iter().chain(&["--", "pwd"]))).1.trim().to_owned();
        let (work, other) = (prompt.work(), other.display().to_string());
        let work = work.display();
        assert_eq!(pwd(&[]), work.to_string());
        assert_eq!(pwd(&["--workdir", "sub"]), format!("{work}/sub"));
        assert_eq!(pwd(&["--workspace", &other]), other);
        assert_eq!(pwd(&["--workspace", "../other", "--workdir", &format!("{other}/inner")]), format!("{other}/inner"));
        // What may be written comes from the workspace, wherever the command starts.
        let script = format!("touch here; touch {work}/there; ls");
        let args = ["--mode", "workspace-write", "--workdir", &other, "-c", &script];
        assert_eq!(outcome(&mut prompt.run(args)).1, "inner\n");
        assert!(prompt.work().join("there").exists());
    }
}

/// The launcher is a fork of the command line, and must not carry its secrets on.
#[test]
fn the_launcher_keeps_no_secrets() {
    for prompt in Prompt::all() {
        let mut command = prompt.run(["--env", "GIVEN_SECRET=argument-secret", "-c", "echo up; exec sleep 1000"]);
        let mut child = command.env("HOST_SECRET", "variable-secret").spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let own =
            |pid: u32| fs::read(format!("/proc/{pid}/environ")).map(|text| String::from_utf8_lossy(&text).into_owned());
        let launchers: Vec<u32> = procfs::process::all_processes()
            .unwrap()
            .filter_map(|process| process.ok()?.stat().ok())
            .filter(|stat| stat.ppid == child.id().cast_signed())
            .map(|stat| stat.pid.cast_unsigned())
            .collect();
        assert_eq!(launchers.len(), 1);
        let arguments = fs::read_to_string(format!("/proc/{}/cmdline", launchers[0])).unwrap();
        assert!(!arguments.contains("argument-secret"), "{arguments:?}");
        if user::User::current().is_root() {
            assert!(own(child.id()).unwrap().contains("variable-secret"), "the control");
            assert!(!own(launchers[0]).unwrap().contains("variable-secret"));
        } else {
            assert!(own(launchers[0]).is_err(), "not dumpable");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// runc's CVE-2019-5736: the executor's own program, reached through the processes that run it or by its name, and kept
/// open until nothing runs it any more.
#[test]
fn the_program_cannot_be_rewritten_from_inside() {
    const PYTHON: &str = "/usr/bin/python3";
    // Of all that run, those alone that are this copy: where nothing refused it, no other program is to suffer.
    let script = "import glob, os, sys\n\
        def is_it(link):\n\
        \x20   try:\n\
        \x20       return os.readlink(link) == sys.argv[1]\n\
        \x20   except OSError:\n\
        \x20       return False\n\
        for name in [link for link in glob.glob('/proc/[0-9]*/exe') if is_it(link)] + [sys.argv[1]]:\n\
        \x20   for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):\n\
        \x20       for path in (name, '/proc/self/fd/9'):\n\
        \x20           try:\n\
        \x20               os.dup2(os.open(name, os.O_PATH), 9)\n\
        \x20               os.write(os.open(path, flags), b'#!')\n\
        \x20           except OSError:\n\
        \x20               pass\n";
    for prompt in Prompt::all() {
        let program = prompt.root().join("own-stockade");
        fs::copy(prompt.program(), &program).unwrap();
        prompt.user.own(&program);
        let (before, text) = (fs::read(&program).unwrap(), program.to_str().unwrap());
        for backend in ["namespaces", "landlock"] {
            let args = ["run", "--mode", "workspace-write", "--backend", backend, "--", PYTHON, "-c", script, text];
            let (status, _, stderr) = outcome(prompt.command(&program).args(args));
            assert_eq!(status, 0, "{stderr}");
            assert!(fs::read(&program).unwrap() == before, "{backend} as {}: it was written", prompt.user.name());
        }
        // Unconfined, and with nothing running it, it is this user's to write.
        assert_eq!(outcome(prompt.command(PYTHON).args(["-c", script, text])).0, 0);
        assert!(fs::read(&program).unwrap().starts_with(b"#!"), "the control");
    }
}
