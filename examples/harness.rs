//! A harness in one screen: mount the tools, play a scripted model that runs into the sandbox, ask, retry.
//! Run it in a terminal: `cargo run --example harness`; with `-- --yes` it approves by itself.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use stockade::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, TerminalApprover};
use stockade::executor::BashExecutor;
use stockade::launcher::LauncherPath;
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};
use stockade::session::{Session, SessionId};
use stockade::tool::{PolicyProtection, ToolHost};
use tokio_util::sync::CancellationToken;

/// The confined executor, read-only by default. The launcher is this program itself, or the one named.
pub fn confined(
    workspace: &Path,
    launcher: LauncherPath,
) -> Result<(Arc<dyn BashExecutor>, PolicyProtection), Box<dyn std::error::Error>> {
    let host = HostPaths::of_process()?;
    let request = PolicyRequest::new(SandboxMode::ReadOnly, workspace);
    let (wider, paths) = (request.clone(), host.clone());
    let protected = PolicyProtection::new(move |workspace| {
        wider.for_call(SandboxMode::WorkspaceWrite, workspace).resolve(&paths).ok()
    });
    let mut config = SandboxedConfig::new(Arc::new(LayeredPolicy::new(request, host)?));
    config.launcher = launcher;
    Ok((Arc::new(SandboxedExecutor::new(config)?), protected))
}

/// Says yes and shows what to. A real harness asks its user.
pub struct SayYes;

impl Approver for SayYes {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, _: &'a CancellationToken) -> ApprovalFuture<'a> {
        eprintln!("approving, once: {:?} under {:?}", request.command, request.asks);
        Box::pin(async { ApprovalOutcome::AllowedOnce })
    }
}

/// Denied, approved, retried, confined again: the three results, and whether just the approved file is there.
pub async fn story(
    approver: Arc<dyn Approver>,
    launcher: LauncherPath,
) -> Result<(Vec<String>, bool), Box<dyn std::error::Error>> {
    // Not under /tmp, which is private to the sandbox.
    let workspace = tempfile::tempdir_in(std::env::current_dir()?)?;
    let session = Session::in_memory(SessionId::generate(), workspace.path())?;
    let (executor, protected) = confined(session.cwd(), launcher)?;
    let host = ToolHost::builder(executor).approver(approver).protected_paths(Arc::new(protected)).build()?;
    let plain = json!({ "command": "touch hello.txt", "description": "Create hello.txt" });
    let mut wider = plain.clone();
    wider["sandbox_permissions"] = json!("workspace-write");
    wider["justification"] = json!("The task is to create hello.txt in the workspace.");
    let again = json!({ "command": "touch again.txt", "description": "Create again.txt" });
    let mut results = Vec::new();
    for args in [plain, wider, again] {
        results.push(host.call(Some(&session), "bash", args, &CancellationToken::new()).await.text);
    }
    let landed = session.cwd().join("hello.txt").exists() && !session.cwd().join("again.txt").exists();
    host.dispose().await;
    Ok((results, landed))
}

#[allow(dead_code, reason = "the test that includes this file calls story itself")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before there is any thread: this program is also its own launcher.
    stockade::launcher::enter();
    let yes = std::env::args().any(|arg| arg == "--yes");
    let approver: Arc<dyn Approver> = if yes { Arc::new(SayYes) } else { Arc::new(TerminalApprover::default()) };
    let (results, landed) = tokio::runtime::Runtime::new()?.block_on(story(approver, LauncherPath::Auto))?;
    for text in results {
        eprintln!("---\n{text}");
    }
    eprintln!("---\nthe approved file, and only it, is there: {landed}");
    Ok(())
}
