//! How a confined executor is set up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::{EnvironmentPolicy, Variables};
use crate::executor::{CallPolicy, ExecError};
use crate::launcher::LauncherPath;
use crate::output::{DEFAULT_TAIL_BYTES, SPILL_CAP};
use crate::plan::{BackendChoice, Fault};
use crate::policy::EffectivePolicy;

/// Turns the policy of a call into the effective policy of this host.
///
/// The crate's own is [`PolicyRequest`](crate::policy::PolicyRequest) with the layers of the command line; a host program
/// may bring another.
pub trait PolicySource: Send + Sync {
    /// The policy of a call that names none.
    fn standing(&self) -> CallPolicy;

    /// Resolves a policy against the host as it is now.
    ///
    /// # Errors
    /// [`ExecError::Policy`] or [`ExecError::Workspace`], with the remedy.
    fn effective(&self, call: &CallPolicy) -> Result<EffectivePolicy, ExecError>;

    /// The same, from memory where the source can tell that nothing has changed since.
    ///
    /// # Errors
    /// As [`effective`](Self::effective).
    fn shared(&self, call: &CallPolicy) -> Result<Arc<EffectivePolicy>, ExecError> {
        self.effective(call).map(Arc::new)
    }

    /// True when the source can tell at little cost that deciding `policy` again would look at the very same files: then
    /// nothing of what it protects has appeared or changed since.
    fn is_unchanged(&self, _policy: &Arc<EffectivePolicy>) -> bool {
        false
    }
}

/// Whether refused calls are witnessed by the trace supervisor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceChoice {
    /// Where the kernel lets it; an untraced run says so in its notes.
    #[default]
    Auto,
    /// Always; a run that cannot be traced fails.
    On,
    /// Never.
    Off,
}

/// Whether the kernel's audit records are a witness too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditChoice {
    /// Where they may be read and auditing is on already. Nothing of the host is changed.
    #[default]
    Auto,
    /// Always: auditing is turned on for the whole host and off again at the end, however that comes about. A run whose
    /// records cannot be read fails.
    On,
    /// Never.
    Off,
}

/// How a [`SandboxedExecutor`](super::SandboxedExecutor) confines and runs commands.
#[derive(Clone)]
pub struct SandboxedConfig {
    /// Where policies come from.
    pub policy: Arc<dyn PolicySource>,
    /// Where commands start that name no workdir; `None` for the workspace of the standing policy.
    pub workdir: Option<PathBuf>,
    /// Time limit of a foreground run that names none.
    pub default_timeout: Option<Duration>,
    /// Longest time limit of a foreground run; `None` for no cap.
    pub max_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// In-memory budget of standard output, bytes; a request may name its own.
    pub stdout_bytes: usize,
    /// In-memory budget of standard error, bytes.
    pub stderr_bytes: usize,
    /// Directory to make the executor's own directory in: spill files and the sessions' `/tmp`.
    pub state_root: PathBuf,
    /// Largest spill of one stream, bytes.
    pub spill_cap: u64,
    /// Leave complete spill files behind for the caller to remove, instead of removing them with the executor.
    pub keep_spills: bool,
    /// What of the inherited environment reaches commands.
    pub environment: EnvironmentPolicy,
    /// The inherited environment; `None` for this process's at construction.
    pub inherited: Option<Variables>,
    /// The bash to use; `None` for the first on PATH.
    pub shell: Option<PathBuf>,
    /// Refuse to run below full enforcement.
    pub require_full: bool,
    /// Record refusals as the kernel sees them.
    pub trace: TraceChoice,
    /// Read what the kernel's audit says of refusals.
    pub audit: AuditChoice,
    /// Which backend to use.
    pub backend: BackendChoice,
    /// Where the launcher is.
    pub launcher: LauncherPath,
    /// A stage that is to fail in every sandbox, to prove that a failure there stops the command.
    pub fault: Option<Fault>,
}

impl SandboxedConfig {
    /// Every default, with policies from `policy`.
    #[must_use]
    pub fn new(policy: Arc<dyn PolicySource>) -> Self {
        Self {
            policy,
            workdir: None,
            default_timeout: Some(Duration::from_secs(120)),
            max_timeout: Some(Duration::from_secs(600)),
            grace: Duration::from_secs(3),
            stdout_bytes: DEFAULT_TAIL_BYTES,
            stderr_bytes: DEFAULT_TAIL_BYTES,
            state_root: std::env::temp_dir(),
            spill_cap: SPILL_CAP,
            keep_spills: false,
            environment: EnvironmentPolicy::default(),
            inherited: None,
            shell: None,
            require_full: false,
            trace: TraceChoice::Auto,
            audit: AuditChoice::Auto,
            backend: BackendChoice::Auto,
            launcher: LauncherPath::Auto,
            fault: None,
        }
    }
}
