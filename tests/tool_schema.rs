//! What the model is told: schemas, descriptions, prompt sections; and arguments that do not fit them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use stockade::executor::BashExecutor;
use stockade::policy::SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
use stockade::session::{Session, set_sandbox_mode};
use stockade::tool::{FailureCode, ToolHost, ToolOutput};
use support::FakeExecutor;
use tokio_util::sync::CancellationToken;

fn host(executor: Arc<dyn BashExecutor>) -> ToolHost {
    ToolHost::builder(executor).home("/h").build().unwrap()
}

fn bash_schema(executor: Arc<dyn BashExecutor>) -> Value {
    host(executor).definitions().remove(0).input_schema
}

fn types(schema: &Value) -> Vec<(String, Value)> {
    let properties = schema["properties"].as_object().unwrap();
    properties.iter().map(|(name, property)| (name.clone(), property["type"].clone())).collect()
}

#[test]
fn a_confining_executor_advertises_escalation_and_no_other_does() {
    let base = [
        ("command", "string"),
        ("description", "string"),
        ("timeoutMs", "number"),
        ("workdir", "string"),
        ("run_in_background", "boolean"),
    ];
    let escalation =
        [("sandbox_permissions", "string"), ("justification", "string"), ("additional_permissions", "object")];
    let named =
        |list: &[(&str, &str)]| list.iter().map(|(name, kind)| ((*name).to_owned(), json!(kind))).collect::<Vec<_>>();
    for executor in [FakeExecutor::unconfined(), FakeExecutor::confining(DangerFullAccess)] {
        let schema = bash_schema(executor.clone());
        assert_eq!(types(&schema), named(&base));
        let description = host(executor).definitions().remove(0).description;
        assert!(!schema.to_string().contains("sandbox") && !description.contains("sandbox"), "{description}");
    }
    for mode in [ReadOnly, WorkspaceWrite] {
        let schema = bash_schema(FakeExecutor::confining(mode));
        assert_eq!(types(&schema), named(&[&base[..], &escalation[..]].concat()));
        assert_eq!(schema["required"], json!(["command", "description"]));
        let target = &schema["properties"]["sandbox_permissions"];
        assert_eq!(target["enum"], json!(["workspace-write", "danger-full-access"]), "closed, whatever the default");
        let extra = &schema["properties"]["additional_permissions"];
        for list in ["write", "read", "network"] {
            assert_eq!(extra["properties"][list]["type"], "array");
            assert_eq!(extra["properties"][list]["items"], json!({ "type": "string" }));
        }
        assert!(extra.get("required").is_none());
    }
}

#[test]
fn schemas_are_plain_and_every_argument_is_described() {
    let definitions = host(FakeExecutor::confining(ReadOnly)).definitions();
    let names: Vec<_> = definitions.iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["bash", "bash_output", "bash_kill"]);
    for tool in &definitions {
        let schema = &tool.input_schema;
        assert_eq!(schema["type"], "object");
        let text = schema.to_string();
        for stumbling in ["$ref", "$defs", "$schema", "null", "anyOf", "oneOf", "\"title\"", "stdin", "\"env\""] {
            assert!(!text.contains(stumbling), "{stumbling} in {text}");
        }
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().unwrap().len() > 20, "{name}");
        }
    }
    assert_eq!(definitions[1].input_schema["required"], json!(["task_id"]));
    assert_eq!(definitions[2].input_schema["required"], json!(["task_id"]));
    let taught = &definitions[0].description;
    for habit in
        ["fresh shell", "workdir", "$DSH_*", "bash_output", "not wrong", "same turn", "once", "final", "keeps its end"]
    {
        assert!(taught.contains(habit), "{habit}");
    }
}

#[test]
fn the_mode_is_stated_only_when_asked_for() {
    let session = Session::in_memory("s".parse().unwrap(), "/").unwrap();
    let executor = FakeExecutor::confining(ReadOnly);
    let plain = host(executor.clone()).prompt_sections(Some(&session));
    assert_eq!(plain.iter().map(|section| (section.id, section.order)).collect::<Vec<_>>(), [("tool:bash", 105)]);
    assert!(plain[0].text.contains("[exit code: N]"));
    let stating = ToolHost::builder(executor).home("/h").state_mode(true).build().unwrap();
    assert!(stating.prompt_sections(Some(&session))[1].text.contains("read-only mode"));
    set_sandbox_mode(&session, WorkspaceWrite).unwrap();
    let sections = stating.prompt_sections(Some(&session));
    assert_eq!((sections[1].id, sections[1].order), ("env:bash-sandbox", 110));
    assert!(sections[1].text.contains("workspace-write mode"), "the effective mode");
    let unconfined = ToolHost::builder(FakeExecutor::unconfined()).home("/h").state_mode(true).build().unwrap();
    assert_eq!(unconfined.prompt_sections(Some(&session)).len(), 1);
}

#[tokio::test]
async fn arguments_that_do_not_fit_name_what_is_wrong_and_run_nothing() {
    let executor = FakeExecutor::confining(ReadOnly);
    let host = host(executor.clone());
    let good = json!({ "command": "true", "description": "Nothing" });
    let with = |key: &str, value: Value| {
        let mut args = good.clone();
        args[key] = value;
        args
    };
    for (args, named) in [
        (json!(null), "arguments"),
        (json!("true"), "arguments"),
        (json!([]), "arguments"),
        (json!({}), "command"),
        (json!({ "command": "true" }), "description"),
        (with("command", json!("  ")), "command"),
        (with("command", json!(["ls"])), "command"),
        (with("command", json!("a\0b")), "NUL"),
        (with("command", json!("x".repeat(131_072))), "command"),
        (with("command", json!("x".repeat(1 << 21))), "limit"),
        (with("description", json!("\n")), "description"),
        (with("timeoutMs", json!("5")), "timeoutMs"),
        (with("timeoutMs", json!(0)), "timeoutMs"),
        (with("timeoutMs", json!(-1)), "timeoutMs"),
        (with("workdir", json!(1)), "workdir"),
        (with("run_in_background", json!("yes")), "run_in_background"),
        (with("sandbox_permissions", json!("read-only")), "sandbox_permissions"),
        (with("sandbox_permissions", json!("workspace-write")), "justification"),
        (with("justification", json!("Because.")), "justification"),
        (with("additional_permissions", json!({ "write": "/x" })), "additional_permissions.write"),
    ] {
        let result = host.call(None, "bash", args.clone(), &CancellationToken::new()).await;
        let ToolOutput::Failure { code: FailureCode::InvalidArguments, message, .. } = &result.structured else {
            panic!("{args}: {result:?}")
        };
        assert!(result.is_error && message.contains(named), "{args}: {message}");
    }
    for tool in ["bash_output", "bash_kill"] {
        for args in [json!({}), json!({ "task_id": 1 }), json!({ "task_id": "" })] {
            assert!(host.call(None, tool, args, &CancellationToken::new()).await.text.contains("task_id"));
        }
    }
    assert!(host.call(None, "bash\n", good.clone(), &CancellationToken::new()).await.text.contains("bash\\n"));
    assert!(executor.ran().is_empty());
    // Controls: null is leaving it out; a huge limit is the executor's to cap; escalation arguments mean nothing where
    // they do not exist.
    for args in
        [with("timeoutMs", Value::Null), with("timeoutMs", json!(1e300)), with("workdir", json!("")), good.clone()]
    {
        let result = host.call(None, "bash", args, &CancellationToken::new()).await;
        assert!(!result.is_error, "{}", result.text);
    }
    let unconfined = FakeExecutor::unconfined();
    let mut ignored = with("sandbox_permissions", json!(["nonsense"]));
    ignored["justification"] = json!(7);
    let result = self::host(unconfined.clone()).call(None, "bash", ignored, &CancellationToken::new()).await;
    assert!(!result.is_error, "{}", result.text);
    assert!(unconfined.ran()[0].policy.is_none());
}

#[tokio::test]
async fn the_typed_value_is_one_object_with_the_contracts_names() {
    let executor = FakeExecutor::confining(ReadOnly);
    let host = host(executor);
    let session = Session::in_memory("s".parse().unwrap(), "/tmp").unwrap();
    let cancel = CancellationToken::new();
    let value = |result: stockade::tool::ToolResult| serde_json::to_value(result.structured).unwrap();
    let args = |command: &str, background: bool| json!({ "command": command, "description": "x", "run_in_background": background });
    let run = value(host.call(Some(&session), "bash", args("touch /denied", false), &cancel).await);
    assert_eq!((&run["type"], &run["exitCode"], &run["timedOut"]), (&json!("run"), &json!(1), &json!(false)));
    assert_eq!(run["sandbox"]["denials"][0]["widenTo"], "danger-full-access");
    let started = value(host.call(Some(&session), "bash", args("sleep 600", true), &cancel).await);
    assert_eq!(started, json!({ "type": "started", "taskId": "bash-1" }));
    let task = json!({ "task_id": "bash-1" });
    let read = value(host.call(Some(&session), "bash_output", task.clone(), &cancel).await);
    assert_eq!((&read["type"], &read["status"]), (&json!("read"), &json!({ "state": "running" })));
    let killed = value(host.call(Some(&session), "bash_kill", task.clone(), &cancel).await);
    assert_eq!(killed, json!({ "type": "kill", "taskId": "bash-1", "killed": true }));
    let ended = value(host.call(Some(&session), "bash_output", task, &cancel).await);
    assert_eq!(ended["status"], json!({ "state": "killed", "signal": "SIGKILL" }));
    let failure = value(host.call(Some(&session), "bash_kill", json!({ "task_id": "bash-9" }), &cancel).await);
    assert_eq!((&failure["type"], &failure["code"]), (&json!("failure"), &json!("unknown-task")));
}
