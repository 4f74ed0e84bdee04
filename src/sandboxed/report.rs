//! From the outcome of a run to its facts.

use std::sync::Arc;

use super::sessions::SessionTmp;
use crate::denial::Denial;
use crate::executor::engine::Outcome;
use crate::executor::{RunResult, SandboxReport};
use crate::plan::Planned;
use crate::policy::EffectivePolicy;

/// What has to be remembered of a call until it ends.
pub(super) struct RunContext {
    pub(super) policy: Arc<EffectivePolicy>,
    pub(super) planned: Planned,
    /// Keeps the session's `/tmp` for as long as the command runs.
    pub(super) _tmp: Option<Arc<SessionTmp>>,
}

impl RunContext {
    /// Adds the sandbox's report to the result.
    pub(super) fn finish(self, outcome: Outcome) -> RunResult {
        let denials: Vec<Denial> = Vec::new();
        let report = SandboxReport {
            mode: self.policy.mode,
            enforcement: self.planned.enforcement,
            gaps: self.planned.gaps,
            denied: denials.iter().any(|denial| denial.blocking),
            denials,
            denials_omitted: 0,
            notes: self.policy.notes.clone(),
        };
        RunResult { sandbox: Some(report), ..outcome.result }
    }
}
