//! What `stockade mcp --journal` writes of questions: first the question, then what became of it.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod mcp_support;

use std::path::Path;
use std::process::Command;

use mcp_support::{Server, bash, exists, wider};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

fn records(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stockade_journal(what: &str, journal: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    let output = command.args(["journal", what]).arg(journal).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_question_that_outlives_the_server_is_on_record() {
    let beside = TempDir::new().unwrap();
    let journal = beside.path().join("journal");
    let mut server = Server::start(&["--journal", journal.to_str().unwrap()]);
    let mut wire = server.wire(json!({ "elicitation": {} }));
    wire.request("tools/call", json!({ "name": "bash", "arguments": wider("A_TOKEN=hush touch asked") }));
    assert_eq!(wire.next().unwrap()["method"], "elicitation/create");
    kill(Pid::from_raw(i32::try_from(server.child.id()).unwrap()), Signal::SIGKILL).unwrap();
    let file = server.file("asked");
    assert!(!server.finish().success());
    assert!(!exists(&file));

    let records = records(&journal);
    let kinds: Vec<_> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["asked"], "{records:?}");
    assert_eq!(records[0]["command"], "A_TOKEN=*** touch asked");
    assert_eq!(records[0]["asks"], json!({ "mode": "workspace-write" }));
    assert!(records[0]["session"].is_string() && records[0]["justification"].is_string(), "{records:?}");
    let (whole, shown) = stockade_journal("show", &journal);
    assert!(whole && shown.contains("approval asked, no answer: "), "{shown}");
    let (whole, said) = stockade_journal("verify", &journal);
    assert!(whole, "{said}");
}

#[test]
fn a_question_that_is_withdrawn_is_recorded_as_that() {
    let beside = TempDir::new().unwrap();
    let journal = beside.path().join("journal");
    let mut server = Server::start(&["--journal", journal.to_str().unwrap()]);
    let mut wire = server.wire(json!({ "elicitation": {} }));
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    assert_eq!(wire.next().unwrap()["method"], "elicitation/create");
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    assert_eq!(wire.next().unwrap()["method"], "notifications/cancelled");
    wire.call("bash", bash("true"));
    // The control: a question with an answer.
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    let question = wire.next().unwrap();
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } }));
    wire.answer(id);
    wire.hang_up();
    assert!(server.finish().success());

    let records = records(&journal);
    let of = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let asked: Vec<_> = of("asked").map(|record| &record["seq"]).collect();
    let answered: Vec<_> = of("approval").map(|record| (&record["asked"], &record["answer"]["word"])).collect();
    assert_eq!(asked.len(), 2, "{records:?}");
    assert_eq!(answered, [(asked[0], &json!("cancelled")), (asked[1], &json!("allowed-once"))]);
    // A question is shown with its answer only.
    let (_, shown) = stockade_journal("show", &journal);
    assert_eq!(shown.matches(" approval ").count(), 2, "{shown}");
    assert!(shown.contains("approval withdrawn") && shown.contains("approval allowed once"), "{shown}");
}
