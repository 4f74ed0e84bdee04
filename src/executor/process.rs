//! The handle of a background command.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use super::engine::Streams;
use super::{BashProcess, BoxFuture, ExecError, OutputRead, ProcessStatus, RunResult};

/// Unset while the command runs.
type Settled = Option<Result<RunResult, Arc<ExecError>>>;

/// A command followed by a task. Dropping the handle leaves it running until its executor is disposed of.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    streams: Streams,
    settled: watch::Receiver<Settled>,
    ask: CancellationToken,
    owner: Option<String>,
    input: Mutex<Input>,
}

/// The command's standard input, where it was left open.
#[derive(Debug)]
enum Input {
    /// Not written to yet.
    Pipe(OwnedFd),
    Open(Sender),
    Closed,
}

impl Input {
    /// The writing end, registered with the runtime of the first write.
    fn open(&mut self) -> io::Result<&mut Sender> {
        if let Self::Pipe(_) = self {
            let Self::Pipe(fd) = std::mem::replace(self, Self::Closed) else { return Err(closed()) };
            *self = Self::Open(Sender::from_owned_fd(fd)?);
        }
        match self {
            Self::Open(sender) => Ok(sender),
            Self::Pipe(_) | Self::Closed => Err(closed()),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the command's input is not open; start it with Stdin::Open")
}

impl ProcessHandle {
    /// Spawns `run`, which ends the command when `ask` is cancelled.
    pub(crate) fn spawn(
        run: impl Future<Output = Result<RunResult, ExecError>> + Send + 'static,
        streams: Streams,
        ask: CancellationToken,
        owner: Option<String>,
        input: Option<OwnedFd>,
    ) -> Self {
        let (sender, settled) = watch::channel(None);
        tokio::spawn(async move {
            let result = run.await.map_err(Arc::new);
            sender.send_replace(Some(result));
        });
        Self { streams, settled, ask, owner, input: Mutex::new(input.map_or(Input::Closed, Input::Pipe)) }
    }

    fn now(&self) -> Settled {
        self.settled.borrow().clone()
    }

    async fn end(&self) -> Result<RunResult, ExecError> {
        let mut settled = self.settled.clone();
        let settled = settled.wait_for(Option::is_some).await.map(|value| value.clone());
        match settled {
            Ok(Some(Ok(result))) => Ok(result),
            Ok(Some(Err(error))) => Err(again(error)),
            Ok(None) | Err(_) => Err(runtime_gone()),
        }
    }
}

impl BashProcess for ProcessHandle {
    fn status(&self) -> ProcessStatus {
        match self.now() {
            Some(Ok(result)) => ProcessStatus::Settled(Box::new(result)),
            Some(Err(error)) => ProcessStatus::Failed(error.to_string()),
            None if self.settled.has_changed().is_err() => ProcessStatus::Failed(runtime_gone().to_string()),
            None => ProcessStatus::Running,
        }
    }

    fn done(&self) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(self.end())
    }

    fn read_output(&self) -> OutputRead {
        let stdout = self.streams.stdout.lock().unwrap_or_else(PoisonError::into_inner).read_fresh();
        let stderr = self.streams.stderr.lock().unwrap_or_else(PoisonError::into_inner).read_fresh();
        OutputRead {
            stdout: stdout.text,
            stderr: stderr.text,
            lossy: stdout.lossy || stderr.lossy,
            stdout_spill: stdout.spill,
            stderr_spill: stderr.spill,
        }
    }

    /// SIGTERM, grace, SIGKILL; resolves when it has ended.
    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            if self.now().is_some() {
                return false;
            }
            self.ask.cancel();
            // It may have ended by itself before the request reached it.
            self.end().await.is_ok_and(|result| result.aborted)
        })
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    fn write_input<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), ExecError>> {
        Box::pin(async move {
            let mut input = self.input.lock().await;
            let written = async { input.open()?.write_all(bytes).await };
            written.await.map_err(|source| ExecError::io("writing to the background command", source))
        })
    }

    fn close_input(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { *self.input.lock().await = Input::Closed })
    }
}

fn runtime_gone() -> ExecError {
    ExecError::SandboxLost { reason: "the runtime that followed the command was shut down".to_owned() }
}

/// The same error for another waiter; errors hold `io::Error`, which cannot be cloned.
fn again(error: Arc<ExecError>) -> ExecError {
    match &*error {
        ExecError::SandboxLost { reason } => ExecError::SandboxLost { reason: reason.clone() },
        _ => ExecError::io("following the background command", io::Error::other(Shared(error))),
    }
}

/// An error with many owners, its source kept.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Shared(Arc<ExecError>);
