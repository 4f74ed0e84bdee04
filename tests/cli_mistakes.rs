//! What people type on their first day: each mistake ends with 2 (or with what stockade cannot do), runs nothing, and the
//! message says what was meant.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::fs;

use cli::{Prompt, outcome};

#[test]
fn a_mistake_is_told_with_what_was_meant() {
    let prompt = Prompt::of(user::User::current());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "touch", "ran"], 2, "stockade run [OPTIONS] -- touch ..."),
        (&["run", "--mode", "workspace-write", "touch", "ran"], 2, "stockade run [OPTIONS] -- touch ..."),
        (&["run", "touch ran"], 2, "stockade run [OPTIONS] -c 'touch ran'"),
        (&["run", "--", "touch ran"], 127, "a command line for a shell goes with -c"),
        (&["run"], 2, "`-- PROGRAM [ARG...]` or `-c 'SHELL COMMAND'`"),
        (&["run", "-c"], 2, "a value is required"),
        (&["run", "--writ", ".", "-c", "touch ran"], 2, "'--write'"),
        (&["touch", "ran"], 2, "stockade run [OPTIONS] -- touch ..."),
        (&["rum", "--", "touch", "ran"], 2, "'run'"),
        (&["--mode", "workspace-write", "run", "-c", "touch ran"], 2, "stockade run --mode ..."),
        (&["shell", "-c", "touch ran"], 2, "`stockade run -c 'COMMAND'`"),
        (&["shell", "touch", "ran"], 2, "`stockade run -c 'COMMAND'`"),
        (&["run", "--mode", "write", "-c", "touch ran"], 2, "did you mean 'workspace-write'?"),
        (&["run", "--policy", "rst", "-c", "touch ran"], 2, "did you mean 'rust'?"),
        (&["run", "--allow-host", "https://crates.io/", "-c", "touch ran"], 2, "write HOST, HOST:PORT"),
        (&["run", "--timeout-ms", "5s", "-c", "touch ran"], 2, "whole milliseconds"),
        (&["run", "--env", "FOO", "-c", "touch ran"], 2, "--pass-env"),
        (&["run", "--write", "/nowhere/x", "-c", "touch ran"], 125, "create it or correct it"),
        (&["journal", "show", "nowhere"], 125, "No such file or directory"),
        (&["journal", "verify", "nowhere"], 125, "No such file or directory"),
        (&["journal", "show", "/etc/passwd"], 125, "/etc/passwd: no journal"),
    ];
    for (args, status, words) in cases {
        let (code, out, err) = outcome(prompt.command(prompt.program()).args(*args));
        assert_eq!((code, out.as_str()), (*status, ""), "{args:?}: {err}");
        assert!(err.starts_with("stockade: ") && err.contains(words), "{args:?}: {err}");
        assert!(!prompt.work().join("ran").exists(), "{args:?}");
    }
    let right = ["run", "--mode", "workspace-write", "--", "touch", "ran"];
    assert_eq!(outcome(prompt.command(prompt.program()).args(right)).0, 0);
    assert!(prompt.work().join("ran").exists(), "the control");
}

/// What can be asked is told without a complaint, to whoever asks nothing.
#[test]
fn asking_nothing_tells_what_can_be_asked() {
    let prompt = Prompt::of(user::User::current());
    for args in [&[] as &[&str], &["journal"]] {
        let (code, out, err) = outcome(prompt.command(prompt.program()).args(args));
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(!err.starts_with("stockade: ") && err.contains("Usage: stockade"), "{err}");
    }
    let (code, out, err) = outcome(prompt.command(prompt.program()).arg("--help"));
    assert_eq!((code, err.as_str()), (0, ""));
    for command in ["run", "shell", "doctor", "explain", "verify", "mcp", "journal", "completions"] {
        assert!(out.contains(&format!("\n  {command} ")), "{command}: {out}");
        let (code, out, err) = outcome(prompt.command(prompt.program()).args([command, "--help"]));
        assert_eq!((code, err.as_str()), (0, ""), "{command}");
        assert!(out.contains(&format!("Usage: stockade {command}")), "{out}");
    }
}

/// A journal with lines that are none is shown as far as it is one, and the rest is counted.
#[test]
fn lines_that_are_no_records_are_counted() {
    let prompt = Prompt::of(user::User::current());
    let journal = prompt.root().join("journal");
    let file = journal.display().to_string();
    assert_eq!(outcome(&mut prompt.run(["--journal", &file, "--", "true"])).0, 0);
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{whole}one\ntwo\n")).unwrap();
    let (code, out, err) = outcome(prompt.command(prompt.program()).args(["journal", "show", &file]));
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    assert_eq!(err, format!("stockade: 2 lines are no records; `stockade journal verify {file}` says which\n"));
}
