//! The vocabulary of the seam: request, spec, result.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::denial::{Denial, Grant};
pub use crate::output::StreamCapture;
use crate::policy::SandboxMode;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// One string for `bash -c`, without rc files.
    Shell(String),
    /// A program and its arguments, looked up on the command's own PATH. No shell is involved.
    Program(Vec<OsString>),
}

/// What the command reads on standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// What [`BashProcess::write_input`](super::BashProcess::write_input) brings while it runs in the background, until
    /// [`close_input`](super::BashProcess::close_input). Nothing in the foreground.
    Open,
    /// This process's own standard input, for programs that wrap one command.
    Inherit,
}

/// How long a command may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timeout {
    /// The executor's default (and never more than its cap).
    #[default]
    Default,
    /// This long (and never more than the executor's cap).
    After(Duration),
    /// No limit. An executor with a cap applies the cap to foreground runs.
    None,
}

/// The complete policy of one call: it replaces the executor's own for that call alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPolicy {
    /// The mode.
    pub mode: SandboxMode,
    /// The root that `workspace-write` may write under. It comes from the session, never from the call's own workdir.
    pub workspace: PathBuf,
    /// Narrow permissions approved for this call.
    pub extra: Grant,
    /// Key of the session whose private `/tmp` the call shares, and whose loopback with calls of the very same policy;
    /// `None` gives it its own of both.
    pub session: Option<String>,
}

/// One thing to run, with everything optional left to the executor.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// What to run.
    pub command: CommandLine,
    /// Where; a relative path is resolved against the executor's default workdir.
    pub workdir: Option<PathBuf>,
    /// How long.
    pub timeout: Timeout,
    /// Capture budget of standard output in bytes, for consumers that must parse complete output. Trusted callers only.
    pub stdout_max_bytes: Option<usize>,
    /// Cancels the run.
    pub cancel: Option<CancellationToken>,
    /// Standard input.
    pub stdin: Stdin,
    /// Extra environment. Managed `DSH_*` names are refused here.
    pub env: BTreeMap<OsString, OsString>,
    /// Managed environment: `DSH_*` names only, merged last.
    pub managed_env: BTreeMap<String, String>,
    /// Policy of this call; `None` takes the executor's own. An executor that confines nothing carries it and ignores it.
    pub policy: Option<CallPolicy>,
    /// Token of the session that owns the run, carried to the process handle.
    pub owner: Option<String>,
}

impl ExecRequest {
    /// A request with every default.
    #[must_use]
    pub fn new(command: CommandLine) -> Self {
        Self {
            command,
            workdir: None,
            timeout: Timeout::Default,
            stdout_max_bytes: None,
            cancel: None,
            stdin: Stdin::Empty,
            env: BTreeMap::new(),
            managed_env: BTreeMap::new(),
            policy: None,
            owner: None,
        }
    }

    /// A `bash -c` request with every default.
    #[must_use]
    pub fn shell(command: impl Into<String>) -> Self {
        Self::new(CommandLine::Shell(command.into()))
    }
}

/// A request with every default filled in. Only an executor's `resolve` makes one.
#[derive(Debug, Clone)]
pub struct ExecSpec {
    /// What to run.
    pub command: CommandLine,
    /// Absolute directory to start in.
    pub workdir: PathBuf,
    /// Foreground time limit; `None` for no limit.
    pub timeout: Option<Duration>,
    /// In-memory budget of standard output, bytes.
    pub stdout_max_bytes: usize,
    /// Cancels the run.
    pub cancel: Option<CancellationToken>,
    /// Standard input.
    pub stdin: Stdin,
    /// Extra environment, already checked for managed names.
    pub env: BTreeMap<OsString, OsString>,
    /// Managed environment, already checked to hold managed names only.
    pub managed_env: BTreeMap<String, String>,
    /// Policy of this call.
    pub policy: Option<CallPolicy>,
    /// Owner token.
    pub owner: Option<String>,
}

/// How much of what the mode promises is in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// Nothing is promised or nothing is enforced.
    None,
    /// Some promises are kept; the gaps name the others.
    Partial,
    /// Every promise is kept.
    Full,
}

/// A promise that is not kept on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// Mode, owner, times and attributes of files can be changed.
    Metadata,
    /// Protected paths inside a writable root can be changed.
    ProtectedPaths,
    /// Masked paths can be read.
    DenyRead,
    /// Datagrams can leave.
    NetworkUdp,
    /// There is no private network: loopback servers do not work or the host's loopback is reachable.
    NetworkIsolation,
    /// Unix sockets of the host can be reached.
    UnixSockets,
    /// Processes outside can be seen, or outlive the run.
    ProcessIsolation,
    /// Files can be truncated.
    Truncate,
    /// Device requests are not filtered.
    Ioctl,
    /// Resource limits asked for are not enforced.
    Limits,
}

impl Gap {
    /// The contract's name of the gap.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::ProtectedPaths => "protected-paths",
            Self::DenyRead => "deny-read",
            Self::NetworkUdp => "network-udp",
            Self::NetworkIsolation => "network-isolation",
            Self::UnixSockets => "unix-sockets",
            Self::ProcessIsolation => "process-isolation",
            Self::Truncate => "truncate",
            Self::Ioctl => "ioctl",
            Self::Limits => "limits",
        }
    }
}

/// What a confining executor says of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The mode it ran under.
    pub mode: SandboxMode,
    /// What was enforced.
    pub enforcement: Enforcement,
    /// Promises not kept.
    pub gaps: Vec<Gap>,
    /// True when at least one denial is blocking.
    pub denied: bool,
    /// The refused accesses, at most 200.
    pub denials: Vec<Denial>,
    /// How many more were refused than are listed.
    #[serde(skip_serializing_if = "is_zero", default, rename = "denialsOmitted")]
    pub denials_omitted: u64,
    /// Facts about the policy and the workspace that are not denials: missing rule paths, protected names that appeared.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands skip_serializing_if a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Name of the ending signal (`SIGKILL`).
    pub signal: Option<String>,
    /// The executor's timer fired first.
    pub timed_out: bool,
    /// Cancellation came first.
    pub aborted: bool,
    /// The time limit in force, milliseconds; 0 when there was none.
    pub timeout_ms: u64,
    /// Wall time from start to the end of the command, milliseconds.
    pub duration_ms: f64,
    /// Standard output.
    pub stdout: StreamCapture,
    /// Standard error.
    pub stderr: StreamCapture,
    /// What the sandbox says; absent from an executor that does not confine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sandbox: Option<SandboxReport>,
}

/// Where a started process stands.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessStatus {
    /// Still running.
    Running,
    /// Ended; the result is complete.
    Settled(Box<RunResult>),
    /// The machinery under it failed before the command could end on its own account.
    Failed(String),
}

/// Output since the previous read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputRead {
    /// New standard output.
    pub stdout: String,
    /// New standard error.
    pub stderr: String,
    /// Some output was dropped from memory before it could be read.
    pub lossy: bool,
    /// The complete standard output, when a complete file exists.
    pub stdout_spill: Option<PathBuf>,
    /// The complete standard error, when a complete file exists.
    pub stderr_spill: Option<PathBuf>,
}
