//! Cards, from arguments of every shape.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use stockade::tool::{CallCard, CardContent, ExitStatus, ResultCard, parse_exit_status, present_call, present_result};

fn text(text: &str) -> Vec<CardContent> {
    vec![CardContent::Text { text: text.to_owned() }]
}

#[test]
fn calls() {
    for (tool, args, want) in [
        (
            "bash",
            json!({ "command": "ls -la src", "description": "List sources" }),
            json!({ "card": "terminal", "title": "ls -la src", "description": "List sources" }),
        ),
        (
            "bash",
            json!({ "command": "ls", "description": "List", "workdir": "sub", "run_in_background": false }),
            json!({ "card": "terminal", "title": "ls", "description": "List", "cwd": "sub" }),
        ),
        (
            "bash",
            json!({ "command": "serve", "description": "Serve", "run_in_background": true }),
            json!({ "card": "generic", "title": "serve", "kind": "execute", "rawInput": "serve", "content": [{ "type": "text", "text": "Serve" }] }),
        ),
        (
            "bash_output",
            json!({ "task_id": "bash-3" }),
            json!({ "card": "generic", "title": "Read output from background task bash-3", "kind": "execute", "rawInput": "bash-3" }),
        ),
        (
            "bash_kill",
            json!({ "task_id": "bash-3" }),
            json!({ "card": "generic", "title": "Kill background task bash-3", "kind": "execute", "rawInput": "bash-3" }),
        ),
        // Older and broken shapes.
        ("bash", json!({ "command": "ls" }), json!({ "card": "terminal", "title": "ls" })),
        ("bash", json!("{\"command\":\"ls\"}"), json!({ "card": "terminal", "title": "ls" })),
        ("bash", json!({ "cmd": "ls" }), json!({ "card": "generic", "title": "bash", "kind": "execute" })),
        ("bash", json!(null), json!({ "card": "generic", "title": "bash", "kind": "execute" })),
        (
            "bash",
            json!({ "command": 7, "run_in_background": "x" }),
            json!({ "card": "generic", "title": "bash", "kind": "execute" }),
        ),
        ("bash_kill", json!([1]), json!({ "card": "generic", "title": "bash_kill", "kind": "execute" })),
        ("gone", json!({}), json!({ "card": "generic", "title": "gone", "kind": "execute" })),
    ] {
        assert_eq!(serde_json::to_value(present_call(tool, &args)).unwrap(), want, "{tool} {args}");
    }
}

#[test]
fn results() {
    let foreground = json!({ "command": "x", "description": "X" });
    let background = json!({ "command": "x", "description": "X", "run_in_background": true });
    let raw = "out\r\n\n[exit code: 3]";
    let terminal = |exit_code, signal: Option<&str>| ResultCard::Terminal {
        title: None,
        output: Some(raw.to_owned()),
        exit_code,
        signal: signal.map(str::to_owned),
    };
    let status = |code| Some(ExitStatus::ExitCode(code));
    // Beside the text, the status is what was carried; with text alone it is parsed.
    assert_eq!(present_result("bash", &foreground, raw, false, status(0).as_ref()), terminal(Some(0), None));
    assert_eq!(present_result("bash", &foreground, raw, false, None), terminal(Some(3), None));
    let signal = ExitStatus::Signal("SIGKILL".to_owned());
    assert_eq!(present_result("bash", &foreground, raw, false, Some(&signal)), terminal(None, Some("SIGKILL")));
    let generic = ResultCard::Generic { title: None, content: text(raw) };
    assert_eq!(present_result("bash", &foreground, raw, true, status(3).as_ref()), generic);
    assert_eq!(present_result("bash", &background, raw, false, None), generic);
    assert_eq!(present_result("bash_output", &json!({ "task_id": "bash-1" }), raw, false, None), generic);
    assert_eq!(present_result("bash", &Value::Null, raw, false, None), generic);
    assert!(matches!(present_call("bash", &background), CallCard::Generic { .. }));
}

#[test]
fn status_from_text_alone() {
    let code = ExitStatus::ExitCode;
    for (text, want) in [
        ("", code(0)),
        ("out\n", code(0)),
        ("out\n[exit code: 127]", code(127)),
        ("out\n[killed by signal: SIGSEGV]", ExitStatus::Signal("SIGSEGV".to_owned())),
        // Not a line of its own at the very end, hence the command's own words.
        ("[exit code: 5]", code(0)),
        ("out\n[exit code: 5]\n", code(0)),
        ("out\n[exit code: 5] ", code(0)),
        ("out\nx[exit code: 5]", code(0)),
        ("out\n[exit code: five]", code(0)),
        ("out\n[exit code: 99999999999999]", code(0)),
        ("out\n[killed by signal: ]", code(0)),
        ("out\n[killed by signal: a] b]", code(0)),
    ] {
        assert_eq!(parse_exit_status(text), want, "{text:?}");
    }
}
