//! Putting a host together: what it needs, and what it does without.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ToolHost;
use super::environment::{EnvError, EnvRegistry};
use super::host::Inner;
use super::notice::NoticeBoard;
use super::permissions::{ProtectedPaths, Unlisted};
use super::table::TaskTable;
use crate::approval::Approver;
use crate::executor::BashExecutor;

/// Puts a host together.
pub struct ToolHostBuilder {
    executor: Arc<dyn BashExecutor>,
    approver: Option<Arc<dyn Approver>>,
    protected: Arc<dyn ProtectedPaths>,
    home: Option<PathBuf>,
    state_mode: bool,
}

/// Why a host cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The managed environment has no home.
    #[error(transparent)]
    Environment(#[from] EnvError),
}

impl ToolHostBuilder {
    pub(super) fn over(executor: Arc<dyn BashExecutor>) -> Self {
        Self { executor, approver: None, protected: Arc::new(Unlisted), home: None, state_mode: false }
    }

    /// Who approves escalations. Without one they all fail, each saying so.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Which paths are protected. Without this no path can be granted by `additional_permissions`.
    #[must_use]
    pub fn protected_paths(mut self, protected: Arc<dyn ProtectedPaths>) -> Self {
        self.protected = protected;
        self
    }

    /// The harness's home, absolute: `DSH_HOME` of every command.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Adds the prompt section `env:bash-sandbox`, which states the standing mode. Off by default.
    #[must_use]
    pub fn state_mode(mut self, on: bool) -> Self {
        self.state_mode = on;
        self
    }

    /// The host.
    ///
    /// # Errors
    /// When there is no absolute home directory.
    pub fn build(self) -> Result<ToolHost, HostError> {
        let inner = Inner {
            environment: EnvRegistry::new(self.home.as_deref())?,
            executor: self.executor,
            approver: self.approver,
            protected: self.protected,
            tasks: TaskTable::default(),
            shutdown: CancellationToken::new(),
            notices: NoticeBoard::default(),
            watchers: Mutex::new(JoinSet::new()),
            state_mode: self.state_mode,
        };
        Ok(ToolHost { inner: Arc::new(inner) })
    }
}
