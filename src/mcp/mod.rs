//! The tools over the Model Context Protocol: a server for one client on one pair of streams.
//!
//! One connection is one session. Its workspace is the client's first usable root when the client offers roots, else the
//! configured one. Escalations are put to the user through the client's own prompt (elicitation); only an explicit accept
//! runs anything. When the client goes, everything that it started is killed.
//!
//! Both lifecycles of the protocol are spoken: the `initialize` handshake (revision 2025-11-25 and older), where the
//! server asks the client directly, and the one without (2026-07-28), where a call that needs the user's answer returns
//! `input_required` and the client calls again.
//!
//! What a client can make the server hold is bounded: the size of a message, the number and size of requests in flight,
//! the commands that run at once, and answers that nobody reads.

mod approve;
mod budget;
mod call;
mod connection;
mod convert;
mod handler;
mod line;
mod notices;
mod progress;
mod roots;
mod rounds;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::approval::Approver;
use crate::executor::BashExecutor;
use crate::session::SessionError;
use crate::tool::{HostError, ProtectedPaths};
use connection::Connection;
use handler::Handler;
use transport::Lines;

/// How long the last answers may take to get out once everything is killed.
const FLUSH: Duration = Duration::from_millis(200);

/// Puts an approver around, or ahead of, another.
pub type Mount = Box<dyn FnOnce(Arc<dyn Approver>) -> Arc<dyn Approver> + Send>;

/// What a server is set up with.
pub struct McpOptions {
    /// The workspace of a client that offers no usable root.
    pub workspace: PathBuf,
    /// Which paths are protected; see [`ToolHost`](crate::tool::ToolHost).
    pub protected: Arc<dyn ProtectedPaths>,
    /// Directory in which the session's log is kept while the connection lasts.
    pub state_root: PathBuf,
    /// The harness's home; `None` derives it from the environment.
    pub home: Option<PathBuf>,
    /// How long a question to the user stands before it is withdrawn.
    pub question_timeout: Duration,
    /// Puts something around, or ahead of, the approver that asks the user: rules that decide first, a record.
    pub mount: Option<Mount>,
    /// How often a running command is reported to a client that asked for progress.
    pub progress_every: Duration,
}

impl McpOptions {
    /// Every default: questions stand for ten minutes, progress comes every two seconds.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>, protected: Arc<dyn ProtectedPaths>) -> Self {
        Self {
            workspace: workspace.into(),
            protected,
            state_root: std::env::temp_dir(),
            home: None,
            question_timeout: Duration::from_secs(600),
            mount: None,
            progress_every: Duration::from_secs(2),
        }
    }
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The tools cannot be mounted.
    #[error(transparent)]
    Host(#[from] HostError),
    /// There is no place for the session's log.
    #[error("no directory for the session's log in {root}: {source}; set TMPDIR to a writable directory")]
    StateRoot {
        /// Where it was to be.
        root: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The session's log cannot be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Serves one client until it goes or `stop` fires, then kills everything that still runs and disposes of the executor.
///
/// Nothing but protocol messages is written to `output`.
///
/// # Errors
/// When the server cannot be set up. A client that breaks the protocol gets its errors as messages.
pub async fn serve<R, W>(
    executor: Arc<dyn BashExecutor>,
    options: McpOptions,
    input: R,
    output: W,
    stop: CancellationToken,
) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let connection = Arc::new(Connection::new(executor, options)?);
    let gone = stop.child_token();
    let lines = Lines::new(input, output, Arc::clone(&connection.budget), gone.clone());
    let handler = Handler::new(Arc::clone(&connection));
    let serving = async {
        match rmcp::service::serve_server_with_ct(handler, lines, stop.child_token()).await {
            Ok(running) => match running.waiting().await {
                Ok(reason) => tracing::debug!(?reason, "connection ended"),
                Err(error) => tracing::error!(%error, "the connection's task panicked"),
            },
            Err(error) => tracing::debug!(%error, "connection ended before it began"),
        }
    };
    tokio::pin!(serving);
    let served = tokio::select! {
        () = &mut serving => true,
        () = gone.cancelled() => false,
    };
    connection.end().await;
    if !served && tokio::time::timeout(FLUSH, serving).await.is_err() {
        tracing::debug!("the client does not read its last answers");
    }
    Ok(())
}
