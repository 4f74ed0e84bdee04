//! From the outcome of a run to its facts.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::PolicySource;
use super::aftermath::Aftermath;
use super::audited::AuditedRun;
use super::lookups::Lookups;
use super::outlet::Outlet;
use super::placeholders::Placeholders;
use super::sessions::SessionTmp;
use crate::denial::audit::AuditLog;
use crate::denial::trace::{TraceHandle, TraceRecord};
use crate::denial::{PolicyViews, ProcessHostView, RunEvidence, TraceCoverage, classify, limits_hit};
use crate::executor::blocking::blocking;
use crate::executor::engine::Outcome;
use crate::executor::{CallPolicy, CommandLine, ExecSpec, RunResult, SandboxReport};
use crate::host::Leaf;
use crate::plan::Planned;
use crate::policy::{EffectivePolicy, NetworkMode};

/// What has to be remembered of a call until it ends.
pub(super) struct RunContext {
    pub(super) policy: Arc<EffectivePolicy>,
    /// The look after the run.
    pub(super) aftermath: Arc<Aftermath>,
    pub(super) planned: Planned,
    pub(super) trace: Option<TraceHandle>,
    /// The audit log, until it is known which process it is to collect for.
    pub(super) audit_log: Option<Arc<AuditLog>>,
    pub(super) audited: Option<AuditedRun>,
    /// The way out, when the network is an allowlist.
    pub(super) outlet: Option<Outlet>,
    /// What observations are timed from.
    pub(super) began: Instant,
    /// Names that the command looked up in a network of its own.
    pub(super) lookups: Lookups,
    /// Our side of the command's terminal, when it was started on one.
    pub(super) terminal: Option<OwnedFd>,
    /// The command's control group.
    pub(super) leaf: Option<Leaf>,
    /// It could not be traced and would have been.
    pub(super) untraced: bool,
    pub(super) views: Views,
    pub(super) facts: RunFacts,
    /// Keeps the session's `/tmp` for as long as the command runs.
    pub(super) _tmp: Option<Arc<SessionTmp>>,
    /// Approved files that were made for it.
    pub(super) placeholders: Placeholders,
}

/// Where the policies of wider modes come from.
pub(super) struct Views {
    pub(super) source: Arc<dyn PolicySource>,
    pub(super) call: CallPolicy,
}

/// The command as the classifier wants to know it.
pub(super) struct RunFacts {
    command: String,
    workdir: PathBuf,
    home: Option<PathBuf>,
}

impl RunFacts {
    pub(super) fn of(spec: &ExecSpec, home: Option<&OsString>) -> Self {
        let command = match &spec.command {
            CommandLine::Shell(text) => text.clone(),
            CommandLine::Program(argv) => {
                argv.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
            }
        };
        Self { command, workdir: spec.workdir.clone(), home: home.map(PathBuf::from) }
    }
}

impl RunContext {
    /// Lets go of what only the start needs: the command may run for days. What is said of the sandbox stays.
    pub(super) fn forget_plan(&mut self) {
        let plan = &mut self.planned.plan;
        (plan.filters, plan.trace) = (Vec::new(), None);
        if let Some(mounts) = &mut plan.mounts {
            mounts.ops = Vec::new();
        }
        if let Some(landlock) = &mut plan.landlock {
            landlock.grants = Vec::new();
        }
        self.planned.reported_calls = Vec::new();
    }

    /// Adds the sandbox's report to the result.
    pub(super) async fn finish(mut self, outcome: Outcome) -> RunResult {
        let mut notes = self.policy.notes.clone();
        if self.policy.mode.confines() && self.policy.network.mode == NetworkMode::Full {
            notes.push("network: the host's own, in full".into());
        }
        if self.untraced {
            notes
                .push("denials were not traced: a filter around this process has the one listener there can be".into());
        }
        let record = self.trace.take().map(TraceHandle::finish);
        let record = record.and_then(|finished| match finished {
            Ok(record) => Some(record),
            Err(error) => {
                notes.push(format!("the trace of this run was lost: {error}"));
                None
            }
        });
        let mut record = record.unwrap_or(TraceRecord { coverage: TraceCoverage::None, ..TraceRecord::default() });
        if record.unreadable > 0 {
            notes.push(format!(
                "trace: {} calls could not be read while they waited; whether they were refused is unknown",
                record.unreadable
            ));
        }
        if let Some(audited) = self.audited.take() {
            let (seen, told) = audited.finish().await;
            record.observations.extend(seen);
            notes.extend(told);
        }
        if let Some(outlet) = self.outlet.take() {
            let (refused, uncounted) = outlet.close().await;
            record.observations.extend(refused);
            record.omitted += uncounted;
        }
        record.observations.extend(self.lookups.observations());
        if let Some(leaf) = self.leaf.take() {
            let hits = leaf.hits();
            record.observations.extend(limits_hit(hits.memory, hits.processes));
        }
        notes.extend(self.look().await);
        let (denials, denials_omitted) = self.classify(&outcome, record);
        let report = SandboxReport {
            mode: self.policy.mode,
            enforcement: self.planned.enforcement,
            gaps: self.planned.gaps,
            denied: denials.iter().any(|denial| denial.blocking),
            denials,
            denials_omitted,
            notes,
        };
        RunResult { sandbox: Some(report), ..outcome.result }
    }

    /// The look after the run, off the runtime's threads: a workspace may be large, and what was planted in it too.
    async fn look(&self) -> Vec<String> {
        if !self.aftermath.is_due() {
            return Vec::new();
        }
        if self.views.source.is_unchanged(&self.policy) {
            self.aftermath.is_as_before();
            return Vec::new();
        }
        let aftermath = Arc::clone(&self.aftermath);
        match blocking(move || aftermath.look().to_vec()).await {
            Ok(facts) => facts,
            Err(error) => vec![format!("what the command created could not be looked at: {error}")],
        }
    }

    fn classify(&self, outcome: &Outcome, record: TraceRecord) -> (Vec<crate::denial::Denial>, u64) {
        let result = &outcome.result;
        let evidence = RunEvidence {
            observations: record.observations,
            coverage: record.coverage,
            lost: record.omitted,
            stderr: &outcome.stderr_tail,
            stdout: &outcome.stdout_tail,
            exit_code: result.exit_code,
            signal: result.signal.as_ref().and_then(|name| name.parse::<Signal>().ok()).map(|signal| signal as i32),
            timed_out: result.timed_out,
            command: &self.facts.command,
            workdir: &self.facts.workdir,
            home: self.facts.home.as_deref(),
        };
        let wider = |mode| self.views.source.effective(&CallPolicy { mode, ..self.views.call.clone() }).ok();
        let host = ProcessHostView::new();
        let (files, network) = super::evidence::mechanisms(&self.planned);
        let views = PolicyViews { effective: &self.policy, wider: &wider, host: &host, files, network };
        classify(&evidence, &views)
    }
}
