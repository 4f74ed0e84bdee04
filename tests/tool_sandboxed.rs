//! The tools over the real executors: the same behaviour, on this kernel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, unreachable_pub, reason = "the example is a crate root of its own")]
#[path = "../examples/harness.rs"]
mod harness;
mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stockade::approval::{ApprovalOutcome, Asks};
use stockade::executor::BashExecutor;
use stockade::launcher::LauncherPath;
use stockade::local::{LocalConfig, LocalExecutor};
use stockade::policy::SandboxMode::{ReadOnly, WorkspaceWrite};
use stockade::session::{Session, set_sandbox_mode};
use stockade::tool::{Notice, NoticeSink, TaskStatus, ToolHost, ToolOutput, ToolResult};
use support::approver::{Scripted, rejected};
use tokio_util::sync::CancellationToken;

/// Sessions of the confined crowd: a sandbox is more than a process, and an unoptimised build takes its time.
const CROWD: usize = 40;

struct World {
    host: ToolHost,
    approver: Arc<Scripted>,
    session: Session,
    root: PathBuf,
    _dir: tempfile::TempDir,
}

/// A workspace `w` with a git hook directory, beside it a directory `out`; none of it under the private `/tmp`.
fn world(answers: impl IntoIterator<Item = ApprovalOutcome>) -> World {
    let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("out")).unwrap();
    for made in ["hooks", "objects", "refs"] {
        std::fs::create_dir_all(root.join("w/.git").join(made)).unwrap();
    }
    std::fs::write(root.join("w/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(root.join("w/.git/config"), "").unwrap();
    let launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    let (executor, protected) = harness::confined(&root.join("w"), launcher).unwrap();
    let approver = Scripted::answering(answers);
    let builder = ToolHost::builder(executor).home("/h").approver(approver.clone());
    let host = builder.protected_paths(Arc::new(protected)).build().unwrap();
    let session = Session::in_memory("s".parse().unwrap(), root.join("w")).unwrap();
    World { host, approver, session, root, _dir: dir }
}

impl World {
    async fn bash(&self, command: &str, more: Value) -> ToolResult {
        let mut args = json!({ "command": command, "description": "Do what the test says" });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.host.call(Some(&self.session), "bash", args, &CancellationToken::new()).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

fn touch(path: &Path) -> String {
    format!("touch {}", path.display())
}

fn extra(write: &[&Path]) -> Value {
    json!({ "additional_permissions": { "write": write }, "justification": "The task needs this file." })
}

#[tokio::test]
async fn a_narrow_permission_opens_what_it_names_for_one_call() {
    let world = world([rejected(), ApprovalOutcome::AllowedOnce]);
    set_sandbox_mode(&world.session, WorkspaceWrite).unwrap();
    let (file, other) = (world.path("out/file"), world.path("out/other"));
    std::fs::write(&file, "").unwrap();
    let write = format!("echo x > {}", file.display());
    let denied = world.bash(&write, json!({})).await;
    assert!(denied.text.contains("[sandbox: file access denied under workspace-write mode]"), "{}", denied.text);
    assert!(
        denied.text.contains("escalation available") && denied.text.contains("additional_permissions"),
        "{}",
        denied.text
    );
    let refused = world.bash(&write, extra(&[&file])).await;
    assert!(refused.is_error && std::fs::read(&file).unwrap().is_empty(), "{}", refused.text);
    assert_eq!(world.approver.asked()[0].grounds[0].path.as_deref(), Some(file.as_path()));
    world.bash(&write, json!({})).await;
    let both = format!("{write}; {}", touch(&other));
    // Another command than the refused one, with a permission that covers half of it.
    let half = world.bash(&both, extra(&[&file])).await;
    assert!(!half.is_error && half.text.contains("denied"), "{}", half.text);
    assert_eq!(std::fs::read(&file).unwrap(), b"x\n");
    assert!(!other.exists());
    std::fs::write(&file, "").unwrap();
    assert!(world.bash(&write, json!({})).await.text.contains("denied"));
    assert!(std::fs::read(&file).unwrap().is_empty(), "the permission is used up");
    world.host.dispose().await;
}

#[tokio::test]
async fn protected_paths_are_granted_only_by_name() {
    let world = world([ApprovalOutcome::AllowedOnce, ApprovalOutcome::AllowedOnce]);
    set_sandbox_mode(&world.session, WorkspaceWrite).unwrap();
    let hook = world.path("w/.git/hooks/pre-commit");
    assert!(world.bash(&touch(&hook), json!({})).await.text.contains("denied"));
    for containing in ["w", "w/.git", "out/.."] {
        let refused = world.bash(&touch(&hook), extra(&[&world.path(containing)])).await;
        assert!(refused.is_error && refused.text.contains("protected path"), "{containing}: {}", refused.text);
    }
    assert!(world.approver.asked().is_empty() && !hook.exists());
    let named = world.bash(&touch(&hook), extra(&[&world.path("w/.git/hooks")])).await;
    assert!(!named.is_error && hook.exists(), "{}", named.text);
    let Asks::Extra { protected, .. } = &world.approver.asked()[0].asks else { panic!("asks for extra permissions") };
    assert_eq!(protected, &[world.path("w/.git/hooks")], "the approver is told that it is protected");
    world.host.dispose().await;
}

#[derive(Default)]
struct Inbox(Mutex<Vec<Notice>>);

impl NoticeSink for Inbox {
    fn notify(&self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

async fn background(executor: Arc<dyn BashExecutor>) {
    let host = ToolHost::builder(executor).home("/h").build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let session = Session::in_memory("s".parse().unwrap(), dir.path()).unwrap();
    let inbox = Arc::new(Inbox::default());
    let _attached = host.attach(session.id(), inbox.clone());
    let cancel = CancellationToken::new();
    let args = json!({ "command": "echo $DSH_SESSION_ID; sleep 600 & wait", "description": "Wait", "run_in_background": true });
    let started = host.call(Some(&session), "bash", args, &cancel).await;
    let ToolOutput::Started { task_id } = started.structured else { panic!("{}", started.text) };
    assert_eq!(host.owner_of(&task_id), Some(Some("s".to_owned())), "stamped on the process by the executor");
    let task = json!({ "task_id": task_id });
    let mut text = String::new();
    for _ in 0..1000 {
        text = host.call(Some(&session), "bash_output", task.clone(), &cancel).await.text;
        if text != "(no new output)\n[status: running]" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(text, "s\n[status: running]");
    assert!(host.call(Some(&session), "bash_kill", task.clone(), &cancel).await.text.starts_with("killed"));
    let ended = host.call(Some(&session), "bash_output", task.clone(), &cancel).await;
    assert!(ended.text.starts_with("(no new output)\n[status: killed by SIG"), "{}", ended.text);
    assert!(host.call(Some(&session), "bash_kill", task, &cancel).await.text.contains("already finished"));
    host.dispose().await;
    let notices = inbox.0.lock().unwrap();
    assert!(matches!(notices.as_slice(), [Notice { status: TaskStatus::Killed { .. }, .. }]), "{notices:?}");
}

#[tokio::test]
async fn background_tasks_confined() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    background(harness::confined(dir.path(), launcher).unwrap().0).await;
}

#[tokio::test]
async fn background_tasks_unconfined() {
    background(Arc::new(LocalExecutor::new(LocalConfig::default()).unwrap())).await;
}

/// Processes of this machine whose command line has `marker` in it.
fn processes_with(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        // One that ends while we look has no command line any more.
        std::fs::read(entry.path().join("cmdline")).ok()
    });
    processes.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

/// `sessions` sessions with five background tasks each: ids, owners, and what is left after the end.
async fn crowd(executor: Arc<dyn BashExecutor>, sessions: usize, marker: &str) {
    let host = ToolHost::builder(executor).home("/h").build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let args = json!({ "command": format!("exec sleep {marker}"), "description": "Wait", "run_in_background": true });
    let mut ids = Vec::new();
    let owners: Vec<Session> =
        (0..sessions).map(|n| Session::in_memory(format!("s{n}").parse().unwrap(), dir.path()).unwrap()).collect();
    for _ in 0..5 {
        for owner in &owners {
            let started = host.call(Some(owner), "bash", args.clone(), &cancel).await;
            let ToolOutput::Started { task_id } = started.structured else { panic!("{}", started.text) };
            assert_eq!(host.owner_of(&task_id), Some(Some(owner.id().to_string())));
            ids.push(task_id);
        }
    }
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), sessions * 5);
    for (n, id) in ids.iter().enumerate() {
        let stranger = &owners[(n + 1) % sessions];
        let refused = host.call(Some(stranger), "bash_kill", json!({ "task_id": id }), &cancel).await;
        assert_eq!(refused.text, format!("task {id} belongs to another session"));
    }
    assert!(processes_with(marker) >= sessions * 5, "{} run", processes_with(marker));
    host.dispose().await;
    assert_eq!(processes_with(marker), 0, "disposal leaves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_sessions_unconfined() {
    let marker = format!("9000.{}1", std::process::id());
    crowd(Arc::new(LocalExecutor::new(LocalConfig::default()).unwrap()), 200, &marker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_sessions_confined() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    let marker = format!("9000.{}2", std::process::id());
    crowd(harness::confined(dir.path(), launcher).unwrap().0, CROWD, &marker).await;
}

#[tokio::test]
async fn the_mode_is_the_sessions_and_the_workspace_too() {
    let world = world([]);
    assert_eq!(world.host.effective_mode(Some(&world.session)), Some(ReadOnly));
    let (inside, outside) = (world.path("w/new"), world.path("out/new"));
    assert!(world.bash(&touch(&inside), json!({})).await.text.contains("denied under read-only mode"));
    set_sandbox_mode(&world.session, WorkspaceWrite).unwrap();
    assert!(!world.bash(&touch(&inside), json!({})).await.text.contains("denied"));
    assert!(inside.exists());
    let moved = world.bash("touch new", json!({ "workdir": "../out" })).await;
    assert!(moved.text.contains("denied under workspace-write mode") && !outside.exists(), "{}", moved.text);
    set_sandbox_mode(&world.session, ReadOnly).unwrap();
    assert!(world.bash("touch again", json!({})).await.text.contains("denied under read-only mode"));
    world.host.dispose().await;
}

#[tokio::test]
async fn tmp_is_private_to_a_session_and_lasts_as_long_as_it() {
    let world = world([]);
    let other = Session::in_memory("other".parse().unwrap(), world.path("w")).unwrap();
    let name = format!("/tmp/stockade-test-{}", std::process::id());
    let write = world.bash(&format!("echo mine > {name}"), json!({})).await;
    assert_eq!(write.text, "(no output)");
    assert_eq!(world.bash(&format!("cat {name}"), json!({})).await.text, "mine\n", "it lasts from call to call");
    let look = json!({ "command": format!("test -e {name}"), "description": "Look" });
    let elsewhere = world.host.call(Some(&other), "bash", look, &CancellationToken::new()).await;
    assert!(elsewhere.text.ends_with("[exit code: 1]"), "{}", elsewhere.text);
    assert!(!Path::new(&name).exists(), "nor is it on the host");
    world.host.end_session(world.session.id()).await;
    let after = world.bash(&format!("test -e {name}"), json!({})).await;
    assert!(after.text.ends_with("[exit code: 1]"), "{}", after.text);
    world.host.dispose().await;
}
