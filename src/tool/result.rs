//! What a call comes to: the text for the model, and the typed value beside it.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde::Serialize;

use super::ResultCard;
use crate::executor::{RunResult, SandboxReport};
use crate::session::ExitStatus;

/// The outcome of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// What the model reads.
    pub text: String,
    /// The same as a value; it serialises to one JSON object.
    pub structured: ToolOutput,
    /// The call failed. A command that fails is a result, not an error.
    pub is_error: bool,
    /// How a foreground process ended.
    pub status: Option<ExitStatus>,
    /// How a user interface may show it.
    pub card: ResultCard,
}

/// The typed value of a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToolOutput {
    /// A command ran in the foreground.
    Run(Box<RunResult>),
    /// A command was started in the background.
    #[serde(rename_all = "camelCase")]
    Started {
        /// Its task id.
        task_id: String,
    },
    /// A background task was read.
    Read(Box<TaskRead>),
    /// A kill was asked for.
    #[serde(rename_all = "camelCase")]
    Kill {
        /// The task.
        task_id: String,
        /// False when it had already finished.
        killed: bool,
    },
    /// The call failed.
    Failure {
        /// Why, for programs.
        code: FailureCode,
        /// Why, for the model.
        message: String,
        /// What had run until then, when something had.
        #[serde(skip_serializing_if = "Option::is_none")]
        run: Option<Box<RunResult>>,
    },
}

/// What a read of a background task delivers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRead {
    /// The task.
    pub task_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// New standard output.
    pub stdout: String,
    /// New standard error.
    pub stderr: String,
    /// Some output was dropped before it could be read.
    pub lossy: bool,
    /// The complete standard output on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_spill: Option<PathBuf>,
    /// The complete standard error on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_spill: Option<PathBuf>,
    /// What the sandbox says of it, once it has settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxReport>,
}

/// Where a background task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TaskStatus {
    /// It runs.
    Running,
    /// It exited.
    #[serde(rename_all = "camelCase")]
    Completed {
        /// With this code.
        exit_code: i32,
    },
    /// A signal ended it.
    Killed {
        /// Its name, where known.
        signal: Option<String>,
    },
    /// The machinery under it failed.
    Failed {
        /// How.
        reason: String,
    },
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Completed { exit_code } => write!(f, "completed, exit code: {exit_code}"),
            Self::Killed { signal: Some(signal) } => write!(f, "killed by {}", crate::approval::escape_line(signal)),
            Self::Killed { signal: None } => f.write_str("killed"),
            Self::Failed { reason } => write!(f, "failed: {}", crate::approval::escape_line(reason)),
        }
    }
}

/// Why a call failed, in a word for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCode {
    /// There is no such tool.
    UnknownTool,
    /// The arguments cannot be used.
    InvalidArguments,
    /// The escalation asks for nothing wider.
    NotWider,
    /// The extra permissions cannot be granted.
    Permissions,
    /// The same escalation was refused before.
    RefusedBefore,
    /// The approver said no.
    Rejected,
    /// The question was withdrawn.
    Cancelled,
    /// Nobody could be asked.
    Unavailable,
    /// No approver is mounted.
    NoApprover,
    /// The call belongs to no session.
    NoSession,
    /// The managed environment could not be computed.
    Environment,
    /// The session's log cannot be written.
    SessionLog,
    /// The executor could not run the command.
    Executor,
    /// The call was cancelled while the command ran.
    Aborted,
    /// There is no such task.
    UnknownTask,
    /// The task is another session's.
    ForeignTask,
}

/// A failure on its way to becoming a result.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: FailureCode,
    pub(super) message: String,
    pub(super) run: Option<Box<RunResult>>,
}

impl Failure {
    pub(super) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), run: None }
    }
}
