//! The official Model Context Protocol clients drive `stockade mcp`: list, call, denial, questions declined, dismissed and
//! accepted, background, output, kill, progress, cancellation, disconnection, roots. The steps are in `tests/clients/`.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod clients;
mod mcp_support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use clients::{canonical, driver, holds, installed, texts};
use mcp_support::{alive, gone};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stockade");

const PYTHON_STEPS: [&str; 14] = [
    "list",
    "call",
    "declined",
    "dismissed",
    "accepted",
    "background",
    "notice",
    "kill",
    "progress",
    "cancel",
    "many at once",
    "disconnect",
    "no capability",
    "roots",
];

fn python(what: &str, mode: &str, workspace: &TempDir, root: &TempDir, clients: &std::path::Path) -> Command {
    let mut command = driver(clients, "mcp_client.py");
    command.args([what, PROGRAM]).args([canonical(workspace), canonical(root)]).arg(mode);
    command.env("STOCKADE_TEST_JOURNAL", root.path().join("journal"));
    command
}

/// The whole story is in the journal: every call that ran with its end, every question with its answer.
fn recorded(root: &TempDir) {
    let journal = root.path().join("journal");
    let checked = Command::new(PROGRAM).args(["journal", "verify"]).arg(&journal).output().unwrap();
    assert!(checked.status.success(), "{:?}", texts(&checked));
    let text = std::fs::read_to_string(&journal).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let answers = |name: &str| -> Vec<&str> {
        let asked = of("approval").filter(|record| record["command"] == format!("touch {name}"));
        asked.map(|record| record["answer"]["word"].as_str().unwrap()).collect()
    };
    assert_eq!(answers("declined.txt"), ["rejected"], "{text}");
    assert_eq!(answers("cancelled.txt"), ["cancelled"], "{text}");
    assert_eq!(answers("accepted.txt"), ["allowed-once"], "{text}");
    assert_eq!(answers("unasked.txt"), ["unavailable"], "{text}");
    let widened = of("started").filter(|record| record["command"] == "touch accepted.txt");
    let modes: Vec<_> = widened.map(|record| record["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["read-only", "workspace-write"], "{text}");
    // Each question was on record before it was asked.
    for answer in of("approval") {
        let asked: Vec<_> = of("asked").filter(|asked| asked["seq"] == answer["asked"]).collect();
        assert_eq!(asked.len(), 1, "{answer}");
        assert_eq!((&asked[0]["command"], &asked[0]["asks"]), (&answer["command"], &answer["asks"]));
    }
    assert_eq!(of("asked").count(), of("approval").count());
    for started in of("started") {
        let ended: Vec<_> = of("ended").filter(|ended| ended["started"] == started["seq"]).collect();
        assert_eq!(ended.len(), 1, "{started}");
        for field in ["session", "time", "command", "workdir", "mode", "policyDigest", "enforcement"] {
            assert!(ended[0][field].is_string(), "{field}: {}", ended[0]);
        }
    }
    let denied = of("ended").filter(|ended| ended["denied"] == true && ended["denials"][0]["kind"] == "fs.create");
    assert!(denied.count() >= 4, "{text}");
}

#[test]
fn the_python_client_with_the_handshake() {
    let Some(clients) = installed("Python mcp") else { return };
    let (workspace, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    holds(&mut python("story", "legacy", &workspace, &root, &clients), &PYTHON_STEPS);
    recorded(&root);
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["accepted.txt"], "only what was accepted is there");
}

#[test]
fn the_python_client_without_the_handshake() {
    let Some(clients) = installed("Python mcp, 2026-07-28") else { return };
    let (workspace, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    holds(&mut python("story", "2026-07-28", &workspace, &root, &clients), &PYTHON_STEPS);
    recorded(&root);
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["accepted.txt"], "only what was accepted is there");
}

#[test]
fn a_killed_client_takes_everything_with_it() {
    let Some(clients) = installed("Python mcp, killed") else { return };
    for mode in ["legacy", "2026-07-28"] {
        let (workspace, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut client = python("hang", mode, &workspace, &root, &clients).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mark = line.trim().strip_prefix("running: ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        assert_eq!(alive(&mark), 2, "the control");
        client.kill().unwrap();
        client.wait().unwrap();
        gone(&mark);
    }
}

#[test]
fn the_typescript_client() {
    let Some(clients) = installed("@modelcontextprotocol/sdk") else { return };
    let (workspace, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = driver(&clients, "mcp_client.mjs");
    command.arg(PROGRAM).args([canonical(&workspace), canonical(&root)]);
    let steps = [
        "list",
        "call",
        "declined",
        "dismissed",
        "accepted",
        "background",
        "kill",
        "progress",
        "cancel",
        "disconnect",
        "no capability",
        "roots",
    ];
    holds(&mut command, &steps);
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["accepted.txt"], "only what was accepted is there");
}

#[test]
fn the_inspector() {
    let Some(clients) = installed("@modelcontextprotocol/inspector") else { return };
    let (workspace, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let inspect = |options: &[&str]| -> Value {
        let output = Command::new("node")
            .arg(clients.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
            .arg("--cli")
            .args(options)
            .args(["--", PROGRAM, "mcp", "--workspace"])
            .arg(workspace.path())
            .env("HOME", home.path())
            .output()
            .unwrap();
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}\n{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
    };
    let listed = inspect(&["--method", "tools/list", "--strict"]);
    let names: Vec<&Value> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["bash", "bash_output", "bash_kill"], "{listed}");
    let call = |command: &str| {
        let command = format!("command={command}");
        inspect(&["--method", "tools/call", "--tool-name", "bash", "--tool-arg", &command, "description=Test"])
    };
    let result = call("echo hi");
    assert_eq!(result["structuredContent"]["stdout"]["text"], "hi\n", "{result}");
    let denied = call("touch new.txt");
    assert_eq!(denied["structuredContent"]["sandbox"]["denied"], true, "{denied}");
    assert!(!workspace.path().join("new.txt").exists());
}
