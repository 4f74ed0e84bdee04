//! Approval over `session/request_permission`.
//!
//! | what comes back                              | outcome      |
//! |----------------------------------------------|--------------|
//! | the option that allows once                  | allowed once |
//! | the option that rejects                      | rejected     |
//! | cancelled, time-out, withdrawal, closed      | cancelled    |
//! | an error, an option that was not offered     | unavailable  |

#![forbid(unsafe_code)]

use std::time::Duration;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    Content, ContentBlock, PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SessionId, TextContent, ToolCallContent, ToolCallId, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use tokio_util::sync::CancellationToken;

use crate::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, question};

const ALLOW: &str = "allow-once";
const REJECT: &str = "reject-once";

tokio::task_local! {
    /// How the call that runs in this task can reach its user.
    static ASKING: Asking;
}

/// How a call can reach its user.
#[derive(Clone)]
pub struct Asking {
    /// The connection to the editor.
    pub connection: ConnectionTo<Client>,
    /// The editor's session.
    pub session: SessionId,
    /// The call that asks, as it was shown.
    pub tool_call: ToolCallId,
}

/// Runs `call` so that its question goes this way. It must run in the same task: what it spawns cannot ask.
pub async fn asking<T>(asking: Asking, call: impl Future<Output = T>) -> T {
    ASKING.scope(asking, call).await
}

/// Asks through the editor's own prompt. One serves every session of an agent; each call tells it the way with
/// [`asking`].
#[derive(Debug, Clone)]
pub struct PermissionApprover {
    /// How long a question stands before it is withdrawn.
    pub timeout: Duration,
}

impl Default for PermissionApprover {
    /// Questions stand for ten minutes.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(600) }
    }
}

impl Approver for PermissionApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async move {
            let Ok(asking) = ASKING.try_with(Clone::clone) else {
                return unavailable("this call is not one that the editor was shown");
            };
            let asked = permission(&asking, request);
            // Dropped unanswered, it is withdrawn with `$/cancel_request`.
            let answer = asking.connection.send_request(asked).block_task();
            tokio::select! {
                biased;
                () = cancel.cancelled() => ApprovalOutcome::Cancelled,
                () = tokio::time::sleep(self.timeout) => ApprovalOutcome::Cancelled,
                answer = answer => match answer {
                    Ok(response) => outcome(&response.outcome),
                    Err(_) if asking.connection.is_incoming_closed() => ApprovalOutcome::Cancelled,
                    Err(error) => unavailable(format!("the editor could not ask: {error}")),
                },
            }
        })
    }
}

fn outcome(outcome: &RequestPermissionOutcome) -> ApprovalOutcome {
    match outcome {
        RequestPermissionOutcome::Cancelled => ApprovalOutcome::Cancelled,
        RequestPermissionOutcome::Selected(selected) => match &*selected.option_id.0 {
            ALLOW => ApprovalOutcome::AllowedOnce,
            REJECT => ApprovalOutcome::Rejected { reason: None },
            _ => unavailable("the editor chose what was not offered"),
        },
        _ => unavailable("the editor's answer is of a kind that is not known here"),
    }
}

fn unavailable(reason: impl Into<String>) -> ApprovalOutcome {
    ApprovalOutcome::Unavailable { reason: reason.into() }
}

/// The question. There is no option to allow for good: an approval holds for one call.
fn permission(asking: &Asking, request: &ApprovalRequest) -> RequestPermissionRequest {
    let text = ContentBlock::Text(TextContent::new(question(request)));
    let fields = ToolCallUpdateFields::new()
        .title(request.command.clone())
        .kind(ToolKind::Execute)
        .content(vec![ToolCallContent::Content(Content::new(text))]);
    let call = ToolCallUpdate::new(asking.tool_call.clone(), fields);
    let options = vec![
        PermissionOption::new(ALLOW, "Allow this one run", PermissionOptionKind::AllowOnce),
        PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ];
    RequestPermissionRequest::new(asking.session.clone(), call, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::SelectedPermissionOutcome;

    #[test]
    fn only_the_option_that_allows_allows() {
        let selected =
            |option: &'static str| RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
        assert_eq!(outcome(&selected(ALLOW)), ApprovalOutcome::AllowedOnce);
        assert_eq!(outcome(&selected(REJECT)), ApprovalOutcome::Rejected { reason: None });
        assert_eq!(outcome(&RequestPermissionOutcome::Cancelled), ApprovalOutcome::Cancelled);
        assert!(matches!(outcome(&selected("allow-always")), ApprovalOutcome::Unavailable { .. }));
    }
}
