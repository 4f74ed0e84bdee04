//! Sections for the system prompt: what no single tool description can carry.

#![forbid(unsafe_code)]

use serde::Serialize;

use crate::policy::SandboxMode;

/// One section; sections are put together in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptSection {
    /// A stable name.
    pub id: &'static str,
    /// Its place among the others.
    pub order: u32,
    /// The text.
    pub text: String,
}

const HABIT: &str = "\
Look at how every bash result ends before going on. [exit code: N] means that the command failed, [killed by signal: \
NAME] and [timed out after Nms] that it did not finish: find out why before building on it. A result without such a \
marker succeeded.";

pub(super) fn tool_section() -> PromptSection {
    PromptSection { id: "tool:bash", order: 105, text: HABIT.to_owned() }
}

/// Of every mode that confines.
const NETWORK: &str = "the network is off unless allowed, but a server that one of them leaves running in the background \
is on 127.0.0.1 for the next";

/// States the standing mode. Off by default: a model that is told of a boundary tends to refuse before it has met it,
/// and a denial names the mode anyway.
pub(super) fn mode_section(mode: SandboxMode) -> PromptSection {
    let what = match mode {
        SandboxMode::ReadOnly => {
            format!("they can read this machine (secrets excepted) and write only to a private /tmp; {NETWORK}")
        }
        SandboxMode::WorkspaceWrite => {
            format!(
                "they can read this machine (secrets excepted) and write in the session's directory (protected paths \
                 excepted) and a private /tmp; {NETWORK}"
            )
        }
        SandboxMode::DangerFullAccess => "they are not confined".to_owned(),
    };
    let text = format!(
        "Commands of this session run under {mode} mode: {what}. Try what the task needs all the same: when policy refuses something the result says so, and what can be done."
    );
    PromptSection { id: "env:bash-sandbox", order: 110, text }
}
