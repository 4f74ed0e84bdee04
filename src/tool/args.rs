//! The arguments of the tools: what a model may say, read tolerantly, and the schema of it.
//!
//! Environment and standard input are not among them and never will be: a key that is not named here is ignored.

#![forbid(unsafe_code)]

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::policy::SandboxMode;

/// Names of the arguments that exist only where the executor confines.
pub(super) const ESCALATION_KEYS: [&str; 3] = ["sandbox_permissions", "justification", "additional_permissions"];

/// The kernel takes no longer single argument (`MAX_ARG_STRLEN`, 32 pages, with its NUL), and `bash -c` passes the
/// command as one.
const COMMAND_MAX: usize = 131_071;

/// Longest justification, bytes: one sentence that a person can read in a prompt.
const JUSTIFICATION_MAX: usize = 2_000;

// Comments on the variants below would turn the plain enum of the schema into a list of constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum WiderMode {
    WorkspaceWrite,
    DangerFullAccess,
}

impl From<WiderMode> for SandboxMode {
    fn from(mode: WiderMode) -> Self {
        match mode {
            WiderMode::WorkspaceWrite => Self::WorkspaceWrite,
            WiderMode::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

/// Permissions for this one call on top of its mode: the narrow alternative to sandbox_permissions, and exclusive with
/// it. Needs justification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct AdditionalPermissions {
    /// Absolute paths to make writable, each with everything beneath it.
    pub write: Option<Vec<String>>,
    /// Absolute paths to make readable, each with everything beneath it.
    pub read: Option<Vec<String>>,
    /// Hosts to let through, as host or host:port.
    pub network: Option<Vec<String>>,
}

impl AdditionalPermissions {
    /// True when nothing is asked for: empty, missing and null all mean none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [&self.write, &self.read, &self.network].into_iter().flatten().all(Vec::is_empty)
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct BashArgs {
    /// The command, run by bash -c in a fresh shell. Nothing carries over from earlier calls: set the directory with
    /// workdir, not cd.
    pub(super) command: String,
    /// What the command does, in one active-voice line of 5-10 words. Shown to the user; no effect on execution.
    pub(super) description: String,
    /// Time limit in milliseconds. Without it the default applies; a cap always does.
    #[serde(rename = "timeoutMs")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(super) timeout_ms: Option<f64>,
    /// Directory to run in; a relative one is taken from the session's directory, which is also the default.
    pub(super) workdir: Option<String>,
    /// Start the command, return a task id at once, and let it run on without a time limit. Read it with bash_output.
    pub(super) run_in_background: Option<bool>,
    /// The wider mode that this exact command needs after a denial: the narrowest that suffices. Needs justification,
    /// and the user's approval before anything runs.
    pub(super) sandbox_permissions: Option<WiderMode>,
    /// One sentence for the user: why this exact command needs the wider access. Required with sandbox_permissions or
    /// additional_permissions, and only then.
    pub(super) justification: Option<String>,
    pub(super) additional_permissions: Option<AdditionalPermissions>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct TaskArgs {
    /// The task id that bash returned when it started the command in the background, such as bash-3.
    pub(super) task_id: String,
}

impl BashArgs {
    /// Reads the arguments of a `bash` call; `advertised` tells whether the escalation keys exist at all.
    pub(super) fn read(mut args: Value, advertised: bool) -> Result<Self, String> {
        if let (false, Some(object)) = (advertised, args.as_object_mut()) {
            for key in ESCALATION_KEYS {
                object.remove(key);
            }
        }
        let read: Self = deserialize(args)?;
        if read.command.trim().is_empty() {
            return Err("invalid command: expected a non-empty string".to_owned());
        }
        if read.command.len() > COMMAND_MAX {
            return Err(format!(
                "invalid command: {} bytes are more than the kernel passes to a shell ({COMMAND_MAX}); write a script file in steps and run that",
                read.command.len()
            ));
        }
        if read.description.trim().is_empty() {
            return Err("invalid description: expected a non-empty string".to_owned());
        }
        if read.justification.as_ref().is_some_and(|why| why.len() > JUSTIFICATION_MAX) {
            return Err(format!("invalid justification: expected one sentence, at most {JUSTIFICATION_MAX} bytes"));
        }
        read.timeout()?;
        Ok(read)
    }

    /// The time limit asked for.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, String> {
        let Some(ms) = self.timeout_ms else { return Ok(None) };
        if !ms.is_finite() || ms <= 0.0 {
            return Err(format!("invalid timeoutMs: expected a positive number, got {ms}"));
        }
        // Beyond what a Duration holds the executor's cap decides anyway.
        Ok(Some(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX)))
    }
}

impl TaskArgs {
    pub(super) fn read(args: Value) -> Result<Self, String> {
        let read: Self = deserialize(args)?;
        if read.task_id.trim().is_empty() {
            return Err("invalid task_id: expected a non-empty string".to_owned());
        }
        Ok(read)
    }
}

fn deserialize<T: DeserializeOwned>(args: Value) -> Result<T, String> {
    if !args.is_object() {
        return Err("invalid arguments: expected an object".to_owned());
    }
    serde_path_to_error::deserialize(args).map_err(|error| match error.path().to_string().as_str() {
        "." => format!("invalid arguments: {}", error.inner()),
        path => format!("invalid {path}: {}", error.inner()),
    })
}
