//! What is to be verified, and what can go wrong with that.

#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::environment::EnvironmentPolicy;
use crate::executor::ExecError;
use crate::launcher::LauncherPath;
use crate::plan::BackendChoice;
use crate::policy::{PolicyError, SandboxMode};
use crate::sandboxed::{AuditChoice, PolicySource, TraceChoice};

/// Makes the policies of one mode for a workspace and a home directory, in this order, that are thrown away afterwards.
/// The secrets of that home must be masked as those of the user's own are
/// ([`HostPaths::account_home`](crate::policy::HostPaths::account_home)).
pub type PolicyMaker =
    Arc<dyn Fn(SandboxMode, PathBuf, PathBuf) -> Result<Arc<dyn PolicySource>, PolicyError> + Send + Sync>;

/// What is to be verified.
#[derive(Clone)]
pub struct Options {
    /// The modes; each that confines is tried.
    pub modes: Vec<SandboxMode>,
    /// Makes the policy of each.
    pub policy: PolicyMaker,
    /// Which backend.
    pub backend: BackendChoice,
    /// Refuse to run below full enforcement.
    pub require_full: bool,
    /// Record refusals as the kernel sees them.
    pub trace: TraceChoice,
    /// Read the kernel's audit records of them.
    pub audit: AuditChoice,
    /// What of the inherited environment reaches commands.
    pub environment: EnvironmentPolicy,
    /// Where the launcher is.
    pub launcher: LauncherPath,
    /// A program whose `probe` command calls [`probe`](super::probe); `None` for this one.
    pub program: Option<PathBuf>,
    /// Where the throw-away directory is made; `None` for the first place that every sandbox sees.
    pub beneath: Option<PathBuf>,
}

impl Options {
    /// Both confining modes with policies from `policy`.
    #[must_use]
    pub fn new(policy: PolicyMaker) -> Self {
        Self {
            modes: SandboxMode::ALL.into_iter().filter(|mode| mode.confines()).collect(),
            policy,
            backend: BackendChoice::Auto,
            require_full: false,
            trace: TraceChoice::Auto,
            audit: AuditChoice::Auto,
            environment: EnvironmentPolicy::default(),
            launcher: LauncherPath::Auto,
            program: None,
            beneath: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("modes", &self.modes).field("beneath", &self.beneath).finish_non_exhaustive()
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub what: &'static str,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// There is nowhere to make the throw-away targets.
    #[error("no place for throw-away files: {tried}; name a directory outside /tmp with --workspace")]
    NoPlace {
        /// Each place, and what is wrong with it.
        tried: String,
    },
    /// The targets cannot be made.
    #[error("making throw-away targets in {}: {source}", place.display())]
    Scene {
        /// Where.
        place: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The control run, without a sandbox, failed.
    #[error("trying everything without a sandbox, for comparison: {0}")]
    Control(#[source] io::Error),
    /// The policy is wrong.
    #[error("policy: {0}")]
    Policy(#[from] PolicyError),
    /// The host could not be examined, or an executor not be made.
    #[error(transparent)]
    Executor(#[from] ExecError),
}
