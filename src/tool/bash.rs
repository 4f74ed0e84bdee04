//! The `bash` call: arguments to request, gate, executor, result.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::args::BashArgs;
use super::environment::ToolExecution;
use super::escalate::{Permit, Plea, escalate, policy};
use super::gate::examine;
use super::host::Inner;
use super::marker::exit_status;
use super::render::render_run;
use super::result::{Failure, FailureCode, ToolOutput};
use super::table::DENIALS_KEPT;
use super::{BASH, ExitStatus};
use crate::denial::Grant;
use crate::executor::{ExecError, ExecRequest, ExecSpec, RunResult, SandboxReport, Timeout};
use crate::session::{DeniedRun, Session};

/// A call that did what it was to do.
pub(super) struct Done {
    pub(super) text: String,
    pub(super) output: ToolOutput,
    pub(super) status: Option<ExitStatus>,
    pub(super) task: Option<String>,
    pub(super) denied: Option<DeniedRun>,
}

impl Done {
    pub(super) fn new(text: String, output: ToolOutput) -> Self {
        Self { text, output, status: None, task: None, denied: None }
    }
}

pub(super) async fn bash(
    inner: &Arc<Inner>,
    session: Option<&Session>,
    call: u64,
    args: Value,
    cancel: &CancellationToken,
) -> Result<Done, Failure> {
    let invalid = |message| Failure::new(FailureCode::InvalidArguments, message);
    let args = BashArgs::read(args, inner.advertised()).map_err(invalid)?;
    let background = args.run_in_background.unwrap_or(false);
    let mut request = ExecRequest::shell(args.command.clone());
    request.workdir = workdir(args.workdir.as_deref(), session);
    request.timeout = match args.timeout().map_err(invalid)? {
        Some(_) | None if background => Timeout::None,
        Some(limit) => Timeout::After(limit),
        None => Timeout::Default,
    };
    request.owner = session.map(|session| session.id().to_string());
    // Nobody is asked about a request that could not run; and the approver sees the directory it would run in.
    let draft = inner.executor.resolve(request.clone()).map_err(executor_failure)?;
    let permit = permit(inner, session, call, &args, &draft, cancel).await?;

    request.policy = session.zip(inner.effective(session)).map(|(session, effective)| match permit {
        Some(permit) => permit.into_policy(session, effective),
        None => policy(session, effective, Grant::default()),
    });
    let execution = ToolExecution { tool: BASH, session };
    request.managed_env = inner
        .environment
        .collect(&execution)
        .map_err(|error| Failure::new(FailureCode::Environment, format!("{error}; nothing was run")))?;
    if background {
        start(inner, &args.command, request, cancel).await
    } else {
        run(inner, session, &args.command, request, cancel).await
    }
}

/// The gate: `None` when nothing is asked for, a permit when it was approved, a failure in every other case.
async fn permit(
    inner: &Inner,
    session: Option<&Session>,
    call: u64,
    args: &BashArgs,
    draft: &ExecSpec,
    cancel: &CancellationToken,
) -> Result<Option<Permit>, Failure> {
    let Some(effective) = inner.effective(session) else { return Ok(None) };
    let mode = args.sandbox_permissions.map(Into::into);
    let wish = examine(mode, args.additional_permissions.as_ref(), args.justification.as_deref(), effective)?;
    let Some((wanted, justification)) = wish else { return Ok(None) };
    let plea = Plea {
        tool: BASH,
        call,
        command: &args.command,
        workdir: Some(&draft.workdir),
        background: args.run_in_background.unwrap_or(false),
        effective,
        wanted,
        justification,
    };
    escalate(inner, session, plea, cancel).await.map(Some)
}

async fn run(
    inner: &Inner,
    session: Option<&Session>,
    command: &str,
    mut request: ExecRequest,
    cancel: &CancellationToken,
) -> Result<Done, Failure> {
    // A child of the caller's token, which also fires when the caller drops this call, or the host is disposed of.
    let token = cancel.child_token();
    let _guard = token.clone().drop_guard();
    request.cancel = Some(token.clone());
    let spec = inner.executor.resolve(request).map_err(executor_failure)?;
    let running = inner.executor.run(spec);
    tokio::pin!(running);
    let result = tokio::select! {
        result = &mut running => result,
        () = inner.shutdown.cancelled() => {
            token.cancel();
            running.await
        }
    };
    let result = result.map_err(executor_failure)?;
    if result.aborted {
        return Err(aborted(result));
    }
    let denied = denied_run(command, result.sandbox.as_ref());
    let text = render_run(&result, inner.offers(session, command));
    let status = exit_status(&result);
    Ok(Done { status, denied, ..Done::new(text, ToolOutput::Run(Box::new(result))) })
}

/// Starts in a task of its own, so that a process is never started without being in the table, and is killed when
/// nobody is left to learn its id.
async fn start(
    inner: &Arc<Inner>,
    command: &str,
    request: ExecRequest,
    cancel: &CancellationToken,
) -> Result<Done, Failure> {
    if cancel.is_cancelled() {
        return Err(executor_failure(ExecError::AlreadyCancelled));
    }
    let spec = inner.executor.resolve(request).map_err(executor_failure)?;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (inner, command) = (Arc::clone(inner), command.to_owned());
    tokio::spawn(async move {
        let started = inner.executor.start(spec).await.map(|process| {
            let id = inner.tasks.insert(&command, Arc::clone(&process));
            inner.watch(id.clone(), Arc::clone(&process));
            (id, process)
        });
        if let Err(Ok((_, process))) = tell.send(started) {
            process.kill().await;
        }
    });
    let started = told.await.map_err(|_| executor_failure(ExecError::Disposed))?;
    let (task_id, _) = started.map_err(executor_failure)?;
    let text = format!(
        "started background task {task_id}. Read its output with bash_output, stop it with bash_kill (task_id: \"{task_id}\")."
    );
    let output = ToolOutput::Started { task_id: task_id.clone() };
    Ok(Done { task: Some(task_id), ..Done::new(text, output) })
}

/// The directory of a call: the model's, taken from the session's when relative; else the session's.
fn workdir(given: Option<&str>, session: Option<&Session>) -> Option<PathBuf> {
    match (given.filter(|given| !given.is_empty()), session) {
        (Some(given), Some(session)) => Some(session.cwd().join(given)),
        (Some(given), None) => Some(Path::new(given).to_owned()),
        (None, session) => session.map(|session| session.cwd().to_owned()),
    }
}

/// What the session remembers of a run that was denied something.
pub(super) fn denied_run(command: &str, report: Option<&SandboxReport>) -> Option<DeniedRun> {
    let report = report.filter(|report| report.denied)?;
    let denials = report.denials.iter().filter(|denial| denial.blocking).take(DENIALS_KEPT).cloned().collect();
    Some(DeniedRun { command: command.to_owned(), mode: report.mode, denials })
}

fn aborted(result: RunResult) -> Failure {
    let message = "the call was cancelled while the command ran; the command was killed".to_owned();
    Failure { code: FailureCode::Aborted, message, run: Some(Box::new(result)) }
}

#[allow(clippy::needless_pass_by_value, reason = "used as a map_err function")]
fn executor_failure(error: ExecError) -> Failure {
    let code = match error {
        ExecError::AlreadyCancelled => FailureCode::Aborted,
        ExecError::EmptyCommand | ExecError::NulByte { .. } => FailureCode::InvalidArguments,
        _ => FailureCode::Executor,
    };
    Failure::new(code, error.to_string())
}
