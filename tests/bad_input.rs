//! What makes no sense, or cannot be done here: a message that says so, the right exit status, and nothing run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

#[path = "bad_input/hosts.rs"]
mod hosts;
#[path = "bad_input/library.rs"]
mod library;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use cli::{Prompt, outcome};

/// Runs `stockade run ARGS -c 'touch MARKER'` and checks status and message, and that nothing ran.
fn refused(prompt: &Prompt, args: &[&str], status: i32, words: &[&str]) {
    let marker = prompt.root().join("marker");
    let script = format!("touch {}", marker.display());
    let (found, stdout, stderr) = outcome(&mut prompt.run(args.iter().copied().chain(["-c", &script])));
    assert_eq!(found, status, "{args:?}: {stderr}");
    assert!(stderr.starts_with("stockade: "), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: {word:?} is not in: {stderr}");
    }
    assert_eq!(stdout, "", "{args:?}");
    assert!(!marker.exists(), "{args:?}: it ran");
}

/// What keeps `refused` honest: the same command, with nothing wrong about it, runs.
fn control(prompt: &Prompt, args: &[&str]) {
    let marker = prompt.root().join("marker");
    let script = format!("touch {}", marker.display());
    let args = args.iter().copied().chain(["--mode", "danger-full-access", "-c", &script]);
    let (status, _, stderr) = outcome(&mut prompt.run(args));
    assert_eq!(status, 0, "{stderr}");
    fs::remove_file(&marker).expect("the control leaves its marker");
}

#[test]
fn places() {
    for prompt in Prompt::all() {
        fs::write(prompt.root().join("file"), "").unwrap();
        let (missing, file) = (prompt.root().join("missing"), prompt.root().join("file"));
        let (missing, file) = (missing.to_str().unwrap(), file.to_str().unwrap());
        for mode in ["read-only", "workspace-write", "danger-full-access"] {
            refused(&prompt, &["--mode", mode, "--workdir", missing], 125, &["workdir", missing, "No such file"]);
            refused(&prompt, &["--mode", mode, "--workdir", file], 125, &["workdir", file, "ot a directory"]);
            refused(&prompt, &["--mode", mode, "--workspace", missing], 125, &["workspace", missing, "No such file"]);
            refused(&prompt, &["--mode", mode, "--workspace", file], 125, &["workspace", file, "not a directory"]);
            refused(&prompt, &["--mode", mode, "--workspace", ""], 2, &["--workspace"]);
        }
        for mode in ["read-only", "workspace-write"] {
            refused(&prompt, &["--mode", mode, "--workspace", "/"], 125, &["workspace /", "project"]);
            refused(&prompt, &["--mode", mode, "--workspace", "/../"], 125, &["workspace /"]);
        }
        if !prompt.user.is_root() {
            let closed = prompt.root().join("closed");
            fs::create_dir(&closed).unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
            if user::User::current().is_root() {
                refused(&prompt, &["--workdir", closed.to_str().unwrap()], 125, &["workdir", "Permission denied"]);
            }
        }
        control(&prompt, &[]);
    }
}

#[test]
fn words_and_numbers() {
    for prompt in Prompt::all() {
        for (wrong, meant) in [
            ("workspce-write", "workspace-write"),
            ("readonly", "read-only"),
            ("Read-Only", "read-only"),
            ("danger", "danger-full-access"),
            ("full-access", "danger-full-access"),
        ] {
            let did_you_mean = format!("'{meant}'");
            refused(&prompt, &["--mode", wrong], 2, &[wrong, "did you mean", &did_you_mean]);
        }
        refused(&prompt, &["--mode", ""], 2, &["read-only"]);
        for timeout in ["-1", "-99999999999999999999", "1.5", "ten", "99999999999999999999999", "2592000001", ""] {
            refused(&prompt, &["--timeout-ms", timeout], 2, &["--timeout-ms", "milliseconds"]);
        }
        refused(&prompt, &["--network", "some"], 2, &["--network", "off"]);
        refused(&prompt, &["--env", "NAME"], 2, &["NAME=VALUE"]);
        refused(&prompt, &["--env", "=x"], 2, &["NAME=VALUE"]);
        refused(&prompt, &["--env", "DSH_X=1"], 2, &["DSH_X"]);
        refused(&prompt, &["--policy", "no-such-policy"], 2, &["no-such-policy", "read-only"]);
        refused(&prompt, &["--write", "/no/such/path", "--mode", "workspace-write"], 125, &["/no/such/path"]);
        control(&prompt, &["--timeout-ms", "2592000000"]);
    }
}

#[test]
fn contradictions() {
    for prompt in Prompt::all() {
        refused(&prompt, &["--network", "off", "--allow-host", "example.invalid"], 2, &["--network", "--allow-host"]);
        refused(&prompt, &["--mode", "danger-full-access", "--network", "off"], 2, &["danger-full-access"]);
        refused(&prompt, &["--mode", "danger-full-access", "--deny-read", "/etc"], 2, &["danger-full-access"]);
        control(&prompt, &["--network", "full"]);
    }
}

#[test]
fn nothing_to_run() {
    for prompt in Prompt::all() {
        for args in [&["-c", ""][..], &["-c", " \n\t"], &["--", ""], &[]] {
            let (status, stdout, stderr) = outcome(&mut prompt.run(args));
            assert_eq!((status, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
            assert!(stderr.starts_with("stockade: "), "{args:?}: {stderr}");
        }
        // It says how a program is given.
        let (_, _, stderr) = outcome(&mut prompt.run([] as [&str; 0]));
        assert!(stderr.contains("PROGRAM"), "{stderr}");
    }
}

#[test]
fn no_bash() {
    for prompt in Prompt::all() {
        let stockade = prompt.program().to_owned();
        let with_path = |path: &str, args: &[&str]| {
            let mut command = prompt.command("env");
            outcome(command.arg(format!("PATH={path}")).arg(&stockade).arg("run").args(args))
        };
        for path in ["/nowhere", "relative:.", ""] {
            let (status, _, stderr) = with_path(path, &["-c", "true"]);
            assert_eq!(status, 125, "{path:?}: {stderr}");
            assert!(stderr.starts_with("stockade: ") && stderr.contains("bash"), "{stderr}");
        }
        // A program that is named by its path needs no shell.
        assert_eq!(with_path("/nowhere", &["--", "/bin/sh", "-c", "exit 4"]).0, 4);
    }
}
