//! The events of a session, as they stand in its log: one JSON object a line.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::SessionId;
use crate::denial::{Denial, Grant};
use crate::policy::SandboxMode;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Position in the log, from 1, without gaps.
    pub seq: u64,
    /// When it was written, milliseconds since 1970 UTC.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: SessionEvent,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum SessionEvent {
    /// The first event of every log.
    #[serde(rename = "session/opened")]
    Opened {
        /// Version of the log's format.
        version: u32,
        /// The session.
        id: SessionId,
        /// Its canonical working directory.
        cwd: PathBuf,
    },
    /// A torn last line was cut off when the log was opened.
    #[serde(rename = "session/recovered")]
    Recovered {
        /// How many bytes were cut off.
        dropped: u64,
    },
    /// The standing mode was set.
    #[serde(rename = "sandbox/mode")]
    SandboxMode {
        /// The mode from here on.
        mode: SandboxMode,
    },
    /// A person, or a rule in their name, was asked.
    #[serde(rename = "approval/asked")]
    ApprovalAsked {
        /// Number of the question in this session, from 1.
        ask: u64,
        /// What was asked for.
        #[serde(flatten)]
        escalation: Escalation,
    },
    /// The answer.
    #[serde(rename = "approval/answered")]
    ApprovalAnswered {
        /// Which question.
        ask: u64,
        /// What it was.
        answer: Answer,
    },
    /// Refused escalations may be asked again.
    #[serde(rename = "approval/lifted")]
    RefusalsLifted,
    /// The model called a tool.
    #[serde(rename = "tool/call")]
    ToolCall {
        /// Number of the call in this session, from 1.
        call: u64,
        /// Name of the tool.
        tool: String,
        /// The arguments as the model gave them.
        args: serde_json::Value,
    },
    /// What the call came to.
    #[serde(rename = "tool/result")]
    ToolResult {
        /// Which call.
        call: u64,
        /// The outcome.
        #[serde(flatten)]
        outcome: CallOutcome,
    },
    /// An event of a newer version; it changes nothing here.
    #[serde(other, rename = "unknown")]
    Unknown,
}

/// What an approver was asked, as logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// Number of the call that asks.
    pub call: u64,
    /// The exact command.
    pub command: String,
    /// Where it would run.
    pub workdir: Option<PathBuf>,
    /// The mode it would run under otherwise.
    pub from: SandboxMode,
    /// The wider mode asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<SandboxMode>,
    /// The extra permissions asked for.
    #[serde(skip_serializing_if = "Grant::is_empty", default)]
    pub extra: Grant,
    /// Why, in the model's words.
    pub justification: String,
}

/// The answer to an escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Yes, for this one call.
    AllowedOnce,
    /// No.
    Rejected,
    /// The question was withdrawn before it was answered.
    Cancelled,
    /// Nobody could be asked.
    Unavailable,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExitStatus {
    /// It exited with this code.
    ExitCode(i32),
    /// This signal ended it (`SIGKILL`).
    Signal(String),
}

/// What a call came to, as logged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallOutcome {
    /// What the model was told.
    pub text: String,
    /// True when the call itself failed.
    pub is_error: bool,
    /// How the process ended, kept beside the text so that nobody has to read it out of the text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<ExitStatus>,
    /// The background task that was started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// The denied run that the result reports, when it reports one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub denied: Option<DeniedRun>,
}

/// A run that the sandbox refused something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedRun {
    /// The command.
    pub command: String,
    /// The mode it ran under.
    pub mode: SandboxMode,
    /// Its blocking denials, at most twenty.
    pub denials: Vec<Denial>,
}
