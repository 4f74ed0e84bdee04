//! Cards: how a user interface may show a call and its result. Pure, and tolerant of whatever an old log holds, because
//! they also serve replays.

#![forbid(unsafe_code)]

use serde::Serialize;
use serde_json::Value;

use super::marker::parse_exit_status;
use super::{BASH, BASH_KILL, BASH_OUTPUT};
use crate::session::ExitStatus;

/// How a pending call may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "card", rename_all = "lowercase")]
pub enum CallCard {
    /// A terminal: a command in the foreground.
    Terminal {
        /// The exact command.
        title: String,
        /// What it does, for display above the terminal.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The workdir as given; a relative one is to be resolved against the session's directory, which is also what
        /// an absent one means.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// Anything else.
    #[serde(rename_all = "camelCase")]
    Generic {
        /// A line that names it.
        title: String,
        /// The kind of action: always `execute`.
        kind: &'static str,
        /// The command or the task id.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw_input: Option<String>,
        /// Text blocks.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<CardContent>,
    },
}

/// How a result may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "card", rename_all = "lowercase")]
pub enum ResultCard {
    /// The terminal's content and how its process ended.
    #[serde(rename_all = "camelCase")]
    Terminal {
        /// A new title, when it changes.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Raw output, line breaks as they were.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// Exit code, when it exited.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Ending signal, when one ended it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
    /// Text; there is no process exit to show.
    Generic {
        /// A new title, when it changes.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Text blocks.
        content: Vec<CardContent>,
    },
}

/// A block of a generic card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum CardContent {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
}

/// The card of a call.
#[must_use]
pub fn present_call(tool: &str, args: &Value) -> CallCard {
    let args = object(args);
    let generic = |title: String, raw_input: Option<String>, content: Option<String>| CallCard::Generic {
        title,
        kind: "execute",
        raw_input,
        content: content.into_iter().map(|text| CardContent::Text { text }).collect(),
    };
    let task = |verb: &str, tool: &str| match text(&args, "task_id") {
        Some(id) => generic(format!("{verb} background task {id}"), Some(id), None),
        None => generic(tool.to_owned(), None, None),
    };
    match tool {
        BASH => match (text(&args, "command"), is_background(&args)) {
            (Some(title), false) => {
                CallCard::Terminal { title, description: text(&args, "description"), cwd: text(&args, "workdir") }
            }
            (Some(command), true) => generic(command.clone(), Some(command), text(&args, "description")),
            (None, _) => generic(BASH.to_owned(), None, text(&args, "description")),
        },
        BASH_OUTPUT => task("Read output from", BASH_OUTPUT),
        BASH_KILL => task("Kill", BASH_KILL),
        other => generic(other.to_owned(), None, None),
    }
}

/// The card of a result. `status` is what the log kept beside the text; the text is parsed only without it.
#[must_use]
pub fn present_result(tool: &str, args: &Value, text: &str, is_error: bool, status: Option<&ExitStatus>) -> ResultCard {
    let pending = present_call(tool, args);
    if is_error || !matches!(pending, CallCard::Terminal { .. }) {
        return ResultCard::Generic { title: None, content: vec![CardContent::Text { text: text.to_owned() }] };
    }
    let (exit_code, signal) = match status.cloned().unwrap_or_else(|| parse_exit_status(text)) {
        ExitStatus::ExitCode(code) => (Some(code), None),
        ExitStatus::Signal(name) => (None, Some(name)),
    };
    ResultCard::Terminal { title: None, output: Some(text.to_owned()), exit_code, signal }
}

/// Arguments as an object; older logs hold them as JSON text.
fn object(args: &Value) -> Value {
    match args {
        Value::String(raw) => serde_json::from_str(raw).unwrap_or(Value::Null),
        other => other.clone(),
    }
}

fn text(args: &Value, key: &str) -> Option<String> {
    args.get(key)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn is_background(args: &Value) -> bool {
    args.get("run_in_background").and_then(Value::as_bool).unwrap_or(false)
}
