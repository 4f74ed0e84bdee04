//! The official Agent Client Protocol clients drive the example agent: cards, permission rejected, dismissed and allowed,
//! background tasks with their output and their end, cancellation, disconnection. The steps are in `tests/clients/`.
//! And editors that know no better, or worse.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod clients;
mod mcp_support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clients::{canonical, driver, holds, installed};
use mcp_support::{Wire, gone, running, unique_sleep};
use serde_json::{Value, json};
use tempfile::TempDir;

const STEPS: [&str; 6] = ["terminal card", "permission", "tasks", "cancel", "disconnect", "fenced card"];

/// The example agent, built by the same profile as this test. Cargo builds examples along with the tests; a run of this
/// test alone does not, and must not meet an old one.
fn agent() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", "acp_agent"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "the example does not build");
    let deps = std::env::current_exe().unwrap();
    deps.ancestors().nth(2).map(|profile: &Path| profile.join("examples/acp_agent")).unwrap()
}

fn story(script: &str, clients: &Path) {
    let workspace = TempDir::new().unwrap();
    holds(driver(clients, script).arg(agent()).arg(canonical(&workspace)), &STEPS);
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["allowed.txt"], "only what was allowed is there");
}

#[test]
fn the_python_client() {
    let Some(clients) = installed("Python agent-client-protocol") else { return };
    story("acp_client.py", &clients);
}

#[test]
fn the_typescript_client() {
    let Some(clients) = installed("@agentclientprotocol/sdk") else { return };
    story("acp_client.mjs", &clients);
}

/// The example agent, spoken to without a library.
fn bare() -> (Child, Wire, TempDir) {
    let workspace = TempDir::new().unwrap();
    let mut command = Command::new(agent());
    let mut child = command.current_dir(workspace.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let wire = Wire::over(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (child, wire, workspace)
}

fn initialize(wire: &mut Wire, version: u32) -> Value {
    wire.ask("initialize", json!({ "protocolVersion": version, "clientCapabilities": {} }))
}

fn session(wire: &mut Wire, workspace: &TempDir) -> Value {
    initialize(wire, 1);
    wire.ask("session/new", json!({ "cwd": canonical(workspace), "mcpServers": [] }))["result"]["sessionId"].clone()
}

fn prompt(session: &Value, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

#[test]
fn what_is_no_message_or_comes_too_early_has_its_error() {
    let (mut child, mut wire, workspace) = bare();
    for (method, params) in [
        ("session/new", json!({ "cwd": workspace.path(), "mcpServers": [] })),
        ("session/prompt", prompt(&json!("s"), "true")),
    ] {
        assert_eq!(wire.ask(method, params)["error"]["code"], -32600, "{method} before the beginning");
    }
    // There is one revision; another is answered with it.
    for asked in [1, 0, 99] {
        assert_eq!(initialize(&mut wire, asked)["result"]["protocolVersion"], 1, "asked for {asked}");
    }
    for (line, code) in
        [("not json", -32700), ("{\"jsonrpc\":\"2.0\",\"id\":5,", -32700), ("[]", -32600), ("{}", -32600)]
    {
        wire.raw(format!("{line}\n").as_bytes());
        assert_eq!(wire.next().unwrap()["error"]["code"], code, "{line}");
    }
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("session/new", json!({ "cwd": 7 }), -32602),
        ("session/new", json!({ "cwd": "/nowhere/at/all", "mcpServers": [] }), -32602),
        ("session/prompt", prompt(&json!("no such session"), "true"), -32602),
    ] {
        assert_eq!(wire.ask(method, params)["error"]["code"], code, "{method}");
    }
    let session = session(&mut wire, &workspace);
    let long = format!(": {}", "x".repeat(10 << 20));
    assert_eq!(wire.ask("session/prompt", prompt(&session, &long))["result"]["stopReason"], "end_turn");
    assert!(wire.others.iter().any(|update| update["params"]["update"]["status"] == "failed"), "10 MB do not run");
    wire.others.clear();
    let ids: Vec<i64> = (0..50).map(|_| wire.request("session/prompt", prompt(&session, "true"))).collect();
    for id in ids {
        let answer = wire.answer(id);
        assert!(answer.get("result").is_some() || answer.get("error").is_some(), "{answer}");
    }
    assert_eq!(wire.ask("session/prompt", prompt(&session, "true"))["result"]["stopReason"], "end_turn", "the control");
    wire.hang_up();
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_editor_that_goes_leaves_no_question_and_no_process() {
    let (mut child, mut wire, workspace) = bare();
    let asks = session(&mut wire, &workspace);
    let (sleep, mark) = unique_sleep();
    let busy = wire.ask("session/new", json!({ "cwd": canonical(&workspace), "mcpServers": [] }));
    wire.request(
        "session/prompt",
        prompt(&busy["result"]["sessionId"], &format!("trap '' TERM HUP; setsid {sleep} & {sleep}")),
    );
    running(&mark, 2);
    wire.request("session/prompt", prompt(&asks, "touch asked"));
    while wire.next().unwrap()["method"] != "session/request_permission" {}
    wire.hang_up();
    gone(&mark);
    child.wait().unwrap();
    assert!(!workspace.path().join("asked").exists());
}
