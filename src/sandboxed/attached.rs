//! Runs on the caller's own standard input and output.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::SandboxedExecutor;
use super::child::SandboxChild;
use crate::executor::child::{Child, ExitReport};
use crate::executor::engine::Launched;
use crate::executor::{BoxFuture, ExecError, ExecSpec, RunResult};

/// What a command is attached to, and what reaches it besides.
#[derive(Debug)]
pub struct Attachment {
    /// Standard input, output and error of the command.
    pub stdio: [OwnedFd; 3],
    /// A copy of what the command writes to standard error, where the caller forwards it: evidence for denials.
    pub stderr_copy: Option<OwnedFd>,
    /// Signals to pass on to the command's process group.
    pub signals: UnboundedReceiver<Signal>,
}

impl SandboxedExecutor {
    /// Runs a command on the caller's descriptors instead of capturing its output. `stdin` of the spec is not used.
    ///
    /// # Errors
    /// As [`run`](crate::executor::BashExecutor::run): infrastructure only.
    pub async fn run_attached(&self, spec: ExecSpec, attachment: Attachment) -> Result<RunResult, ExecError> {
        let Attachment { stdio, stderr_copy, mut signals } = attachment;
        let ticket = self.engine.admit(&spec)?;
        let began = Instant::now();
        let (child, context) = self.launch_with([&stdio[0], &stdio[1], &stdio[2]], &spec, None).await?;
        drop(stdio);
        let child = Arc::new(child);
        let stderr = match stderr_copy {
            Some(copy) => copy,
            None => nothing()?,
        };
        let launched = Launched { child: Arc::clone(&child), stdout: nothing()?, stderr, stdin: None, began };
        let run = self.engine.run(ticket, launched, spec);
        tokio::pin!(run);
        loop {
            tokio::select! {
                outcome = &mut run => return Ok(context.finish(outcome?).await),
                Some(signal) = signals.recv() => child.signal(signal),
            }
        }
    }
}

impl Child for Arc<SandboxChild> {
    fn terminate(&self) {
        self.as_ref().terminate();
    }

    fn kill(&self) {
        self.as_ref().kill();
    }

    fn wait(&self) -> BoxFuture<'_, Result<ExitReport, ExecError>> {
        self.as_ref().wait()
    }
}

/// A pipe that is at its end.
pub(super) fn nothing() -> Result<OwnedFd, ExecError> {
    let (reader, _) = std::io::pipe().map_err(|source| ExecError::io("making a pipe", source))?;
    Ok(reader.into())
}
