//! Folding events into what decisions rest on. Pure: the same events give the same state, in any process.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::{Answer, DeniedRun, SessionEvent};
use crate::policy::SandboxMode;

/// How many denied runs and refused commands are remembered.
const REMEMBERED: usize = 64;

/// The standing mode that a sequence of events leaves: that of its last `sandbox/mode` event, `None` when it has none.
///
/// Nothing else takes part. An approval holds for one call and leaves no trace here.
pub fn effective_sandbox_mode<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Option<SandboxMode> {
    events.into_iter().fold(None, |mode, event| match event {
        SessionEvent::SandboxMode { mode } => Some(*mode),
        _ => mode,
    })
}

/// Everything a session's next call needs to know of the past. Its size is bounded however long the log is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionState {
    mode: Option<SandboxMode>,
    calls: u64,
    asks: u64,
    highest_task: u64,
    pending: VecDeque<(u64, String)>,
    denied: VecDeque<DeniedRun>,
    refused: VecDeque<Refusal>,
}

#[derive(Debug, Clone, PartialEq)]
struct Refusal {
    command: String,
    times: u32,
    denied_since: bool,
}

impl SessionState {
    /// The state after `events`.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Self {
        let mut state = Self::default();
        events.into_iter().for_each(|event| state.apply(event));
        state
    }

    /// Takes one more event into account. Any event may follow any other.
    pub fn apply(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::SandboxMode { mode } => self.mode = Some(*mode),
            SessionEvent::ToolCall { call, .. } => self.calls = self.calls.max(*call),
            SessionEvent::ApprovalAsked { ask, escalation } => {
                self.asks = self.asks.max(*ask);
                push_bounded(&mut self.pending, (*ask, escalation.command.clone()));
            }
            SessionEvent::ApprovalAnswered { ask, answer } => self.answered(*ask, *answer),
            SessionEvent::RefusalsLifted => self.refused.clear(),
            SessionEvent::ToolResult { outcome, .. } => {
                if let Some(number) = outcome.task.as_deref().and_then(task_number) {
                    self.highest_task = self.highest_task.max(number);
                }
                if let Some(run) = &outcome.denied {
                    self.was_denied(run);
                }
            }
            SessionEvent::Opened { .. } | SessionEvent::Recovered { .. } | SessionEvent::Unknown => {}
        }
    }

    fn answered(&mut self, ask: u64, answer: Answer) {
        let Some(at) = self.pending.iter().position(|(pending, _)| *pending == ask) else { return };
        let Some((_, command)) = self.pending.remove(at) else { return };
        if answer != Answer::Rejected {
            return;
        }
        if let Some(refusal) = self.refused.iter_mut().find(|refusal| refusal.command == command) {
            refusal.times = refusal.times.saturating_add(1);
            refusal.denied_since = false;
        } else {
            push_bounded(&mut self.refused, Refusal { command, times: 1, denied_since: false });
        }
    }

    fn was_denied(&mut self, run: &DeniedRun) {
        for refusal in self.refused.iter_mut().filter(|refusal| refusal.command == run.command) {
            refusal.denied_since = true;
        }
        self.denied.retain(|earlier| earlier != run);
        push_bounded(&mut self.denied, run.clone());
    }

    /// The standing mode.
    #[must_use]
    pub fn mode(&self) -> Option<SandboxMode> {
        self.mode
    }

    /// The number for the next call.
    #[must_use]
    pub fn next_call(&self) -> u64 {
        self.calls.saturating_add(1)
    }

    /// The number for the next question.
    #[must_use]
    pub fn next_ask(&self) -> u64 {
        self.asks.saturating_add(1)
    }

    /// The highest background task number this session was ever given; 0 for none.
    #[must_use]
    pub fn highest_task(&self) -> u64 {
        self.highest_task
    }

    /// Denied runs, oldest first.
    pub fn denied_runs(&self) -> impl DoubleEndedIterator<Item = &DeniedRun> {
        self.denied.iter()
    }

    /// True when an escalation of this command may not be asked again: it was refused, and has not been tried and denied
    /// since; or it was refused twice.
    #[must_use]
    pub fn refusal_stands(&self, command: &str) -> bool {
        self.refused.iter().any(|refusal| refusal.command == command && (refusal.times > 1 || !refusal.denied_since))
    }

    /// True when not even another denial lets this command be asked about again.
    #[must_use]
    pub fn refusal_final(&self, command: &str) -> bool {
        self.refused.iter().any(|refusal| refusal.command == command && refusal.times > 1)
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() >= REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

fn task_number(id: &str) -> Option<u64> {
    id.strip_prefix("bash-")?.parse().ok()
}
