//! What one connection is: its tools, its session, its bounds.

#![forbid(unsafe_code)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::approve::approver;
use super::budget::Budget;
use super::notices::Notices;
use super::rounds::Rounds;
use super::{McpError, McpOptions};
use crate::executor::BashExecutor;
use crate::session::{Session, SessionError, SessionId, SessionStore};
use crate::tool::{Attachment, ToolHost};

/// The state of one connection.
pub(super) struct Connection {
    pub(super) tools: ToolHost,
    pub(super) budget: Arc<Budget>,
    pub(super) rounds: Rounds,
    pub(super) notices: Arc<Notices>,
    pub(super) progress_every: Duration,
    session: OnceCell<Arc<Session>>,
    store: SessionStore,
    workspace: PathBuf,
    attachment: Mutex<Option<Attachment>>,
    /// Removed with the connection: the session ends with it.
    state: Mutex<Option<TempDir>>,
}

impl Connection {
    pub(super) fn new(executor: Arc<dyn BashExecutor>, options: McpOptions) -> Result<Self, McpError> {
        let McpOptions { workspace, protected, state_root, home, question_timeout, mount, progress_every } = options;
        let asks_user = approver(question_timeout);
        let approver = match mount {
            Some(mount) => mount(asks_user),
            None => asks_user,
        };
        let builder = ToolHost::builder(executor).approver(approver).protected_paths(protected);
        let builder = match home {
            Some(home) => builder.home(home),
            None => builder,
        };
        let state = tempfile::Builder::new()
            .prefix("stockade-mcp-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&state_root)
            .map_err(|source| McpError::StateRoot { root: state_root, source })?;
        Ok(Self {
            tools: builder.build()?,
            budget: Arc::new(Budget::new()),
            rounds: Rounds::default(),
            notices: Arc::new(Notices::new()),
            progress_every,
            session: OnceCell::new(),
            store: SessionStore::at(state.path())?,
            workspace,
            attachment: Mutex::new(None),
            state: Mutex::new(Some(state)),
        })
    }

    /// The session, once it is open.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// Opens the session, unless it is: in the client's root when it has a usable one. From then on the workspace stays.
    pub(super) async fn open(&self, root: Option<PathBuf>) -> Result<&Arc<Session>, SessionError> {
        self.session
            .get_or_try_init(|| async {
                let id = SessionId::generate();
                let session = match root {
                    Some(root) => match self.store.create(id.clone(), &root) {
                        Ok(session) => session,
                        Err(error) => {
                            tracing::warn!(root = %root.display(), %error, "the client's root cannot be used");
                            self.store.create(SessionId::generate(), &self.workspace)?
                        }
                    },
                    None => self.store.create(id, &self.workspace)?,
                };
                let attachment = self.tools.attach(session.id(), Arc::clone(&self.notices) as _);
                *self.attachment.lock().unwrap_or_else(PoisonError::into_inner) = Some(attachment);
                Ok(Arc::new(session))
            })
            .await
    }

    /// Withdraws questions, kills everything, disposes of the executor.
    pub(super) async fn end(&self) {
        self.rounds.clear();
        self.notices.end();
        self.tools.dispose().await;
        // Requests that were under way may keep the connection itself a moment longer.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = state.map(TempDir::close) {
            tracing::warn!(%error, "the session's directory could not be removed");
        }
    }
}
