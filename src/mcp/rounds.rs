//! Calls that wait for their user between two requests (`input_required`, revision 2026-07-28).
//!
//! A call that asks goes on living here under a handle that cannot be guessed; the client calls again with the handle and
//! the answer. A handle works once, and only for the same tool with the same arguments: what runs is what was shown.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, InputRequest, InputRequests, InputRequiredResult, JsonObject};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::approve::Question;
use super::{approve, convert};
use crate::approval::ApprovalOutcome;
use crate::tool::ToolResult;

/// Name of the question in the client's answer.
const APPROVAL: &str = "approval";
/// Calls that may wait for their users at once; the longest waiting gives way.
const WAITING: usize = 64;

/// A call in a task of its own, with the questions it asks.
pub(super) struct Round {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) done: JoinHandle<ToolResult>,
    pub(super) cancel: CancellationToken,
    /// Dropping the round cancels the call.
    pub(super) _guard: DropGuard,
}

struct Waiting {
    handle: String,
    answer: oneshot::Sender<ApprovalOutcome>,
    round: Round,
}

/// The waiting calls of one connection.
#[derive(Default)]
pub(super) struct Rounds(Mutex<VecDeque<Waiting>>);

impl Rounds {
    /// Follows a call to its result or its next question; `cancelled` is the request's.
    pub(super) async fn follow(
        &self,
        mut round: Round,
        cancelled: &CancellationToken,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::select! {
            biased;
            Some(question) = round.questions.recv() => self.put(round, question),
            done = &mut round.done => finished(done),
            () = cancelled.cancelled() => {
                round.cancel.cancel();
                finished(round.done.await)
            }
        }
    }

    /// Takes up a waiting call with the answer that came.
    pub(super) async fn resume(
        &self,
        handle: &str,
        tool: &str,
        arguments: &JsonObject,
        answer: Option<&serde_json::Value>,
        cancelled: &CancellationToken,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(waiting) = self.take(handle) else {
            return Err(ErrorData::invalid_params(
                "this requestState is not, or no longer, known; nothing was run",
                None,
            ));
        };
        if waiting.round.tool != tool || waiting.round.arguments != *arguments {
            return Err(ErrorData::invalid_params(
                "the call differs from the one the user was asked about; the question is withdrawn and nothing was run",
                None,
            ));
        }
        if waiting.answer.send(approve::returned(answer)).is_err() {
            tracing::debug!("the question had been withdrawn when its answer came");
        }
        self.follow(waiting.round, cancelled).await
    }

    /// Withdraws every question.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn put(&self, round: Round, question: Question) -> Result<CallToolResponse, ErrorData> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| ErrorData::internal_error(format!("no random bytes: {error}; nothing was run"), None))?;
        let handle: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut waiting = self.lock();
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back(Waiting { handle: handle.clone(), answer: question.answer, round });
        let requests = InputRequests::from([(APPROVAL.to_owned(), InputRequest::Elicitation(question.request))]);
        Ok(InputRequiredResult::new(Some(requests), Some(handle)).into())
    }

    fn take(&self, handle: &str) -> Option<Waiting> {
        let mut waiting = self.lock();
        let at = waiting.iter().position(|waiting| waiting.handle == handle)?;
        waiting.remove(at)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer in a repeated call.
pub(super) fn answer_in(responses: Option<&rmcp::model::InputResponses>) -> Option<&serde_json::Value> {
    responses.and_then(|responses| responses.get(APPROVAL))
}

fn finished(done: Result<ToolResult, tokio::task::JoinError>) -> Result<CallToolResponse, ErrorData> {
    match done {
        Ok(result) => Ok(convert::result(result).into()),
        Err(error) => Err(ErrorData::internal_error(format!("the call's task failed: {error}"), None)),
    }
}
