//! Completion notices: telling the owning session that a background task has finished, if it is still there.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::TaskStatus;
use crate::session::SessionId;

/// A background task has finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The session that owns the task.
    pub session: String,
    /// The task.
    pub task_id: String,
    /// How it ended.
    pub status: TaskStatus,
    /// The same for the model: context for its next request, not a reason to wake it.
    pub text: String,
}

/// Takes the notices of one session. It is called from a task of the runtime and should return soon.
pub trait NoticeSink: Send + Sync {
    /// A task of the session has finished.
    fn notify(&self, notice: Notice);
}

#[derive(Default)]
struct Sinks {
    next: u64,
    by_session: HashMap<String, (u64, Arc<dyn NoticeSink>)>,
}

#[derive(Clone, Default)]
pub(super) struct NoticeBoard(Arc<Mutex<Sinks>>);

/// Keeps a sink attached; dropping it detaches the sink, and later notices for the session are dropped.
#[must_use = "dropping the attachment detaches the sink again"]
pub struct Attachment {
    session: String,
    number: u64,
    board: NoticeBoard,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut sinks = self.board.lock();
        // A later attachment of the same session is not ours to remove.
        if sinks.by_session.get(&self.session).is_some_and(|(number, _)| *number == self.number) {
            sinks.by_session.remove(&self.session);
        }
    }
}

impl NoticeBoard {
    pub(super) fn attach(&self, session: &SessionId, sink: Arc<dyn NoticeSink>) -> Attachment {
        let session = session.to_string();
        let mut sinks = self.lock();
        sinks.next += 1;
        let number = sinks.next;
        sinks.by_session.insert(session.clone(), (number, sink));
        Attachment { session, number, board: self.clone() }
    }

    /// Delivers to the owning session alone; without one, or when it is gone, the notice is dropped.
    pub(super) fn finished(&self, owner: Option<&str>, task_id: &str, status: &TaskStatus) {
        let Some(owner) = owner else { return };
        let Some(sink) = self.lock().by_session.get(owner).map(|(_, sink)| Arc::clone(sink)) else { return };
        let text =
            format!("background bash task {task_id} finished [status: {status}]. Read its output with bash_output.");
        sink.notify(Notice { session: owner.to_owned(), task_id: task_id.to_owned(), status: status.clone(), text });
    }

    fn lock(&self) -> MutexGuard<'_, Sinks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
