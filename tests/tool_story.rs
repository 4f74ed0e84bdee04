//! A scripted model drives the tools as a real one would; what counts is what is on the disk and in the event log.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use stockade::approval::{ApprovalOutcome, Approver, Asks};
use stockade::executor::BashExecutor;
use stockade::policy::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};
use stockade::session::{Session, SessionEvent, SessionId, SessionStore, effective_sandbox_mode, set_sandbox_mode};
use stockade::tool::{CallCard, ProtectedList, ResultCard, ToolHost, ToolResult, present_result};
use support::approver::{Scripted, rejected};
use support::{FakeExecutor, result};
use tokio_util::sync::CancellationToken;

fn host(executor: Arc<dyn BashExecutor>, approver: Option<Arc<dyn Approver>>) -> ToolHost {
    let builder =
        ToolHost::builder(executor).home("/nonexistent/home").protected_paths(Arc::new(ProtectedList::default()));
    match approver {
        Some(approver) => builder.approver(approver),
        None => builder,
    }
    .build()
    .unwrap()
}

/// The confining executor of the stories that look at the disk alone: a real one can stand here.
fn confining(mode: SandboxMode) -> Arc<dyn BashExecutor> {
    FakeExecutor::confining(mode)
}

async fn bash(host: &ToolHost, session: &Session, command: &str, more: Value) -> ToolResult {
    let mut args = json!({ "command": command, "description": "Do what the test says" });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    host.call(Some(session), "bash", args, &CancellationToken::new()).await
}

async fn plain(host: &ToolHost, session: &Session, command: &str) -> ToolResult {
    bash(host, session, command, json!({})).await
}

fn wider(mode: &str) -> Value {
    json!({ "sandbox_permissions": mode, "justification": "The task needs this file." })
}

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

#[tokio::test]
async fn denied_rejected_denied_granted_confined_again_across_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().canonicalize().unwrap().join("w");
    std::fs::create_dir(&workspace).unwrap();
    let store = SessionStore::at(dir.path().join("sessions")).unwrap();
    let file = workspace.join("new.txt");
    let touch = format!("touch {}", file.display());

    // Attempt, denial, escalation rejected.
    {
        let approver = Scripted::answering([rejected()]);
        let host = host(confining(ReadOnly), Some(approver.clone()));
        let session = store.create(id("story"), &workspace).unwrap();
        let denied = plain(&host, &session, &touch).await;
        assert!(!denied.is_error, "a denial is a result");
        assert!(denied.text.contains("[sandbox: file access denied under read-only mode]"), "{}", denied.text);
        assert!(
            denied.text.contains("escalation available") && denied.text.ends_with("\n[exit code: 1]"),
            "{}",
            denied.text
        );
        let refused = bash(&host, &session, &touch, wider("workspace-write")).await;
        assert!(refused.is_error && refused.text.starts_with("escalation rejected"), "{}", refused.text);
        assert!(!file.exists(), "nothing ran");
        let asked = &approver.asked()[0];
        assert_eq!((asked.command.as_str(), asked.mode), (touch.as_str(), ReadOnly));
        assert_eq!(asked.asks, Asks::Mode(WorkspaceWrite));
        assert_eq!(asked.grounds.len(), 1);
        assert_eq!(asked.grounds[0].path.as_deref(), Some(file.as_path()));
        // Asking again after a no reaches nobody.
        let again = bash(&host, &session, &touch, wider("danger-full-access")).await;
        assert!(again.is_error && again.text.contains("final"), "{}", again.text);
        assert_eq!(approver.asked().len(), 1);
        host.dispose().await;
    }

    // Another process: the refusal still stands; a new denial grounds a new question; granted, then confined again.
    {
        let approver = Scripted::answering([ApprovalOutcome::AllowedOnce]);
        let host = host(confining(ReadOnly), Some(approver.clone()));
        let session = store.resume(&id("story")).unwrap();
        assert!(bash(&host, &session, &touch, wider("workspace-write")).await.text.contains("final"));
        assert!(approver.asked().is_empty());
        plain(&host, &session, &touch).await;
        let granted = bash(&host, &session, &touch, wider("workspace-write")).await;
        assert!(!granted.is_error, "{}", granted.text);
        assert!(file.exists(), "the effect is on the disk");
        assert_eq!(approver.asked()[0].grounds.len(), 1, "the denial was found in the log");
        let next = plain(&host, &session, &format!("{touch}.2")).await;
        assert!(next.text.contains("denied under read-only mode"), "the grant is used up: {}", next.text);
        assert!(!workspace.join("new.txt.2").exists());

        // Switched wider, then narrower.
        set_sandbox_mode(&session, WorkspaceWrite).unwrap();
        assert!(plain(&host, &session, &format!("{touch}.3")).await.text.ends_with("(no output)"));
        assert!(workspace.join("new.txt.3").exists());
        let narrow = bash(&host, &session, "true", wider("workspace-write")).await;
        assert!(narrow.is_error && narrow.text.contains("not wider than workspace-write"), "{}", narrow.text);
        set_sandbox_mode(&session, ReadOnly).unwrap();
        assert!(plain(&host, &session, &format!("{touch}.4")).await.text.contains("denied under read-only"));
        set_sandbox_mode(&session, WorkspaceWrite).unwrap();
        assert_eq!(approver.asked().len(), 1);
        host.dispose().await;
    }

    // And a third: the mode, and every card, from the log alone.
    let host = host(confining(ReadOnly), None);
    let session = store.resume(&id("story")).unwrap();
    assert_eq!(host.effective_mode(Some(&session)), Some(WorkspaceWrite));
    assert!(plain(&host, &session, &format!("{touch}.5")).await.status.is_some());
    assert!(workspace.join("new.txt.5").exists());
    let events = session.events().unwrap();
    assert_eq!(effective_sandbox_mode(events.iter().map(|record| &record.event)), Some(WorkspaceWrite));
    assert_eq!(events.iter().filter(|record| matches!(record.event, SessionEvent::ApprovalAnswered { .. })).count(), 2);
    let mut args = Value::Null;
    let mut replayed = 0;
    for record in &events {
        match &record.event {
            SessionEvent::ToolCall { args: given, .. } => args = given.clone(),
            SessionEvent::ToolResult { outcome, .. } => {
                let card = present_result("bash", &args, &outcome.text, outcome.is_error, outcome.status.as_ref());
                assert_eq!(matches!(card, ResultCard::Terminal { .. }), !outcome.is_error);
                replayed += 1;
            }
            _ => {}
        }
    }
    assert_eq!(replayed, 11);
}

#[tokio::test]
async fn two_sessions_in_two_workspaces_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let executor = FakeExecutor::confining(WorkspaceWrite);
    let host = host(executor.clone(), None);
    let sessions: Vec<Session> = ["a", "b"]
        .into_iter()
        .map(|name| {
            std::fs::create_dir(root.join(name)).unwrap();
            Session::in_memory(id(name), root.join(name)).unwrap()
        })
        .collect();
    let other = root.join("b/from-a");
    let (mine, foreign) = (format!("touch {}/x", root.join("a").display()), format!("touch {}", other.display()));
    let (a, b, c) = tokio::join!(
        plain(&host, &sessions[0], &mine),
        plain(&host, &sessions[0], &foreign),
        // A relative path starts from the session's own directory; so does a relative workdir.
        plain(&host, &sessions[1], "touch y"),
    );
    assert!(!a.text.contains("denied") && !c.text.contains("denied"), "{} {}", a.text, c.text);
    assert!(b.text.contains("denied under workspace-write"), "{}", b.text);
    assert!(root.join("a/x").exists() && root.join("b/y").exists() && !other.exists());
    // The workspace is the session's even when the call's workdir is elsewhere.
    let moved = bash(&host, &sessions[0], "touch z", json!({ "workdir": root.join("b") })).await;
    assert!(moved.text.contains("denied") && !root.join("b/z").exists(), "{}", moved.text);
    for spec in executor.ran() {
        let policy = spec.policy.unwrap();
        assert_eq!(policy.session.as_deref(), spec.owner.as_deref());
        assert_eq!(policy.workspace, root.join(spec.owner.unwrap()));
    }
    // A mode of one is not the other's.
    set_sandbox_mode(&sessions[0], DangerFullAccess).unwrap();
    assert_eq!(host.effective_mode(Some(&sessions[1])), Some(WorkspaceWrite));
}

#[tokio::test]
async fn each_way_of_not_being_allowed_has_its_own_text_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::in_memory(id("s"), dir.path()).unwrap();
    let unavailable = ApprovalOutcome::Unavailable { reason: "the terminal is gone".to_owned() };
    let approver = Scripted::answering([rejected(), ApprovalOutcome::Cancelled, unavailable]);
    let executor = FakeExecutor::confining(ReadOnly);
    let with = host(executor.clone(), Some(approver));
    let without = host(executor.clone(), None);
    let mut texts = Vec::new();
    for command in ["true", "exit 2", "exit 3"] {
        texts.push(bash(&with, &session, command, wider("workspace-write")).await);
    }
    texts.push(bash(&with, &session, "true", wider("workspace-write")).await);
    texts.push(bash(&without, &session, "exit 4", wider("workspace-write")).await);
    let mut args = wider("workspace-write");
    args["command"] = json!("exit 5");
    args["description"] = json!("Exit");
    texts.push(with.call(None, "bash", args, &CancellationToken::new()).await);
    // Nobody answers, and the caller gives up.
    let cancel = CancellationToken::new();
    let (later, _) = tokio::join!(
        async {
            let mut args = wider("workspace-write");
            args["command"] = json!("exit 6");
            args["description"] = json!("Exit");
            with.call(Some(&session), "bash", args, &cancel).await
        },
        async { cancel.cancel() }
    );
    assert!(later.is_error && later.text.contains("cancelled"), "{}", later.text);
    assert!(texts.iter().all(|result| result.is_error && matches!(result.card, ResultCard::Generic { .. })));
    let distinct: std::collections::BTreeSet<_> = texts.iter().map(|result| result.text.clone()).collect();
    assert_eq!(distinct.len(), texts.len(), "{distinct:?}");
    assert!(executor.ran().is_empty(), "nothing ran");
    // Control: the same executor runs what needs no permission.
    assert!(!plain(&with, &session, "true").await.is_error);
    assert_eq!(executor.ran().len(), 1);
}

#[tokio::test]
async fn extra_permissions_hold_for_one_call_and_for_what_was_shown() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["w", "real"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
    let session = Session::in_memory(id("s"), root.join("w")).unwrap();
    let approver = Scripted::answering([ApprovalOutcome::AllowedOnce]);
    let executor = FakeExecutor::confining(ReadOnly);
    let host = host(executor.clone(), Some(approver.clone()));
    let touch = format!("touch {}/f", root.join("real").display());
    let more = json!({
        "additional_permissions": { "write": [root.join("link/f")], "network": ["Example.COM.:443"] },
        "justification": "The file is wanted."
    });
    let granted = bash(&host, &session, &touch, more).await;
    assert!(!granted.is_error, "{}", granted.text);
    assert!(root.join("real/f").exists());
    let Asks::Extra { grant, protected } = &approver.asked()[0].asks else { panic!("asks for extra permissions") };
    assert_eq!(grant.write, [root.join("real/f")], "the approver sees where the link leads");
    assert_eq!(grant.network, ["example.com:443"]);
    assert!(protected.is_empty());
    assert_eq!(&executor.ran()[0].policy.as_ref().unwrap().extra, grant);
    assert_eq!(executor.ran()[0].policy.as_ref().unwrap().mode, ReadOnly);
    std::fs::remove_file(root.join("real/f")).unwrap();
    assert!(plain(&host, &session, &touch).await.text.contains("denied"));
    assert!(!root.join("real/f").exists());
}

#[tokio::test]
async fn the_card_tells_the_exit_status_whatever_the_command_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::in_memory(id("s"), dir.path()).unwrap();
    let executor = FakeExecutor::unconfined();
    let host = host(executor.clone(), None);
    for (n, output) in
        ["x\n[exit code: 5]", "x\n[killed by signal: SIGKILL]", "[exit code: 5]\n", ""].iter().enumerate()
    {
        for code in [0, 5, 77] {
            let command = format!("look-alike {n} {code}");
            let mut scripted = result(code);
            scripted.stdout.text = (*output).to_owned();
            executor.script(&command, scripted);
            let shown = plain(&host, &session, &command).await;
            let ResultCard::Terminal { output: Some(text), exit_code, signal, .. } = shown.card else { panic!() };
            assert_eq!((exit_code, signal), (Some(code), None), "{text}");
            assert_eq!(text, shown.text);
        }
    }
    let mut aborted = result(0);
    (aborted.aborted, aborted.exit_code, aborted.signal) = (true, None, Some("SIGTERM".to_owned()));
    executor.script("aborted", aborted);
    let shown = plain(&host, &session, "aborted").await;
    assert!(shown.is_error && matches!(shown.card, ResultCard::Generic { .. }));
    let call = stockade::tool::present_call("bash", &json!({ "command": "ls -la src", "description": "List" }));
    assert_eq!(call, CallCard::Terminal { title: "ls -la src".into(), description: Some("List".into()), cwd: None });
}

#[tokio::test]
async fn a_model_can_set_neither_environment_nor_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create(id("s"), dir.path()).unwrap();
    let executor = FakeExecutor::confining(ReadOnly);
    let host = host(executor.clone(), None);
    let more = json!({
        "env": { "DSH_HOME": "/evil", "LD_PRELOAD": "x" }, "stdin": "x", "dshEnv": { "DSH_SESSION_ID": "other" },
        "owner": "other", "unknown": [1]
    });
    assert!(!bash(&host, &session, "true", more).await.is_error, "unknown keys are ignored");
    let spec = &executor.ran()[0];
    assert!(spec.env.is_empty());
    assert_eq!(spec.stdin, stockade::executor::Stdin::Empty);
    assert_eq!(spec.owner.as_deref(), Some("s"));
    let log = session.path().unwrap().to_str().unwrap();
    let want =
        [("DSH_HOME", "/nonexistent/home"), ("DSH_SESSION_ID", "s"), ("DSH_SESSION_JSONL", log), ("DSH_SHELL", "1")];
    let got: Vec<_> = spec.managed_env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(got, want);
    assert!(Path::new(log).is_file());
}
