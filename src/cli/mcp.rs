//! `stockade mcp`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stockade::approval::Approver;
use stockade::executor::BashExecutor;
use stockade::mcp::{McpOptions, serve};
use stockade::sandboxed::{PolicySource, SandboxedExecutor};
use stockade::tool::PolicyProtection;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::args::PolicyArgs;
use super::exit::Failure;
use super::journaled::{Journaled, JournaledApprover, Recorder};
use super::run::{config, layered_policy, start};

/// From SIGTERM to SIGKILL: everything must be gone within a second of the client's going.
const GRACE: Duration = Duration::from_millis(500);

/// Serves one client on standard input and output until it goes.
pub(crate) fn mcp(args: &PolicyArgs) -> Result<ExitCode, Failure> {
    // Two that work, one in each of read(2) and write(2).
    let runtime = start(tokio::runtime::Builder::new_multi_thread().worker_threads(2), 4)?;
    let served = runtime.block_on(serve_stdio(args));
    // A client that neither reads nor closes keeps a thread in write(2); it must not keep the process.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve_stdio(args: &PolicyArgs) -> Result<(), Failure> {
    let policy = layered_policy(args)?;
    let mut config = config(args, &policy);
    config.grace = GRACE;
    if let Some(ms) = args.timeout_ms {
        let limit = (ms > 0).then(|| Duration::from_millis(ms));
        config.default_timeout = limit;
        // A limit that was asked for on the command line is also allowed.
        config.max_timeout = limit.and_then(|limit| config.max_timeout.map(|cap| cap.max(limit)));
    }
    let recorder = Recorder::open(args, &policy)?;
    let workspace = policy.standing().workspace;
    let protection = PolicyProtection::new(move |workspace| policy.of_writing(workspace));
    let mut options = McpOptions::new(workspace, Arc::new(protection));
    let executor = SandboxedExecutor::new(config)?;
    let executor: Arc<dyn BashExecutor> = match recorder {
        Some(recorder) => {
            let approvals = recorder.clone();
            options.mount = Some(Box::new(|approver| {
                Arc::new(JournaledApprover { approver, recorder: approvals }) as Arc<dyn Approver>
            }));
            Arc::new(Journaled { executor, recorder })
        }
        None => Arc::new(executor),
    };
    let stop = stop_on_signals()?;
    serve(executor, options, tokio::io::stdin(), tokio::io::stdout(), stop)
        .await
        .map_err(|error| Failure::cannot(error.to_string()))
}

/// Fires on the signals by which clients end their servers.
fn stop_on_signals() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut arrivals =
            signal(kind).map_err(|error| Failure::cannot(format!("signals cannot be received: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            if arrivals.recv().await.is_some() {
                stop.cancel();
            }
        });
    }
    Ok(stop)
}
