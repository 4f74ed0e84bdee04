//! Approval: asking, before anything runs, whether one call may go further than its mode allows.
//!
//! An [`Approver`] answers one [`ApprovalRequest`] with one [`ApprovalOutcome`]. Only
//! [`AllowedOnce`](ApprovalOutcome::AllowedOnce) lets anything run, and it holds for that call alone; whatever goes
//! wrong on the way to an answer is not a yes. Two approvers come along: [`TerminalApprover`] asks on the controlling
//! terminal, [`RuleApprover`] decides by written rules and hands the rest on.

mod escape;
mod question;
mod rules;
mod terminal;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use escape::{escape_block, escape_line};
pub use question::question;
pub use rules::{ApprovalRules, Rule, RuleApprover, RuleDecision, RulesError};
pub use terminal::TerminalApprover;

use crate::denial::{Denial, Grant};
use crate::policy::SandboxMode;

/// The future of an answer.
pub type ApprovalFuture<'a> = Pin<Box<dyn Future<Output = ApprovalOutcome> + Send + 'a>>;

/// Somebody, or something, that can say yes.
pub trait Approver: Send + Sync {
    /// Answers one request.
    ///
    /// When `cancel` fires the question is withdrawn: take the prompt away and resolve soon; the caller no longer waits,
    /// and a late yes counts for nothing. The future may also be dropped at any time.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a>;

    /// False when a question that is asked now would certainly be answered with [`ApprovalOutcome::Unavailable`]: then a
    /// model is not told that it may ask.
    fn reachable(&self) -> bool {
        true
    }
}

/// What an approver needs in order to decide. Its texts come from a model: escape them before showing them
/// ([`escape_line`], [`escape_block`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Name of the tool.
    pub tool: String,
    /// Id of the session that asks.
    pub session: String,
    /// The session's workspace: what `workspace-write` would open.
    pub workspace: PathBuf,
    /// The exact command that would run.
    pub command: String,
    /// Where it would run; `None` leaves it to the executor.
    pub workdir: Option<PathBuf>,
    /// True when it would go on running in the background, without a time limit.
    pub background: bool,
    /// The mode it would run under otherwise.
    pub mode: SandboxMode,
    /// What is asked for.
    pub asks: Asks,
    /// Why, in the model's words.
    pub justification: String,
    /// The blocking denials this rests on: those of the same command when it was tried, else the session's most recent.
    /// Empty when nothing was denied yet.
    pub grounds: Vec<Denial>,
}

/// The two ways to go further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Asks {
    /// This wider mode.
    Mode(SandboxMode),
    /// These permissions on top of the mode, in canonical form.
    Extra {
        /// The complete list, exactly what the call will get.
        grant: Grant,
        /// Protected paths among them: what is written there can make other programs run code later.
        protected: Vec<PathBuf>,
    },
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// Yes, for this one call.
    AllowedOnce,
    /// No.
    Rejected {
        /// Why, when a reason was given.
        reason: Option<String>,
    },
    /// The question was withdrawn before it was answered.
    Cancelled,
    /// Nobody could be asked.
    Unavailable {
        /// Why not.
        reason: String,
    },
}
