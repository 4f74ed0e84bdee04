//! `stockade mcp` against clients that know no better, or worse: errors as the protocol defines them, bounded memory, no
//! panic, no command run twice, nothing left running.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod mcp_support;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use mcp_support::{Server, Wire, alive, bash, exists, gone, initialize, meta, running, unique_sleep, wider};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

#[test]
fn what_is_no_message_or_no_method_has_its_error() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({}));
    for (line, code, id) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":500,", -32700, Value::Null),
        ("not json at all", -32700, Value::Null),
        ("\u{0}\u{1}", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        ("{\"id\":501,\"method\":\"ping\"}", -32600, json!(501)),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, Value::Null),
        ("{\"jsonrpc\":\"2.0\",\"id\":502,\"method\":\"no/such\"}", -32601, json!(502)),
        ("{\"jsonrpc\":\"2.0\",\"id\":503,\"method\":\"tools/call\"}", -32602, json!(503)),
        ("{\"jsonrpc\":\"2.0\",\"id\":504,\"method\":\"tools/call\",\"params\":{\"name\":7}}", -32602, json!(504)),
        ("{\"jsonrpc\":\"2.0\",\"id\":505,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}", -32602, json!(505)),
        ("{\"jsonrpc\":\"2.0\",\"id\":506,\"method\":\"prompts/list\"}", -32601, json!(506)),
    ] {
        wire.raw(format!("{line}\n").as_bytes());
        let answer = wire.next().unwrap();
        assert_eq!((answer["error"]["code"].as_i64(), &answer["id"]), (Some(code), &id), "{line}: {answer}");
    }
    // Notifications and answers nobody waits for are not answered.
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/no/such" }));
    wire.send(&json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 12345 } }));
    let result = wire.call("bash", bash("echo unharmed"));
    assert_eq!(result["content"][0]["text"], "unharmed\n");
    let bad = wire.call("bash", json!({ "command": 7 }));
    assert_eq!((&bad["isError"], &bad["structuredContent"]["code"]), (&json!(true), &json!("invalid-arguments")));
    assert!(wire.others.is_empty(), "{:?}", wire.others);
    wire.hang_up();
    assert!(server.finish().success());
}

#[test]
fn nothing_runs_before_the_beginning() {
    let mut server = Server::start(&["--mode", "workspace-write"]);
    let mut wire = Wire::over(server.stdout.take().unwrap(), server.stdin.take().unwrap());
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    wire.send(&json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    let early = wire.ask("tools/call", json!({ "name": "bash", "arguments": bash("touch early") }));
    assert_eq!(early["error"]["code"], -32602, "{early}");
    assert_eq!(wire.ask("ping", json!({}))["result"], json!({}));
    wire.handshake(json!({}));
    assert!(!exists(&server.file("early")));
    wire.call("bash", bash("touch late"));
    assert!(exists(&server.file("late")), "the control");
    wire.hang_up();
    assert!(server.finish().success());
}

#[test]
fn the_newest_revision_and_the_ones_before_are_negotiated() {
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut server = Server::start(&[]);
        let mut wire = Wire::over(server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let answer = wire.ask("initialize", initialize(asked, &json!({})));
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
    }
    // Without a handshake each request carries its revision.
    let mut server = Server::start(&[]);
    let mut wire = Wire::over(server.stdout.take().unwrap(), server.stdin.take().unwrap());
    let found = wire.ask("server/discover", json!({ "_meta": meta(&json!({})) }));
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{found}");
    assert!(found["result"]["instructions"].as_str().unwrap().contains("[exit code: N]"), "{found}");
    let mut unknown = meta(&json!({}));
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let refused = wire.ask("tools/list", json!({ "_meta": unknown }));
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    let listed = wire.ask("tools/list", json!({ "_meta": meta(&json!({})) }));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3, "{listed}");
}

#[test]
fn ten_megabytes_of_arguments_are_refused_and_forgotten() {
    let mut server = Server::start(&["--mode", "workspace-write"]);
    let mut wire = server.wire(json!({}));
    let before = server.memory();
    let long = format!("touch ran; : {}", "x".repeat(10 << 20));
    for _ in 0..5 {
        let answer = wire.ask("tools/call", json!({ "name": "bash", "arguments": bash(&long) }));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    // Nested as deep as it is long, and longer than is kept at all.
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"ping\",\"params\":{}", "[".repeat(1 << 20));
    wire.raw(format!("{deep}\n").as_bytes());
    assert!(wire.next().unwrap()["error"]["code"].is_i64());
    wire.raw(&[b'y'; 20 << 20]);
    wire.raw(b"\n");
    let answer = wire.next().unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null), "{answer}");
    // What the parser takes the tool layer still measures.
    let result = wire.call("bash", bash(&"z".repeat(1_500_000)));
    assert_eq!(result["structuredContent"]["code"], "invalid-arguments", "{result}");
    assert!(!exists(&server.file("ran")));
    wire.call("bash", bash("touch ran"));
    assert!(exists(&server.file("ran")), "the control");
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 100 << 20, "grew by {grown} bytes");
    wire.hang_up();
    assert!(server.finish().success());
}

#[test]
fn a_thousand_calls_at_once_run_once_each() {
    let mut server = Server::start(&["--mode", "workspace-write"]);
    let mut wire = server.wire(json!({}));
    let mut text = String::new();
    for id in 1000..2000 {
        let params = json!({ "name": "bash", "arguments": bash(&format!("echo {id} >> log")) });
        text.push_str(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
        text.push('\n');
    }
    // The same id again, while the first still waits: answered, not run.
    let twice = json!({ "name": "bash", "arguments": bash("echo twice >> log") });
    text.push_str(&json!({ "jsonrpc": "2.0", "id": 1999, "method": "tools/call", "params": twice }).to_string());
    text.push('\n');
    wire.raw(text.as_bytes());
    let mut answered = Vec::new();
    for _ in 0..1001 {
        answered.push(wire.next().unwrap());
    }
    let refused: Vec<_> = answered.iter().filter(|answer| answer.get("error").is_some()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((&refused[0]["id"], &refused[0]["error"]["code"]), (&json!(1999), &json!(-32600)));
    let log = std::fs::read_to_string(server.file("log")).unwrap();
    let mut lines: Vec<i64> = log.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    // A sandbox that cannot be set up says so, and its command did not run.
    let mut ran: Vec<i64> = answered
        .iter()
        .filter(|answer| answer["result"]["isError"] == false)
        .map(|a| a["id"].as_i64().unwrap())
        .collect();
    ran.sort_unstable();
    assert_eq!(lines, ran, "each ran once, or not at all and its answer says so");
    assert!(ran.len() > 900, "{} of 1000 ran", ran.len());
    wire.hang_up();
    assert!(server.finish().success());
}

#[test]
fn a_client_that_stops_reading_costs_bounded_memory() {
    let mut server = Server::start(&["--mode", "workspace-write"]);
    let mut stdin = server.stdin.take().unwrap();
    let line = |value: Value| format!("{value}\n");
    let params = initialize("2025-11-25", &json!({}));
    stdin
        .write_all(line(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).as_bytes())
        .unwrap();
    let (sleep, mark) = unique_sleep();
    let background = json!({ "command": sleep, "description": "d", "run_in_background": true });
    let params = json!({ "name": "bash", "arguments": background });
    stdin
        .write_all(line(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).as_bytes())
        .unwrap();
    running(&mark, 1);
    // 600 answers of 120 KB would be 72 MB. The writer blocks when the server stops reading, so it has its own thread.
    let writer = std::thread::spawn(move || {
        for id in 10..610 {
            let params =
                json!({ "name": "bash", "arguments": bash("echo x >> ran; head -c 60000 /dev/zero | tr '\\0' y") });
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            if stdin.write_all(format!("{call}\n").as_bytes()).is_err() {
                return None;
            }
        }
        Some(stdin)
    });
    let ran = server.file("ran");
    let count = || std::fs::read_to_string(&ran).map_or(0, |log| log.lines().count());
    let (mut seen, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        if count() != seen {
            (seen, since) = (count(), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(seen > 0 && seen < 300, "{seen} commands ran for a client that reads nothing");
    let memory = server.memory();
    assert!(memory < 150 << 20, "{memory} bytes");
    // It starts to read again, and misses nothing.
    let mut wire = Wire::over(server.stdout.take().unwrap(), std::io::sink());
    let (mut answers, mut done) = (BTreeSet::new(), 0);
    while answers.len() < 602 {
        let answer = wire.next().unwrap();
        let id = answer["id"].as_i64().unwrap();
        assert!(answers.insert(id), "answered twice: {answer}");
        done += usize::from(id >= 10 && answer["result"]["isError"] == false);
    }
    assert_eq!(count(), done, "each ran once, or not at all and its answer says so");
    assert!(done > 500, "{done} of 600 ran");
    drop(writer.join().unwrap());
    gone(&mark);
    assert!(server.finish().success());
}

#[test]
fn a_client_that_neither_reads_nor_stays_leaves_nothing() {
    let mut server = Server::start(&[]);
    let mut stdin = server.stdin.take().unwrap();
    let (sleep, mark) = unique_sleep();
    let mut text = String::new();
    let mut push = |id: u32, method: &str, params: Value| {
        text.push_str(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })));
    };
    push(1, "initialize", initialize("2025-11-25", &json!({})));
    for id in 2..60 {
        push(id, "tools/call", json!({ "name": "bash", "arguments": bash("head -c 60000 /dev/zero | tr '\\0' y") }));
    }
    push(60, "tools/call", json!({ "name": "bash", "arguments": bash(&sleep) }));
    stdin.write_all(text.as_bytes()).unwrap();
    running(&mark, 1);
    drop(stdin);
    gone(&mark);
    // Its standard output is still open and full.
    assert!(server.finish().success());
}

/// Starts commands that do not want to end, in the foreground and in the background.
fn stubborn(wire: &mut Wire) -> String {
    let (sleep, mark) = unique_sleep();
    let command = format!("trap '' TERM HUP INT; setsid {sleep} & {sleep} & wait");
    let mut background = bash(&command);
    background["run_in_background"] = json!(true);
    wire.call("bash", background);
    wire.request("tools/call", json!({ "name": "bash", "arguments": bash(&command) }));
    running(&mark, 4);
    mark
}

#[test]
fn disconnection_kills_everything() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({}));
    let mark = stubborn(&mut wire);
    wire.hang_up();
    gone(&mark);
    assert!(server.finish().success());
}

#[test]
fn each_end_of_the_server_kills_everything() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGKILL] {
        let mut server = Server::start(&[]);
        let mut wire = server.wire(json!({}));
        let mark = stubborn(&mut wire);
        kill(Pid::from_raw(i32::try_from(server.child.id()).unwrap()), signal).unwrap();
        gone(&mark);
        assert_eq!(server.finish().success(), signal != Signal::SIGKILL, "{signal}");
    }
}

#[test]
fn a_cancelled_call_is_killed_and_not_answered() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({}));
    let (sleep, mark) = unique_sleep();
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": bash(&format!("{sleep} & {sleep}")) }));
    running(&mark, 2);
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    gone(&mark);
    let result = wire.call("bash", bash("echo after"));
    assert_eq!(result["content"][0]["text"], "after\n");
    assert!(wire.others.iter().all(|message| message["id"] != id), "{:?}", wire.others);
}

#[test]
fn a_cancelled_question_is_withdrawn_and_nothing_runs() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({ "elicitation": {} }));
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    let question = wire.next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    let withdrawn = wire.next().unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    // A yes that comes too late counts for nothing.
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } }));
    wire.call("bash", bash("true"));
    assert!(!exists(&server.file("asked")));
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    let question = wire.next().unwrap();
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } }));
    wire.answer(id);
    assert!(exists(&server.file("asked")), "the control");
}

#[test]
fn a_hung_up_client_with_an_open_question_runs_nothing() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({ "elicitation": {} }));
    wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    assert_eq!(wire.next().unwrap()["method"], "elicitation/create");
    wire.hang_up();
    let file = server.file("asked");
    let workspace = std::mem::replace(&mut server.workspace, tempfile::TempDir::new().unwrap());
    assert!(server.finish().success());
    assert!(!exists(&file));
    drop(workspace);
}

#[test]
fn the_session_log_and_its_directory_go_with_the_connection() {
    let mut server = Server::start(&[]);
    let mut wire = server.wire(json!({}));
    let result = wire.call("bash", bash("echo $DSH_SESSION_JSONL"));
    let log = std::path::PathBuf::from(result["content"][0]["text"].as_str().unwrap().trim());
    assert!(exists(&log), "{}", log.display());
    assert_eq!(alive("0"), 0);
    wire.hang_up();
    assert!(server.finish().success());
    assert!(!exists(log.parent().unwrap()));
}

#[test]
fn commands_and_answers_are_in_the_journal() {
    let journal = tempfile::TempDir::new().unwrap();
    let file = journal.path().join("journal");
    let mut server = Server::start(&["--journal", file.to_str().unwrap()]);
    let mut wire = server.wire(json!({ "elicitation": {} }));
    wire.call("bash", bash("echo recorded"));
    let mut background = bash("echo behind");
    background["run_in_background"] = json!(true);
    wire.call("bash", background);
    let id = wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch asked") }));
    let question = loop {
        let message = wire.next().unwrap();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }));
    wire.answer(id);
    wire.hang_up();
    assert!(server.finish().success());
    let lines = std::fs::read_to_string(&file).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str, command: &str| {
        records.iter().filter(|record| record["kind"] == kind && record["command"] == command).count()
    };
    assert_eq!((of("started", "echo recorded"), of("ended", "echo recorded")), (1, 1), "{lines}");
    assert_eq!((of("started", "echo behind"), of("ended", "echo behind")), (1, 1), "{lines}");
    assert_eq!((of("approval", "touch asked"), of("started", "touch asked")), (1, 0), "{lines}");
    assert!(records.iter().all(|record| record["session"].is_string()), "{lines}");

    // A journal that a command could write is refused: at the start, or when an approval would open it.
    let refused = Server::start(&["--mode", "workspace-write", "--journal", "inside"]);
    let inside = refused.file("inside");
    assert_eq!((refused.finish().code(), exists(&inside)), (Some(2), false));
}
