//! What a client of the protocol server sends. Commands are accepted and end at once; none is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use crate::executor::{
    BashExecutor, BashProcess, BoxFuture, CommandLine, ExecError, ExecRequest, ExecSpec, OutputRead, ProcessStatus,
    RunResult, StreamCapture, Timeout,
};
use crate::mcp::{McpOptions, serve};
use crate::policy::SandboxMode;
use crate::tool::{GrantAccess, ProtectedPaths, Protection};

/// Longer than any of it can take: whoever waits this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The handshake, which most of the protocol needs first.
const HELLO: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},\"clientInfo\":{\"name\":\"f\",\"version\":\"0\"}}}\n\
{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

/// The client's side of a connection; with an odd first byte it comes after the handshake.
pub fn mcp(data: &[u8]) {
    let Some((way, bytes)) = data.split_first() else { return };
    let sent = if way & 1 == 1 { [HELLO, bytes].concat() } else { bytes.to_vec() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, converse(&sent)).await });
    let (answers, runs) = done.expect("the connection ends when the client has gone");
    // No command is run twice, and none that was not asked for.
    let asked = String::from_utf8_lossy(&sent).lines().filter(|line| line.contains("tools")).count();
    assert!(runs <= asked as u64, "{runs} runs for {asked} calls");
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: serde_json::Value = serde_json::from_slice(line).expect("only messages are written");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
}

async fn converse(sent: &[u8]) -> (Vec<u8>, u64) {
    let room = tempfile::tempdir().unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    let (client, server) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(server);
    let mut options = McpOptions::new(room.path(), Arc::new(Nothing));
    options.state_root = room.path().to_path_buf();
    options.home = Some(room.path().to_path_buf());
    options.question_timeout = Duration::from_millis(20);
    let executor = Arc::new(Idle { runs: Arc::clone(&runs) });
    let serving = tokio::spawn(serve(executor, options, input, output, CancellationToken::new()));
    let (mut from_server, mut to_server) = tokio::io::split(client);
    let reading = tokio::spawn(async move {
        let mut answers = Vec::new();
        let read = from_server.read_to_end(&mut answers).await;
        (read.is_ok(), answers)
    });
    // The server hangs up on a client that breaks off; what it does not read it need not answer.
    let written = to_server.write_all(sent).await.is_ok();
    if written {
        // Requests are worked on beside each other: give each its turns before the client goes.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }
    to_server.shutdown().await.ok();
    serving.await.unwrap().unwrap();
    drop(to_server);
    let (_, answers) = reading.await.unwrap();
    (answers, runs.load(Ordering::Relaxed))
}

/// Nothing is protected here.
struct Nothing;

impl ProtectedPaths for Nothing {
    fn protection(&self, _: &Path, asked: &[(PathBuf, GrantAccess)]) -> Vec<Protection> {
        asked.iter().map(|_| Protection::None).collect()
    }
}

struct Idle {
    runs: Arc<AtomicU64>,
}

impl BashExecutor for Idle {
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        if matches!(&request.command, CommandLine::Shell(command) if command.contains('\0')) {
            return Err(ExecError::NulByte { what: "the command".to_owned() });
        }
        Ok(ExecSpec {
            command: request.command,
            workdir: request.workdir.unwrap_or_else(|| PathBuf::from("/")),
            timeout: if let Timeout::After(limit) = request.timeout { Some(limit) } else { None },
            stdout_max_bytes: request.stdout_max_bytes.unwrap_or(1 << 16),
            cancel: request.cancel,
            stdin: request.stdin,
            env: request.env,
            managed_env: request.managed_env,
            policy: request.policy,
            owner: request.owner,
        })
    }

    fn run(&self, _: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(result()) })
    }

    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Arc::new(Ended { owner: spec.owner }) as Arc<dyn BashProcess>) })
    }

    fn sandbox_mode(&self) -> Option<SandboxMode> {
        Some(SandboxMode::ReadOnly)
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A background command that ended as it began.
struct Ended {
    owner: Option<String>,
}

impl BashProcess for Ended {
    fn status(&self) -> ProcessStatus {
        ProcessStatus::Settled(Box::new(result()))
    }

    fn done(&self) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(std::future::ready(Ok(result())))
    }

    fn read_output(&self) -> OutputRead {
        OutputRead { stdout: "out\n".to_owned(), ..OutputRead::default() }
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

fn result() -> RunResult {
    RunResult {
        exit_code: Some(0),
        signal: None,
        timed_out: false,
        aborted: false,
        timeout_ms: 0,
        duration_ms: 0.5,
        stdout: StreamCapture::default(),
        stderr: StreamCapture::default(),
        sandbox: None,
    }
}
