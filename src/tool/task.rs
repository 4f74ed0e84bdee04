//! The calls that deal with background tasks: `bash_output` and `bash_kill`.

#![forbid(unsafe_code)]

use serde_json::Value;

use super::args::TaskArgs;
use super::bash::{Done, denied_run};
use super::host::Inner;
use super::render::render_output;
use super::result::{Failure, FailureCode, ToolOutput};
use super::table::NoTask;
use crate::session::Session;

/// `bash_output`: what is new, and where the task stands.
pub(super) fn output(inner: &Inner, session: Option<&Session>, args: Value) -> Result<Done, Failure> {
    let id = checked(inner, session, args)?;
    let (read, command) = inner.tasks.read(&id).map_err(|why| no_task(&id, why))?;
    let denied = denied_run(&command, read.sandbox.as_ref());
    let text = render_output(&read, inner.offers(session, &command));
    Ok(Done { denied, ..Done::new(text, ToolOutput::Read(Box::new(read))) })
}

/// `bash_kill`: ends a task, or says that it had ended.
pub(super) async fn kill(inner: &Inner, session: Option<&Session>, args: Value) -> Result<Done, Failure> {
    let task_id = checked(inner, session, args)?;
    let killed = match inner.tasks.process(&task_id) {
        Some(process) => process.kill().await,
        None => false,
    };
    let text = if killed {
        format!("killed background task {task_id}")
    } else {
        format!("background task {task_id} had already finished; nothing was killed")
    };
    Ok(Done::new(text, ToolOutput::Kill { task_id, killed }))
}

fn checked(inner: &Inner, session: Option<&Session>, args: Value) -> Result<String, Failure> {
    let id = TaskArgs::read(args).map_err(|message| Failure::new(FailureCode::InvalidArguments, message))?.task_id;
    let caller = session.map(|session| session.id().as_str());
    inner.tasks.check(&id, caller).map_err(|why| no_task(&id, why))?;
    Ok(id)
}

fn no_task(id: &str, why: NoTask) -> Failure {
    match why {
        NoTask::Foreign => Failure::new(FailureCode::ForeignTask, format!("task {id} belongs to another session")),
        NoTask::Unknown => {
            // The id is the model's own text, of any length.
            let id: String = crate::approval::escape_line(id).chars().take(80).collect();
            Failure::new(
                FailureCode::UnknownTask,
                format!("unknown task {id}: use the id that bash returned when it started it"),
            )
        }
    }
}
