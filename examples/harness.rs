//! A harness in one screen: mount the tools, play a scripted model that runs into the sandbox, ask, retry.
//!
//! Run it in a terminal with `cargo run --example harness`; with `--yes` it approves by itself.

use std::sync::Arc;

use serde_json::json;
use stockade::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, TerminalApprover};
use stockade::executor::BashExecutor;
use stockade::session::{Session, SessionId};
use stockade::tool::{ProtectedList, ToolHost};
use tokio_util::sync::CancellationToken;

#[path = "../tests/support/mod.rs"]
mod support;

/// The one line to change: which executor the tools run on.
fn executor() -> Arc<dyn BashExecutor> {
    support::FakeExecutor::confining(stockade::policy::SandboxMode::ReadOnly)
}

/// Says yes and shows what to. A real harness asks its user.
pub struct SayYes;

impl Approver for SayYes {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, _: &'a CancellationToken) -> ApprovalFuture<'a> {
        eprintln!("approving, once: {:?} under {:?}", request.command, request.asks);
        Box::pin(async { ApprovalOutcome::AllowedOnce })
    }
}

/// Denied, approved, retried, confined again: the three results, and whether the file is there.
pub async fn story(approver: Arc<dyn Approver>) -> Result<(Vec<String>, bool), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    let session = Session::in_memory(SessionId::generate(), workspace.path())?;
    let host = ToolHost::builder(executor())
        .approver(approver)
        .protected_paths(Arc::new(ProtectedList(vec![session.cwd().join(".git/hooks")])))
        .home(workspace.path().join(".dsh"))
        .build()?;
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

#[tokio::main]
#[allow(dead_code, reason = "the test that includes this file calls story itself")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let yes = std::env::args().any(|arg| arg == "--yes");
    let approver: Arc<dyn Approver> = if yes { Arc::new(SayYes) } else { Arc::new(TerminalApprover::default()) };
    let (results, landed) = story(approver).await?;
    for text in results {
        eprintln!("---\n{text}");
    }
    eprintln!("---\nthe approved file, and only it, is there: {landed}");
    Ok(())
}
