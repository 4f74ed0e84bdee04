//! An executor and an approver whose every command and answer is in the journal.

use std::sync::Arc;

use stockade::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver};
use stockade::environment::Variables;
use stockade::executor::{
    BashExecutor, BashProcess, BoxFuture, ExecError, ExecRequest, ExecSpec, ProcessStatus, RunResult,
};
use stockade::journal::{Entry, Journal, JournalError, JournalSettings, Masker, Question, Run};
use stockade::policy::SandboxMode;
use stockade::sandboxed::{LayeredPolicy, PolicySource, SandboxedExecutor};
use tokio_util::sync::CancellationToken;

use super::args::PolicyArgs;
use super::exit::Failure;
use super::exit::say;
use super::record::refuse_within_reach;

/// The journal of a server, shared by its executor and its approver.
#[derive(Clone)]
pub(crate) struct Recorder {
    journal: Journal,
    policy: LayeredPolicy,
    environment: Variables,
}

/// A command whose beginning is recorded.
struct Begun {
    recorder: Recorder,
    run: Run,
    session: Option<String>,
    started: u64,
}

impl Recorder {
    /// The recorder that `--journal` asks for; `None` without it.
    pub(crate) fn open(args: &PolicyArgs, policy: &LayeredPolicy) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.journal else { return Ok(None) };
        refuse_within_reach(path, &policy.effective(&policy.standing())?)?;
        let journal = Journal::open(path, JournalSettings::default()).map_err(|e| Failure::cannot(e.to_string()))?;
        let environment = std::env::vars_os().chain(args.env.iter().cloned()).collect();
        Ok(Some(Self { journal, policy: policy.clone(), environment }))
    }

    /// Records that a command is about to start. What cannot be recorded does not run.
    fn begin(&self, spec: &ExecSpec) -> Result<Begun, ExecError> {
        let call = spec.policy.clone().unwrap_or_else(|| self.policy.standing());
        let policy = self.policy.effective(&call)?;
        refuse_within_reach(self.journal.path(), &policy)
            .map_err(|failure| ExecError::Policy { reason: failure.message().to_owned() })?;
        let environment = self.environment.clone().into_iter().chain(spec.env.clone()).collect();
        let run = Run::of(spec, Some(policy.mode), Some(policy.digest()), &Masker::knowing(&environment));
        let session = call.session;
        let record = self.journal.append(session.as_deref(), Entry::Started(run.clone()));
        let started = record.map_err(|error| ExecError::Policy { reason: error.to_string() })?.seq;
        Ok(Begun { recorder: self.clone(), run, session, started })
    }
}

impl Begun {
    /// Records how it ended. It has run, so a failure to record is reported and changes nothing.
    fn end(self, result: Result<&RunResult, String>) {
        let entry = match result {
            Ok(result) => self.run.ended(Some(self.started), result),
            Err(failure) => self.run.failed(Some(self.started), failure),
        };
        if let Err(error) = self.recorder.journal.append(self.session.as_deref(), entry) {
            say!("stockade: the end of a command could not be recorded: {error}");
        }
    }
}

/// Records every command of the executor in it.
pub(crate) struct Journaled {
    pub(crate) executor: SandboxedExecutor,
    pub(crate) recorder: Recorder,
}

impl BashExecutor for Journaled {
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        self.executor.resolve(request)
    }

    fn run(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(async move {
            let begun = self.recorder.begin(&spec)?;
            let result = self.executor.run(spec).await;
            begun.end(result.as_ref().map_err(ToString::to_string));
            result
        })
    }

    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>> {
        Box::pin(async move {
            let begun = self.recorder.begin(&spec)?;
            match self.executor.start(spec).await {
                Ok(process) => {
                    let followed = Arc::clone(&process);
                    tokio::spawn(async move {
                        let failure = followed.done().await.err().map(|error| error.to_string());
                        match (followed.status(), failure) {
                            (ProcessStatus::Settled(result), _) => begun.end(Ok(&result)),
                            (_, failure) => begun.end(Err(failure.unwrap_or_else(|| "it was lost".to_owned()))),
                        }
                    });
                    Ok(process)
                }
                Err(error) => {
                    begun.end(Err(error.to_string()));
                    Err(error)
                }
            }
        })
    }

    fn sandbox_mode(&self) -> Option<SandboxMode> {
        self.executor.sandbox_mode()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        self.executor.dispose()
    }
}

/// Records every question, and its answer. What cannot be recorded is not asked, and a yes that cannot be recorded is none.
pub(crate) struct JournaledApprover {
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) recorder: Recorder,
}

/// A question that is recorded and has no answer yet.
struct Asked<'a> {
    journal: &'a Journal,
    session: &'a str,
    /// The question and the number of its record; `None` once its answer is recorded.
    open: Option<(Question, u64)>,
}

impl<'a> Asked<'a> {
    fn begin(recorder: &'a Recorder, request: &'a ApprovalRequest) -> Result<Self, JournalError> {
        let (journal, session) = (&recorder.journal, request.session.as_str());
        let question = Question::of(request, &Masker::knowing(&recorder.environment));
        let seq = journal.append(Some(session), Entry::Asked(Box::new(question.clone())))?.seq;
        Ok(Self { journal, session, open: Some((question, seq)) })
    }

    fn answer(&mut self, outcome: &ApprovalOutcome) -> Result<(), JournalError> {
        let Some((question, seq)) = self.open.take() else { return Ok(()) };
        self.journal.append(Some(self.session), question.answered(Some(seq), outcome)).map(drop)
    }
}

/// Whoever asked has gone away in the middle: the question is withdrawn.
impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.answer(&ApprovalOutcome::Cancelled) {
            say!("stockade: that a question was withdrawn could not be recorded: {error}");
        }
    }
}

impl Approver for JournaledApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async move {
            let unavailable = |error: JournalError| ApprovalOutcome::Unavailable { reason: error.to_string() };
            let mut asked = match Asked::begin(&self.recorder, request) {
                Ok(asked) => asked,
                Err(error) => return unavailable(error),
            };
            let outcome = self.approver.ask(request, cancel).await;
            asked.answer(&outcome).map_or_else(unavailable, |()| outcome)
        })
    }

    fn reachable(&self) -> bool {
        self.approver.reachable()
    }
}
