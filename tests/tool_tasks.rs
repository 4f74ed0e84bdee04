//! Background tasks: ids, owners, reads, kills, notices, bounds, disposal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use stockade::policy::SandboxMode::ReadOnly;
use stockade::session::{Session, SessionStore};
use stockade::tool::{FailureCode, Notice, NoticeSink, ResultCard, TaskStatus, ToolHost, ToolOutput, ToolResult};
use support::{FakeExecutor, denial, report, result};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Inbox(Mutex<Vec<Notice>>);

impl NoticeSink for Inbox {
    fn notify(&self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

impl Inbox {
    async fn wait_for(&self, count: usize) -> Vec<Notice> {
        for _ in 0..1000 {
            if self.0.lock().unwrap().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.0.lock().unwrap().clone()
    }
}

fn host(executor: &Arc<FakeExecutor>) -> ToolHost {
    ToolHost::builder(Arc::clone(executor) as _).home("/h").build().unwrap()
}

fn session(name: &str) -> Session {
    Session::in_memory(name.parse().unwrap(), "/").unwrap()
}

async fn start(host: &ToolHost, session: Option<&Session>, command: &str) -> String {
    let args = json!({ "command": command, "description": "Run on", "run_in_background": true, "timeoutMs": 1 });
    let started = host.call(session, "bash", args, &CancellationToken::new()).await;
    assert!(matches!(started.card, ResultCard::Generic { .. }), "a background start is no terminal");
    let ToolOutput::Started { task_id } = started.structured else { panic!("{}", started.text) };
    assert!(started.text.contains(&task_id));
    task_id
}

async fn task(host: &ToolHost, session: Option<&Session>, tool: &str, id: &str) -> ToolResult {
    host.call(session, tool, json!({ "task_id": id }), &CancellationToken::new()).await
}

fn code(result: &ToolResult) -> FailureCode {
    let ToolOutput::Failure { code, .. } = &result.structured else { panic!("{}", result.text) };
    assert!(result.is_error);
    *code
}

#[tokio::test]
async fn a_task_from_start_to_end() {
    let executor = FakeExecutor::confining(ReadOnly);
    let (host, owner, other) = (host(&executor), session("owner"), session("other"));
    let inbox = Arc::new(Inbox::default());
    let _attached = host.attach(owner.id(), inbox.clone());
    let id = start(&host, Some(&owner), "echo hello && sleep 600").await;
    assert_eq!(id, "bash-1");
    assert_eq!(executor.ran()[0].timeout, None, "no timeout applies in the background");
    assert_eq!(host.owner_of(&id), Some(Some("owner".to_owned())));

    for caller in [Some(&other), None] {
        for tool in ["bash_output", "bash_kill"] {
            let refused = task(&host, caller, tool, &id).await;
            assert_eq!(code(&refused), FailureCode::ForeignTask);
            assert_eq!(refused.text, "task bash-1 belongs to another session");
        }
    }
    assert_eq!(executor.running(), 1, "nobody else's kill got through");
    for unknown in ["bash-2", "bash-01", "bash-+1", "bash-", "1", "bash-99999999999999999999999"] {
        assert_eq!(code(&task(&host, Some(&owner), "bash_output", unknown).await), FailureCode::UnknownTask);
        assert_eq!(code(&task(&host, Some(&owner), "bash_kill", unknown).await), FailureCode::UnknownTask);
    }
    assert_eq!(task(&host, Some(&owner), "bash_output", &id).await.text, "(no new output)\n[status: running]");
    assert_eq!(task(&host, Some(&owner), "bash_kill", &id).await.text, "killed background task bash-1");
    assert_eq!(executor.running(), 0);
    let read = task(&host, Some(&owner), "bash_output", &id).await;
    assert_eq!(read.text, "hello\n[status: killed by SIGKILL]");
    let again = task(&host, Some(&owner), "bash_output", &id).await;
    assert_eq!(again.text, "(no new output)\n[status: killed by SIGKILL]", "never delivered twice");
    let noop = task(&host, Some(&owner), "bash_kill", &id).await;
    assert!(!noop.is_error && noop.text.contains("already finished"), "{}", noop.text);
    assert_eq!(noop.structured, ToolOutput::Kill { task_id: id.clone(), killed: false });

    let notices = inbox.wait_for(1).await;
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].session.as_str(), notices[0].task_id.as_str()), ("owner", "bash-1"));
    assert_eq!(notices[0].status, TaskStatus::Killed { signal: Some("SIGKILL".to_owned()) });
}

#[tokio::test]
async fn notices_reach_the_owner_alone_and_are_dropped_when_it_is_gone() {
    let executor = FakeExecutor::confining(ReadOnly);
    let (host, a, b) = (host(&executor), session("a"), session("b"));
    let inboxes = [Arc::new(Inbox::default()), Arc::new(Inbox::default())];
    let gone = host.attach(a.id(), inboxes[0].clone());
    let _here = host.attach(b.id(), inboxes[1].clone());
    drop(gone);
    start(&host, Some(&a), "true").await;
    start(&host, Some(&b), "exit 3").await;
    start(&host, None, "true").await;
    let notices = inboxes[1].wait_for(1).await;
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].task_id, "bash-2");
    assert!(notices[0].text.contains("completed, exit code: 3"), "{}", notices[0].text);
    host.dispose().await;
    assert!(inboxes[0].0.lock().unwrap().is_empty());
    assert_eq!(inboxes[1].0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_unowned_task_is_anybodys() {
    let executor = FakeExecutor::unconfined();
    let (host, caller) = (host(&executor), session("s"));
    let id = start(&host, None, "sleep 600").await;
    assert_eq!(host.owner_of(&id), Some(None));
    assert!(!task(&host, Some(&caller), "bash_output", &id).await.is_error);
    assert!(!task(&host, None, "bash_kill", &id).await.is_error);
    assert_eq!(executor.running(), 0);
}

#[tokio::test]
async fn the_denial_marker_is_on_every_read_of_a_settled_denied_task() {
    let executor = FakeExecutor::confining(ReadOnly);
    let (host, owner) = (host(&executor), session("s"));
    let mut denied = result(1);
    denied.stderr.text = "touch: no\n".to_owned();
    denied.stdout.truncated = true;
    denied.sandbox = Some(report(ReadOnly, vec![denial(Path::new("/w/f"), None)]));
    executor.script("denied", denied);
    let id = start(&host, Some(&owner), "denied").await;
    let tail = "[sandbox: file access denied under read-only mode]\n[sandbox: denied fs.create /w/f by touch]\n[status: completed, exit code: 1]";
    let mut first = task(&host, Some(&owner), "bash_output", &id).await.text;
    while first.contains("[status: running]") {
        tokio::task::yield_now().await;
        first = task(&host, Some(&owner), "bash_output", &id).await.text;
    }
    let lost = "[some output was dropped from memory; full output: (unavailable)]";
    assert_eq!(first, format!("[stderr]\ntouch: no\n{lost}\n{tail}"));
    for _ in 0..3 {
        let read = task(&host, Some(&owner), "bash_output", &id).await;
        assert_eq!(read.text, format!("(no new output)\n{tail}"));
        let ToolOutput::Read(read) = read.structured else { panic!() };
        assert!(read.sandbox.unwrap().denied);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_with_five_tasks_each() {
    let executor = FakeExecutor::confining(ReadOnly);
    let host = host(&executor);
    let sessions: Vec<Arc<Session>> = (0..200).map(|n| Arc::new(session(&format!("s{n}")))).collect();
    let starting: Vec<_> = sessions
        .iter()
        .map(|owner| {
            let (host, owner) = (host.clone(), Arc::clone(owner));
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for n in 0..5 {
                    let command = if n < 3 {
                        format!("echo {} && sleep 600", owner.id())
                    } else {
                        format!("echo {}", owner.id())
                    };
                    ids.push(start(&host, Some(&owner), &command).await);
                }
                ids
            })
        })
        .collect();
    let mut owned = Vec::new();
    for (started, owner) in starting.into_iter().zip(&sessions) {
        owned.extend(started.await.unwrap().into_iter().map(|id| (id, Arc::clone(owner))));
    }
    assert_eq!(owned.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), 1000, "ids are unique");
    for (n, (id, owner)) in owned.iter().enumerate() {
        let stranger = &sessions[(n / 5 + 1 + n % 199) % 200];
        if stranger.id() != owner.id() {
            assert_eq!(code(&task(&host, Some(stranger), "bash_output", id).await), FailureCode::ForeignTask);
            assert_eq!(code(&task(&host, Some(stranger), "bash_kill", id).await), FailureCode::ForeignTask);
        }
        let mine = task(&host, Some(owner), "bash_output", id).await;
        assert!(
            !mine.is_error && (mine.text.contains("running") || mine.text.starts_with(&format!("{}\n", owner.id())))
        );
    }
    assert_eq!(executor.running(), 600);
    assert_eq!(host.task_counts().0, 1000);

    host.end_session(sessions[0].id()).await;
    assert_eq!(executor.running(), 597);
    assert_eq!(code(&task(&host, Some(&sessions[0]), "bash_output", &owned[0].0).await), FailureCode::UnknownTask);
    host.dispose().await;
    assert_eq!(executor.running(), 0, "disposal leaves nothing");
    let late = host
        .call(Some(&sessions[1]), "bash", json!({ "command": "true", "description": "x" }), &CancellationToken::new())
        .await;
    assert_eq!(code(&late), FailureCode::Executor);
}

#[tokio::test]
async fn finished_tasks_are_bounded_and_the_loss_is_said() {
    let executor = FakeExecutor::unconfined();
    let (host, owner, neighbour) = (host(&executor), session("s"), session("n"));
    let inbox = Arc::new(Inbox::default());
    let _attached = host.attach(owner.id(), inbox.clone());
    let kept = start(&host, Some(&neighbour), "echo mine").await;
    let first = start(&host, Some(&owner), "echo first").await;
    for _ in 0..99 {
        start(&host, Some(&owner), "echo more").await;
    }
    inbox.wait_for(100).await;
    let (known, held) = host.task_counts();
    assert_eq!((known, held), (101, 33), "32 of the owner's keep output, and the neighbour's");
    let read = task(&host, Some(&owner), "bash_output", &first).await;
    assert!(read.text.starts_with("(no new output)\n[some output was dropped from memory"), "{}", read.text);
    assert!(
        task(&host, Some(&owner), "bash_output", &first).await.text.starts_with("(no new output)\n[status: completed")
    );
    assert_eq!(
        task(&host, Some(&neighbour), "bash_output", &kept).await.text,
        "mine\n[status: completed, exit code: 0]"
    );
    for _ in 0..300 {
        start(&host, Some(&owner), "echo more").await;
    }
    inbox.wait_for(400).await;
    assert!(host.task_counts().0 <= 256 + 32 + 1, "{:?}", host.task_counts());
    assert_eq!(code(&task(&host, Some(&owner), "bash_output", &first).await), FailureCode::UnknownTask);
}

#[tokio::test]
async fn a_resumed_session_never_meets_its_old_ids_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create("s".parse().unwrap(), dir.path()).unwrap();
    let executor = FakeExecutor::unconfined();
    let before = host(&executor);
    for _ in 0..3 {
        start(&before, Some(&session), "true").await;
    }
    drop(session);
    let session = store.resume(&"s".parse().unwrap()).unwrap();
    let after = host(&executor);
    assert_eq!(code(&task(&after, Some(&session), "bash_output", "bash-3").await), FailureCode::UnknownTask);
    assert_eq!(start(&after, Some(&session), "true").await, "bash-4");
}

#[tokio::test]
async fn cancelling_a_call_kills_its_command_and_says_so() {
    let executor = FakeExecutor::unconfined();
    let (host, owner, cancel) = (host(&executor), session("s"), CancellationToken::new());
    let args = json!({ "command": "echo partial && sleep 600", "description": "Wait" });
    let (cancelled, ()) = tokio::join!(host.call(Some(&owner), "bash", args.clone(), &cancel), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    assert_eq!(code(&cancelled), FailureCode::Aborted);
    assert!(cancelled.text.contains("cancelled") && cancelled.text.contains("partial"), "{}", cancelled.text);
    let before = executor.ran().len();
    assert_eq!(code(&host.call(Some(&owner), "bash", args, &cancel).await), FailureCode::Aborted);
    let background = json!({ "command": "sleep 600", "description": "Wait", "run_in_background": true });
    assert_eq!(code(&host.call(Some(&owner), "bash", background, &cancel).await), FailureCode::Aborted);
    assert_eq!(executor.ran().len(), before, "a cancelled call starts nothing");
    // Dropping the call does the same.
    let args = json!({ "command": "sleep 600", "description": "Wait" });
    let never = CancellationToken::new();
    let dropped = tokio::time::timeout(Duration::from_millis(50), host.call(Some(&owner), "bash", args, &never)).await;
    assert!(dropped.is_err());
    let spec = executor.ran().pop().unwrap();
    assert!(spec.cancel.unwrap().is_cancelled() && !never.is_cancelled());
}
