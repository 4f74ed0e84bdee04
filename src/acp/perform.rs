//! One call of a tool, shown to the editor from its beginning to its end.

#![forbid(unsafe_code)]

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate, ToolCallId};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::approve::{Asking, asking};
use super::cards::Cards;
use crate::session::Session;
use crate::tool::{ToolHost, ToolResult, present_call};

/// A call of a tool in an editor's session.
pub struct Call<'a> {
    /// The connection to the editor.
    pub connection: &'a ConnectionTo<Client>,
    /// The editor's session.
    pub session_id: &'a SessionId,
    /// Makes the cards.
    pub cards: &'a Cards,
    /// The session the call belongs to.
    pub session: &'a Session,
    /// Id of the call, unique in the editor's session.
    pub id: ToolCallId,
    /// Name of the tool.
    pub tool: &'a str,
    /// The model's arguments.
    pub args: Value,
}

/// Shows the call, performs it, shows the result. A question to the user goes to the editor when the host has a
/// [`PermissionApprover`](super::PermissionApprover).
///
/// # Errors
/// When the connection is gone. Whatever else goes wrong is a result.
pub async fn perform(
    host: &ToolHost,
    call: Call<'_>,
    cancel: &CancellationToken,
) -> Result<ToolResult, agent_client_protocol::Error> {
    let Call { connection, session_id, cards, session, id, tool, args } = call;
    let show = |update| connection.send_notification(SessionNotification::new(session_id.clone(), update));
    let (card, pending) = cards.begin(id.clone(), present_call(tool, &args));
    show(SessionUpdate::ToolCall(card))?;
    let way = Asking { connection: connection.clone(), session: session_id.clone(), tool_call: id };
    let result = asking(way, host.call(Some(session), tool, args, cancel)).await;
    show(SessionUpdate::ToolCallUpdate(Cards::end(pending, result.card.clone(), result.is_error)))?;
    Ok(result)
}
