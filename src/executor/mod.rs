//! The seam: what a bash executor does, without saying how.
//!
//! Two implementations come with the crate: [`crate::local::LocalExecutor`], which confines nothing, and
//! [`crate::sandboxed::SandboxedExecutor`]. A remote one fits the same trait.

pub(crate) mod blocking;
pub(crate) mod child;
pub(crate) mod defaults;
pub(crate) mod engine;
mod error;
mod guard;
mod process;
pub(crate) mod program;
mod reading;
mod registry;
mod stop;
mod types;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use error::ExecError;
pub use types::{
    CallPolicy, CommandLine, Enforcement, ExecRequest, ExecSpec, Gap, OutputRead, ProcessStatus, RunResult,
    SandboxReport, Stdin, StreamCapture, Timeout,
};

use crate::policy::SandboxMode;

/// A boxed future, so that the seam can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs commands.
pub trait BashExecutor: Send + Sync {
    /// Fills in every default: absolute workdir, capped timeout, budgets. Runs nothing.
    ///
    /// # Errors
    /// When the request contradicts itself: an empty command, a NUL byte, a managed name in ordinary env.
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError>;

    /// Runs in the foreground and resolves when the command has ended.
    ///
    /// Non-zero exits, time-outs and cancellations are results. An error means that the machinery failed: unusable
    /// workdir, missing shell, already cancelled, sandbox unavailable.
    fn run(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>>;

    /// Starts in the background; no timeout applies.
    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>>;

    /// The default mode when this executor confines, `None` when it does not.
    fn sandbox_mode(&self) -> Option<SandboxMode>;

    /// A session has ended: what is kept for it, such as its private `/tmp`, is removed. Commands of it that still run
    /// keep what they have open. By default nothing is kept.
    fn end_session(&self, _session: &str) {}

    /// Kills everything that runs and waits until it is gone. Later calls fail with [`ExecError::Disposed`].
    fn dispose(&self) -> BoxFuture<'_, ()>;
}

/// A command running in the background.
pub trait BashProcess: Send + Sync {
    /// Where it stands now.
    fn status(&self) -> ProcessStatus;

    /// Resolves when it has ended and its output is collected.
    fn done(&self) -> BoxFuture<'_, Result<RunResult, ExecError>>;

    /// Output since the previous read; consecutive reads never deliver a byte twice.
    fn read_output(&self) -> OutputRead;

    /// Kills it and everything it started; `false` when it had already ended.
    fn kill(&self) -> BoxFuture<'_, bool>;

    /// The owner token it was started with.
    fn owner(&self) -> Option<&str>;

    /// Writes to its standard input, waiting while the pipe is full. Only a command started with [`Stdin::Open`] reads it.
    ///
    /// # Errors
    /// [`ExecError::Io`] when the input is not open, or the command has closed it or ended.
    fn write_input<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), ExecError>> {
        let refused = std::io::Error::from(std::io::ErrorKind::Unsupported);
        let error = ExecError::io(format!("writing {} bytes to a command that takes no input", bytes.len()), refused);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Ends its standard input: what reads it sees the end of the file.
    fn close_input(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
