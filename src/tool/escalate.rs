//! From a wish to a permit: everything that must be true before one call may run wider than its mode.
//!
//! A [`Permit`] is the only way to a wider [`CallPolicy`], it is made only here after an approver's yes is in the log,
//! and the call that asked consumes it. Every other way out is a failure with its own text, and nothing runs.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::gate::{GateError, Wanted};
use super::host::Inner;
use super::permissions::canonical_grant;
use super::result::{Failure, FailureCode};
use crate::approval::{ApprovalOutcome, ApprovalRequest, Asks};
use crate::denial::{Denial, Grant};
use crate::executor::CallPolicy;
use crate::executor::blocking::blocking;
use crate::policy::SandboxMode;
use crate::session::{Answer, Escalation, Session};

/// How many grounding denials an approver is shown.
const GROUNDS_MAX: usize = 5;

/// One call that wants more.
pub(super) struct Plea<'a> {
    pub(super) tool: &'a str,
    pub(super) call: u64,
    pub(super) command: &'a str,
    pub(super) workdir: Option<&'a Path>,
    pub(super) background: bool,
    pub(super) effective: SandboxMode,
    pub(super) wanted: Wanted,
    pub(super) justification: String,
}

/// An approved widening of one call.
#[derive(Debug)]
pub(super) struct Permit {
    asks: Asks,
    shown: SandboxMode,
}

impl Permit {
    /// The policy of the call that was approved; consumes the permit. `effective` is the mode in force now.
    pub(super) fn into_policy(self, session: &Session, effective: SandboxMode) -> CallPolicy {
        match self.asks {
            Asks::Mode(mode) => policy(session, mode, Grant::default()),
            // The mode may have been switched while the question stood: the yes was to what was shown, so the narrower
            // of the two holds.
            Asks::Extra { grant, .. } => policy(session, effective.min(self.shown), grant),
        }
    }
}

/// The policy of a call of this session under a mode. The workspace is the session's, never the call's workdir.
pub(super) fn policy(session: &Session, mode: SandboxMode, extra: Grant) -> CallPolicy {
    CallPolicy { mode, workspace: session.cwd().to_owned(), extra, session: Some(session.id().to_string()) }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        let code = match error {
            GateError::NotWider { .. } | GateError::NothingConfined => FailureCode::NotWider,
            GateError::NoJustification { .. } | GateError::NothingJustified | GateError::Both => {
                FailureCode::InvalidArguments
            }
        };
        Self::new(code, error.to_string())
    }
}

/// Asks for the permit.
pub(super) async fn escalate(
    inner: &Inner,
    session: Option<&Session>,
    plea: Plea<'_>,
    cancel: &CancellationToken,
) -> Result<Permit, Failure> {
    let Some(session) = session else {
        let text = "escalation refused: this call belongs to no session, so there is nobody to ask; nothing was run";
        return Err(Failure::new(FailureCode::NoSession, text));
    };
    let Some(approver) = inner.approver.clone() else {
        let text = "escalation refused: no approver is mounted here, so nobody can be asked; nothing was run";
        return Err(Failure::new(FailureCode::NoApprover, text));
    };
    if session.with_state(|state| state.refusal_stands(plea.command)) {
        let text = "escalation refused: it was rejected before, and a rejection is final for this command; the user was not asked again and nothing was run. Go on without it";
        return Err(Failure::new(FailureCode::RefusedBefore, text));
    }
    let asks = match &plea.wanted {
        Wanted::Mode(mode) => Asks::Mode(*mode),
        Wanted::Extra(extra) => {
            let (extra, workspace, guard) = (extra.clone(), session.cwd().to_owned(), Arc::clone(&inner.protected));
            // It looks at the disk, and a file system may take its time.
            let looked = blocking(move || canonical_grant(&extra, &workspace, guard.as_ref())).await;
            let (grant, protected) = match looked {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return Err(unusable(&error)),
                Err(error) => return Err(unusable(&error)),
            };
            Asks::Extra { grant, protected }
        }
    };
    let ask = session.record_asked(logged(&plea, &asks)).map_err(unlogged)?;
    let request = request(session, &plea, asks);
    let outcome = tokio::select! {
        biased;
        () = cancel.cancelled() => ApprovalOutcome::Cancelled,
        () = inner.shutdown.cancelled() => ApprovalOutcome::Cancelled,
        outcome = approver.ask(&request, cancel) => outcome,
    };
    session.record_answered(ask, answer(&outcome)).map_err(unlogged)?;
    match outcome {
        ApprovalOutcome::AllowedOnce => Ok(Permit { asks: request.asks, shown: plea.effective }),
        other => Err(refusal(other)),
    }
}

fn unusable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Permissions, format!("{error}; nothing was run"))
}

fn logged(plea: &Plea<'_>, asks: &Asks) -> Escalation {
    let (to, extra) = match asks {
        Asks::Mode(mode) => (Some(*mode), Grant::default()),
        Asks::Extra { grant, .. } => (None, grant.clone()),
    };
    Escalation {
        call: plea.call,
        command: plea.command.to_owned(),
        workdir: plea.workdir.map(Path::to_owned),
        from: plea.effective,
        to,
        extra,
        justification: plea.justification.clone(),
    }
}

fn request(session: &Session, plea: &Plea<'_>, asks: Asks) -> ApprovalRequest {
    ApprovalRequest {
        tool: plea.tool.to_owned(),
        session: session.id().to_string(),
        workspace: session.cwd().to_owned(),
        command: plea.command.to_owned(),
        workdir: plea.workdir.map(PathBuf::from),
        background: plea.background,
        mode: plea.effective,
        asks,
        justification: plea.justification.clone(),
        grounds: grounds(session, plea.command),
    }
}

/// The denials of the same command when it was last tried, else those of the session's last denied run.
fn grounds(session: &Session, command: &str) -> Vec<Denial> {
    session.with_state(|state| {
        let same = state.denied_runs().rev().find(|run| run.command == command);
        let run = same.or_else(|| state.denied_runs().next_back());
        run.map(|run| run.denials.iter().take(GROUNDS_MAX).cloned().collect()).unwrap_or_default()
    })
}

const fn answer(outcome: &ApprovalOutcome) -> Answer {
    match outcome {
        ApprovalOutcome::AllowedOnce => Answer::AllowedOnce,
        ApprovalOutcome::Rejected { .. } => Answer::Rejected,
        ApprovalOutcome::Cancelled => Answer::Cancelled,
        ApprovalOutcome::Unavailable { .. } => Answer::Unavailable,
    }
}

fn refusal(outcome: ApprovalOutcome) -> Failure {
    match outcome {
        ApprovalOutcome::Rejected { reason } => {
            let why = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            let text = format!(
                "escalation rejected{why}: nothing was run. The answer is final for this command: do not ask again and do not work around it"
            );
            Failure::new(FailureCode::Rejected, text)
        }
        ApprovalOutcome::Unavailable { reason } => {
            let text = format!("escalation not possible: nobody could be asked ({reason}); nothing was run");
            Failure::new(FailureCode::Unavailable, text)
        }
        ApprovalOutcome::Cancelled | ApprovalOutcome::AllowedOnce => {
            let text = "escalation cancelled: the question was withdrawn before it was answered; nothing was run";
            Failure::new(FailureCode::Cancelled, text)
        }
    }
}

/// A question or an answer that cannot be logged did not happen: nothing may run on it.
#[allow(clippy::needless_pass_by_value, reason = "used as a map_err function")]
fn unlogged(error: crate::session::SessionError) -> Failure {
    Failure::new(FailureCode::SessionLog, format!("escalation not possible: {error}; nothing was run"))
}
