//! The facade: everything an adapter needs to serve the tools to a model.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bash::{Done, bash};
use super::builder::ToolHostBuilder;
use super::card::present_result;
use super::definition::definitions;
use super::environment::EnvRegistry;
use super::notice::{Attachment, NoticeBoard, NoticeSink};
use super::permissions::ProtectedPaths;
use super::prompt::{PromptSection, mode_section, tool_section};
use super::render::render_run;
use super::result::{Failure, FailureCode, ToolOutput, ToolResult};
use super::table::TaskTable;
use super::{BASH, BASH_KILL, BASH_OUTPUT, ToolDefinition, task};
use crate::approval::{Approver, escape_line};
use crate::executor::{BashExecutor, BashProcess, ProcessStatus};
use crate::policy::SandboxMode;
use crate::session::{CallOutcome, Session, SessionId};

/// Largest arguments a call may have, bytes of JSON. More than any usable command.
const ARGS_MAX: usize = 1 << 20;

/// Serves the three tools over one executor, to any number of sessions. Cheap to clone.
#[derive(Clone)]
pub struct ToolHost {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) executor: Arc<dyn BashExecutor>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) protected: Arc<dyn ProtectedPaths>,
    pub(super) environment: EnvRegistry,
    pub(super) tasks: TaskTable,
    pub(super) shutdown: CancellationToken,
    pub(super) notices: NoticeBoard,
    pub(super) watchers: Mutex<JoinSet<()>>,
    pub(super) state_mode: bool,
}

impl ToolHost {
    /// Begins a host over an executor.
    #[must_use]
    pub fn builder(executor: Arc<dyn BashExecutor>) -> ToolHostBuilder {
        ToolHostBuilder::over(executor)
    }

    /// The tools as a model is told of them. The escalation arguments are there exactly when the executor confines.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        definitions(self.inner.advertised())
    }

    /// The sections for a session's system prompt, in order.
    #[must_use]
    pub fn prompt_sections(&self, session: Option<&Session>) -> Vec<PromptSection> {
        let mode = self.inner.effective(session).filter(|_| self.inner.state_mode);
        std::iter::once(tool_section()).chain(mode.map(mode_section)).collect()
    }

    /// Contributors of managed environment register here.
    #[must_use]
    pub fn environment(&self) -> &EnvRegistry {
        &self.inner.environment
    }

    /// The mode the session's next call runs under; `None` when the executor confines nothing.
    #[must_use]
    pub fn effective_mode(&self, session: Option<&Session>) -> Option<SandboxMode> {
        self.inner.effective(session)
    }

    /// Performs one call.
    ///
    /// It never fails as a Rust call: whatever goes wrong is a result with [`is_error`](ToolResult::is_error), for the
    /// model to read. `cancel` withdraws a pending approval, or kills the command; dropping the future does the same.
    /// With a session, the call and its result are appended to the session's log.
    pub async fn call(
        &self,
        session: Option<&Session>,
        tool: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> ToolResult {
        let size = serde_json::to_vec(&args).map_or(usize::MAX, |json| json.len());
        let (logged, fits) =
            if size > ARGS_MAX { (json!({ "omitted_bytes": size }), false) } else { (args.clone(), true) };
        let done = match number(session, tool, logged.clone()) {
            Err(failure) => Err(failure),
            Ok(_) if !fits => Err(Failure::new(
                FailureCode::InvalidArguments,
                format!("invalid arguments: {size} bytes are more than the limit of {ARGS_MAX}"),
            )),
            Ok(call) => {
                if let Some(session) = session {
                    self.inner.tasks.reserve(session.with_state(|state| state.highest_task()));
                }
                let done = self.dispatch(session, call, tool, args, cancel).await;
                if let Some(session) = session {
                    log_result(session, call, &done);
                }
                done
            }
        };
        finish(tool, &logged, done)
    }

    async fn dispatch(
        &self,
        session: Option<&Session>,
        call: u64,
        tool: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> Result<Done, Failure> {
        match tool {
            BASH => bash(&self.inner, session, call, args, cancel).await,
            BASH_OUTPUT => task::output(&self.inner, session, args),
            BASH_KILL => task::kill(&self.inner, session, args).await,
            other => {
                let name: String = escape_line(other).chars().take(80).collect();
                Err(Failure::new(FailureCode::UnknownTool, format!("there is no tool named {name}")))
            }
        }
    }

    /// Delivers completion notices of the session's background tasks to `sink` for as long as the returned value lives.
    pub fn attach(&self, session: &SessionId, sink: Arc<dyn NoticeSink>) -> Attachment {
        self.inner.notices.attach(session, sink)
    }

    /// The owner token of a task. The outer `None` means that there is no such task, the inner that it has no owner.
    #[must_use]
    pub fn owner_of(&self, task_id: &str) -> Option<Option<String>> {
        self.inner.tasks.owner_of(task_id)
    }

    /// How many tasks are remembered, and how many of them hold a process or its output.
    #[must_use]
    pub fn task_counts(&self) -> (usize, usize) {
        self.inner.tasks.counts()
    }

    /// Kills every background task of a session, forgets them, and has the executor drop what it keeps for the session,
    /// such as its private `/tmp`. For when a session ends for good; one that merely
    /// disconnects may leave them running.
    pub async fn end_session(&self, session: &SessionId) {
        kill_all(&self.inner.tasks.processes(Some(session.as_str()))).await;
        self.inner.tasks.forget(session.as_str());
        self.inner.executor.end_session(session.as_str());
    }

    /// Ends everything: pending approvals are withdrawn, foreground commands and background tasks killed, the executor
    /// disposed of. Returns when all of it is gone.
    pub async fn dispose(&self) {
        self.inner.shutdown.cancel();
        kill_all(&self.inner.tasks.processes(None)).await;
        self.inner.executor.dispose().await;
        let mut watchers = std::mem::take(&mut *self.inner.watchers());
        while let Some(watched) = watchers.join_next().await {
            report(watched);
        }
    }
}

impl Inner {
    pub(super) fn advertised(&self) -> bool {
        self.executor.sandbox_mode().is_some_and(SandboxMode::confines)
    }

    /// Session over default; `None` where nothing would honour a mode.
    pub(super) fn effective(&self, session: Option<&Session>) -> Option<SandboxMode> {
        let default = self.executor.sandbox_mode()?;
        Some(session.and_then(Session::sandbox_mode).unwrap_or(default))
    }

    /// True when an escalation of this command, denied just now, would be put to somebody.
    pub(super) fn offers(&self, session: Option<&Session>, command: &str) -> bool {
        let open = |session: &Session| !session.with_state(|state| state.refusal_final(command));
        self.advertised() && self.approver.as_ref().is_some_and(|a| a.reachable()) && session.is_some_and(open)
    }

    /// Follows a background task to its end: bounds memory, tells the owner.
    pub(super) fn watch(self: &Arc<Self>, id: String, process: Arc<dyn BashProcess>) {
        // Weak, because the watchers belong to what they would otherwise keep alive.
        let inner: Weak<Self> = Arc::downgrade(self);
        let mut watchers = self.watchers();
        while let Some(watched) = watchers.try_join_next() {
            report(watched);
        }
        watchers.spawn(async move {
            // What it came to, not where it stands: nothing says that the status changes before this resolves.
            let ended = match process.done().await {
                Ok(result) => ProcessStatus::Settled(Box::new(result)),
                Err(error) => ProcessStatus::Failed(error.to_string()),
            };
            let Some(inner) = inner.upgrade() else { return };
            if let Some(status) = inner.tasks.finished(&id, &ended) {
                inner.notices.finished(process.owner(), &id, &status);
            }
        });
    }

    fn watchers(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(watched: Result<(), tokio::task::JoinError>) {
    if let Err(error) = watched {
        tracing::error!(%error, "a task watcher or its notice sink panicked");
    }
}

async fn kill_all(processes: &[Arc<dyn BashProcess>]) {
    let mut kills = JoinSet::new();
    for process in processes {
        let process = Arc::clone(process);
        kills.spawn(async move { process.kill().await });
    }
    while let Some(killed) = kills.join_next().await {
        report(killed.map(|_| ()));
    }
}

/// Logs the call and gives its number; 0 for a call without a session. What cannot be logged is not run.
fn number(session: Option<&Session>, tool: &str, args: Value) -> Result<u64, Failure> {
    let Some(session) = session else { return Ok(0) };
    session.record_call(tool, args).map_err(|error| {
        Failure::new(FailureCode::SessionLog, format!("the call could not be logged: {error}; nothing was run"))
    })
}

fn log_result(session: &Session, call: u64, done: &Result<Done, Failure>) {
    let outcome = match done {
        Ok(done) => CallOutcome {
            text: done.text.clone(),
            is_error: false,
            status: done.status.clone(),
            task: done.task.clone(),
            denied: done.denied.clone(),
        },
        Err(failure) => CallOutcome { text: failure_text(failure), is_error: true, ..CallOutcome::default() },
    };
    if let Err(error) = session.record_result(call, outcome) {
        // It has run; hiding its result would only mislead. The next call finds the log broken and does not run.
        tracing::error!(session = %session.id(), call, %error, "a result could not be logged");
    }
}

fn failure_text(failure: &Failure) -> String {
    match &failure.run {
        Some(run) => format!("{}\n{}", failure.message, render_run(run, false)),
        None => failure.message.clone(),
    }
}

fn finish(tool: &str, args: &Value, done: Result<Done, Failure>) -> ToolResult {
    match done {
        Ok(done) => {
            let card = present_result(tool, args, &done.text, false, done.status.as_ref());
            ToolResult { text: done.text, structured: done.output, is_error: false, status: done.status, card }
        }
        Err(failure) => {
            let text = failure_text(&failure);
            let card = present_result(tool, args, &text, true, None);
            let Failure { code, message, run } = failure;
            let structured = ToolOutput::Failure { code, message, run };
            ToolResult { text, structured, is_error: true, status: None, card }
        }
    }
}
