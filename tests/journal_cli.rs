//! `stockade run --journal` and `stockade journal`, as a person uses them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn stockade(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stockade")).args(arguments).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A workspace, and a directory for the journal outside it.
fn scene() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let root = tempfile::tempdir().unwrap();
    let workspace = root.path().join("ws");
    fs::create_dir(&workspace).unwrap();
    let journal = root.path().join("journal").to_str().unwrap().to_owned();
    (root, workspace, journal)
}

#[test]
fn a_run_is_recorded_with_its_denials_and_without_its_secrets() {
    let (_root, workspace, journal) = scene();
    let command = "MY_TOKEN=hush; touch denied-here; exit 3";
    let ran = stockade(&workspace, &["run", "--journal", &journal, "-c", command]);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    assert!(!workspace.join("denied-here").exists());
    let stored = fs::read_to_string(&journal).unwrap();
    assert!(!stored.contains("hush"), "{stored}");
    let ended: serde_json::Value = serde_json::from_str(stored.lines().nth(1).unwrap()).unwrap();
    assert_eq!(ended["kind"], "ended");
    assert_eq!(ended["started"], 1);
    assert_eq!(ended["exitCode"], 3);
    assert_eq!(ended["mode"], "read-only");
    assert_eq!(ended["policyDigest"].as_str().unwrap().len(), 64);
    assert_eq!(ended["workdir"], workspace.to_str().unwrap());
    let target = ended["denials"][0]["path"].as_str().unwrap();
    assert_eq!(target, workspace.join("denied-here").to_str().unwrap());

    let shown = text(&stockade(&workspace, &["journal", "show", &journal]).stdout);
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.contains("read-only exit 3") && shown.contains("MY_TOKEN=***"), "{shown}");
    let verified = stockade(&workspace, &["journal", "verify", &journal]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");

    fs::write(&journal, stored.replace("\"exitCode\":3", "\"exitCode\":0")).unwrap();
    let verified = stockade(&workspace, &["journal", "verify", &journal]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(text(&verified.stdout).contains(&format!("{journal}:2: edited:")), "{verified:?}");
}

#[test]
fn filters_show_what_they_say() {
    let (_root, workspace, journal) = scene();
    for (mode, command) in [("read-only", "echo one"), ("workspace-write", "echo two"), ("read-only", "touch three")] {
        stockade(&workspace, &["run", "--mode", mode, "--journal", &journal, "-c", command]);
    }
    let show = |options: &[&str]| {
        let output = stockade(&workspace, &[&["journal", "show", journal.as_str()], options].concat());
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let all = show(&[]);
    assert!(["echo one", "echo two", "touch three"].iter().all(|command| all.contains(command)), "{all}");
    assert!(show(&["--mode", "workspace-write"]).contains("echo two"));
    assert_eq!(show(&["--mode", "workspace-write"]).lines().count(), 1);
    assert!(show(&["--denied"]).contains("touch three") && !show(&["--denied"]).contains("echo"));
    assert_eq!(show(&["--since", "1h"]), all);
    assert_eq!(show(&["--since", "2999-01-01T00:00:00Z"]), "");
    assert_eq!(show(&["--session", "none"]), "");
    let json = show(&["--json"]);
    assert_eq!(json, fs::read_to_string(&journal).unwrap(), "--json shows the stored lines");
}

#[test]
fn what_cannot_be_recorded_does_not_run() {
    let (root, workspace, _) = scene();
    let within = workspace.join("journal").to_str().unwrap().to_owned();
    let run = |journal: &str| {
        let options = ["run", "--mode", "workspace-write", "--journal", journal, "-c", "echo ran > ran"];
        stockade(&workspace, &options).status.code()
    };
    assert_eq!(run(&within), Some(2), "the command could change its own journal");
    let foreign = root.path().join("notes");
    fs::write(&foreign, "notes\n").unwrap();
    assert_eq!(run(foreign.to_str().unwrap()), Some(125));
    assert_eq!(run("/nowhere/journal"), Some(125));
    assert!(!workspace.join("ran").exists());
    assert_eq!(run(root.path().join("fine").to_str().unwrap()), Some(0));
    assert!(workspace.join("ran").exists(), "the control ran");
}

/// Processes that share a journal, some of them killed at whatever they were doing.
#[test]
fn writers_that_are_killed_leave_a_whole_chain() {
    let (_root, workspace, journal) = scene();
    let mut finished = 0;
    for round in 0..12 {
        let start = |number: usize| {
            let command = format!("echo {round}-{number}");
            let mut run = Command::new(env!("CARGO_BIN_EXE_stockade"));
            run.args(["run", "--journal", &journal, "-c", &command]).current_dir(&workspace);
            run.stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        let mut writers: Vec<_> = (0..3).map(start).collect();
        std::thread::sleep(std::time::Duration::from_millis(3 * round));
        writers[0].kill().unwrap();
        finished += writers.iter_mut().map(|writer| writer.wait().unwrap()).filter(|ended| ended.success()).count();
    }
    assert!(finished >= 24, "the others ran: {finished}");
    let verified = stockade(&workspace, &["journal", "verify", &journal]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    let shown = text(&stockade(&workspace, &["journal", "show", "--json", &journal]).stdout);
    let ends = shown.lines().filter(|line| line.contains("\"kind\":\"ended\"")).count();
    assert!(ends >= finished, "every end is recorded: {ends} of {finished}");
}

#[test]
fn follow_goes_on_with_what_is_appended() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let (_root, workspace, journal) = scene();
    stockade(&workspace, &["run", "--journal", &journal, "-c", "echo first"]);
    let mut follower = Command::new(env!("CARGO_BIN_EXE_stockade"))
        .args(["journal", "show", "--follow", &journal])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("echo first"));
    stockade(&workspace, &["run", "--journal", &journal, "-c", "echo second"]);
    assert!(lines.next().unwrap().unwrap().contains("started  echo second"));
    assert!(lines.next().unwrap().unwrap().contains("exit 0"));
    follower.kill().unwrap();
    follower.wait().unwrap();
}
