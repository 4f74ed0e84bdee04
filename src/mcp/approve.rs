//! Approval by elicitation: the client's own prompt asks its user.
//!
//! | what comes back                            | outcome     |
//! |--------------------------------------------|-------------|
//! | accept                                     | allowed once|
//! | decline                                    | rejected    |
//! | cancel, time-out, withdrawal, disconnection| cancelled   |
//! | no capability, an error, an unusable answer| unavailable |

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use rmcp::{RoleServer, ServiceError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, question};

tokio::task_local! {
    /// How the call that runs in this task can reach its user.
    static ASKING: Asking;
}

/// How a call can reach its user.
#[derive(Clone)]
pub(super) enum Asking {
    /// By a request to the client.
    Directly(Peer<RoleServer>),
    /// By returning the question as the call's result and being called again.
    ByReturning(mpsc::Sender<Question>),
    /// Not at all.
    Nobody,
}

/// A question on its way to the user.
pub(super) struct Question {
    pub(super) request: ElicitRequest,
    /// Takes the answer; dropped when there will be none.
    pub(super) answer: oneshot::Sender<ApprovalOutcome>,
}

/// Runs `call` so that its questions go this way.
pub(super) async fn asking<T>(asking: Asking, call: impl Future<Output = T>) -> T {
    ASKING.scope(asking, call).await
}

/// True when the client can show a question. A bare capability means forms, as it did before there was a choice.
pub(super) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// The approver of a connection.
pub(super) struct Elicit {
    pub(super) timeout: Duration,
}

impl Approver for Elicit {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async move {
            let asking = ASKING.try_with(Clone::clone).unwrap_or(Asking::Nobody);
            match asking {
                Asking::Directly(peer) => directly(peer, elicitation(request), self.timeout, cancel).await,
                Asking::ByReturning(questions) => {
                    let (answer, answered) = oneshot::channel();
                    let question = Question { request: elicitation(request), answer };
                    if questions.send(question).await.is_err() {
                        return ApprovalOutcome::Cancelled;
                    }
                    tokio::select! {
                        outcome = answered => outcome.unwrap_or(ApprovalOutcome::Cancelled),
                        () = tokio::time::sleep(self.timeout) => ApprovalOutcome::Cancelled,
                        () = cancel.cancelled() => ApprovalOutcome::Cancelled,
                    }
                }
                Asking::Nobody => unavailable("the client has no elicitation capability"),
            }
        })
    }

    fn reachable(&self) -> bool {
        ASKING.try_with(|asking| !matches!(asking, Asking::Nobody)).unwrap_or(false)
    }
}

async fn directly(
    peer: Peer<RoleServer>,
    request: ElicitRequest,
    timeout: Duration,
    cancel: &CancellationToken,
) -> ApprovalOutcome {
    let options = PeerRequestOptions::with_timeout(timeout);
    let handle = match peer.send_cancellable_request(ServerRequest::ElicitRequest(request), options).await {
        Ok(handle) => handle,
        Err(error) => return failed(error),
    };
    let withdraw = Withdraw { peer, id: Some(handle.id.clone()) };
    tokio::select! {
        response = handle.await_response() => {
            withdraw.settled();
            match response {
                Ok(ClientResult::ElicitResult(result)) => outcome(&result),
                Ok(_) => unavailable("the client's answer is no answer to the question"),
                Err(error) => failed(error),
            }
        }
        () = cancel.cancelled() => ApprovalOutcome::Cancelled,
    }
}

/// Takes an open question back when it is dropped: whoever asked may stop waiting at any time.
struct Withdraw {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Withdraw {
    /// The question is open no longer.
    fn settled(mut self) {
        self.id = None;
    }
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        let withdrawn = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
        // Sending takes a while, which a drop has not.
        tokio::spawn(async move {
            if let Err(error) = peer.notify_cancelled(withdrawn).await {
                tracing::debug!(%error, "the question could not be withdrawn");
            }
        });
    }
}

/// What an answer that came inside a repeated call means.
pub(super) fn returned(answer: Option<&Value>) -> ApprovalOutcome {
    match answer.map(|answer| serde_json::from_value::<ElicitResult>(answer.clone())) {
        Some(Ok(result)) => outcome(&result),
        Some(Err(_)) => unavailable("the client's answer is no answer to the question"),
        None => ApprovalOutcome::Cancelled,
    }
}

fn outcome(result: &ElicitResult) -> ApprovalOutcome {
    match result.action {
        ElicitationAction::Accept => ApprovalOutcome::AllowedOnce,
        ElicitationAction::Decline => ApprovalOutcome::Rejected { reason: None },
        ElicitationAction::Cancel => ApprovalOutcome::Cancelled,
        _ => unavailable("the client's answer is of a kind that is not known here"),
    }
}

fn failed(error: ServiceError) -> ApprovalOutcome {
    match error {
        ServiceError::Timeout { .. } | ServiceError::Cancelled { .. } | ServiceError::TransportClosed => {
            ApprovalOutcome::Cancelled
        }
        error => unavailable(format!("the client could not ask: {error}")),
    }
}

fn unavailable(reason: impl Into<String>) -> ApprovalOutcome {
    ApprovalOutcome::Unavailable { reason: reason.into() }
}

/// The question as a form without fields: the answer is the button.
fn elicitation(request: &ApprovalRequest) -> ElicitRequest {
    let schema = ElicitationSchema::new(std::collections::BTreeMap::new());
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question(request),
        requested_schema: schema,
    })
}

/// The approver of a connection, shared with its tool host.
pub(super) fn approver(timeout: Duration) -> Arc<dyn Approver> {
    Arc::new(Elicit { timeout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_answer_has_its_fixed_outcome() {
        for (answer, expected) in [
            (Some(json!({"action": "accept"})), Some(ApprovalOutcome::AllowedOnce)),
            (Some(json!({"action": "accept", "content": {}})), Some(ApprovalOutcome::AllowedOnce)),
            (Some(json!({"action": "decline"})), Some(ApprovalOutcome::Rejected { reason: None })),
            (Some(json!({"action": "cancel"})), Some(ApprovalOutcome::Cancelled)),
            (None, Some(ApprovalOutcome::Cancelled)),
            (Some(json!({"action": "yes"})), None),
            (Some(json!({"content": {"accept": true}})), None),
            (Some(json!(true)), None),
        ] {
            let outcome = returned(answer.as_ref());
            match expected {
                Some(expected) => assert_eq!(outcome, expected, "{answer:?}"),
                None => assert!(matches!(outcome, ApprovalOutcome::Unavailable { .. }), "{answer:?}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn only_a_client_that_shows_forms_can_ask() {
        for (capabilities, expected) in [
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
            (json!({}), false),
        ] {
            let read: ClientCapabilities = serde_json::from_value(capabilities.clone()).unwrap();
            assert_eq!(can_ask(Some(&read)), expected, "{capabilities}");
        }
        assert!(!can_ask(None));
    }
}
