//! Sessions: who calls, from which workspace, under which mode, and everything that happened, as append-only events.
//!
//! A [`Session`] is an identity, a canonical working directory (its workspace) and a log. Whatever later decisions rest
//! on, such as the standing mode and the denials that ground an escalation, is folded from the log, so that a restart
//! loses nothing. [`set_sandbox_mode`] is the only writer of the standing mode, [`effective_sandbox_mode`] its only
//! reader.

mod error;
mod event;
mod fold;
mod id;
mod log;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::SessionError;
pub use event::{Answer, CallOutcome, DeniedRun, Escalation, EventRecord, ExitStatus, SessionEvent};
pub use fold::{SessionState, effective_sandbox_mode};
pub use id::SessionId;
pub use log::Recovered;
pub use store::SessionStore;

use crate::policy::SandboxMode;
use log::EventLog;

/// One session. Cheap to share behind an `Arc`; every method may be called from any thread.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    cwd: PathBuf,
    path: Option<PathBuf>,
    recovered: Option<Recovered>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    log: EventLog,
    state: SessionState,
}

impl Session {
    /// A session that lives in memory only: for one-shot use and tests. Its log grows with its use.
    ///
    /// # Errors
    /// When `cwd` is not a directory that can be resolved.
    pub fn in_memory(id: SessionId, cwd: impl AsRef<Path>) -> Result<Self, SessionError> {
        let cwd = store::canonical_directory(cwd.as_ref())?;
        let session = Self {
            path: None,
            recovered: None,
            inner: Mutex::new(Inner { log: EventLog::memory(), state: SessionState::default() }),
            id,
            cwd,
        };
        session.record_opened()?;
        Ok(session)
    }

    fn record_opened(&self) -> Result<(), SessionError> {
        let opened = SessionEvent::Opened { version: log::FORMAT, id: self.id.clone(), cwd: self.cwd.clone() };
        self.append(opened, true)
    }

    /// Who it is: the owner token of its background tasks. Not a secret and not a credential.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Its workspace: the canonical directory it was opened in.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Where its log is, when it is on disk.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What was cut off the end of the log when it was opened, if a crash had left a torn line there.
    #[must_use]
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// The standing mode set for this session; `None` leaves it to the executor's default.
    #[must_use]
    pub fn sandbox_mode(&self) -> Option<SandboxMode> {
        self.lock().state.mode()
    }

    /// Every event so far, oldest first, read back from the log.
    ///
    /// # Errors
    /// When the log cannot be read or is damaged.
    pub fn events(&self) -> Result<Vec<EventRecord>, SessionError> {
        self.lock().log.read_all()
    }

    /// Lets escalations that were refused be asked again. For a harness to call when the person behind it has spoken
    /// since: a model alone cannot cause it.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn lift_refusals(&self) -> Result<(), SessionError> {
        self.append(SessionEvent::RefusalsLifted, true)
    }

    /// Runs `look` on the folded state.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        look(&self.lock().state)
    }

    /// Notes that a tool was called; returns the call's number in this session.
    pub(crate) fn record_call(&self, tool: &str, args: serde_json::Value) -> Result<u64, SessionError> {
        let mut inner = self.lock();
        let call = inner.state.next_call();
        inner.append(SessionEvent::ToolCall { call, tool: tool.to_owned(), args }, false)?;
        Ok(call)
    }

    /// Notes what a call came to.
    pub(crate) fn record_result(&self, call: u64, outcome: CallOutcome) -> Result<(), SessionError> {
        self.append(SessionEvent::ToolResult { call, outcome }, false)
    }

    /// Notes, durably, that a person is about to be asked; returns the number of the question.
    pub(crate) fn record_asked(&self, escalation: Escalation) -> Result<u64, SessionError> {
        let mut inner = self.lock();
        let ask = inner.state.next_ask();
        inner.append(SessionEvent::ApprovalAsked { ask, escalation }, true)?;
        Ok(ask)
    }

    /// Notes, durably, what was answered. Nothing may run on an answer that is not in the log.
    pub(crate) fn record_answered(&self, ask: u64, answer: Answer) -> Result<(), SessionError> {
        self.append(SessionEvent::ApprovalAnswered { ask, answer }, true)
    }

    fn append(&self, event: SessionEvent, durable: bool) -> Result<(), SessionError> {
        self.lock().append(event, durable)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The state follows the log, never the other way round: an event that could not be written did not happen.
    fn append(&mut self, event: SessionEvent, durable: bool) -> Result<(), SessionError> {
        self.log.append(&event, durable)?;
        self.state.apply(&event);
        Ok(())
    }
}

/// Sets the standing mode of a session from its next call on. The only writer of `sandbox/mode` events; it returns when
/// the event is on disk.
///
/// # Errors
/// When the log cannot be written; the mode is then as it was.
pub fn set_sandbox_mode(session: &Session, mode: SandboxMode) -> Result<(), SessionError> {
    session.append(SessionEvent::SandboxMode { mode }, true)
}
