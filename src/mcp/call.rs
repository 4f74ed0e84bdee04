//! One call of a tool, from the request to its result.

#![forbid(unsafe_code)]
#![expect(deprecated, reason = "roots are on their way out of the protocol; clients still offer them")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, InputRequest, InputRequests, InputRequiredResult, JsonObject,
    ListRootsRequest, ListRootsResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::approve::{Asking, asking, can_ask};
use super::connection::Connection;
use super::progress::reporting;
use super::rounds::{Round, answer_in};
use super::{convert, roots};
use crate::session::Session;
use crate::tool::{BASH, BASH_KILL, BASH_OUTPUT};

/// How long a client may take to tell its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the roots in the client's answer.
const ROOTS: &str = "roots";

/// How the client of a request is talked to.
struct Client {
    context: RequestContext<RoleServer>,
    /// The revision without the handshake: the server sends no requests.
    returns: bool,
    offers_roots: bool,
    can_ask: bool,
}

impl Client {
    fn of(context: RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities();
        let version = context.protocol_version();
        Self {
            returns: version.is_some_and(|version: ProtocolVersion| !version.has_initialize()),
            offers_roots: capabilities.as_ref().is_some_and(|capabilities| capabilities.roots.is_some()),
            can_ask: can_ask(capabilities.as_ref()),
            context,
        }
    }

    /// The client's first usable root, asked for directly.
    async fn root(&self) -> Option<PathBuf> {
        match tokio::time::timeout(ROOTS_TIMEOUT, self.context.peer.list_roots()).await {
            Ok(Ok(listed)) => usable(&listed),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the client offers roots and does not tell them");
                None
            }
            Err(_) => {
                tracing::warn!("the client offers roots and takes too long to tell them");
                None
            }
        }
    }
}

fn usable(listed: &ListRootsResult) -> Option<PathBuf> {
    roots::workspace(listed.roots.iter().map(|root| root.uri.as_str()))
}

/// Performs a call.
pub(super) async fn call(
    connection: &Arc<Connection>,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
    if ![BASH, BASH_OUTPUT, BASH_KILL].contains(&name.as_ref()) {
        return Err(ErrorData::invalid_params("unknown tool; tools/list names the tools", None));
    }
    let arguments = arguments.unwrap_or_default();
    let client = Client::of(context);
    let session = match connection.session() {
        Some(session) => session,
        None => {
            let told = input_responses.as_ref().and_then(|responses| responses.get(ROOTS));
            let root = match (client.offers_roots, client.returns, told) {
                (true, true, None) if input_responses.is_none() => return Ok(ask_for_roots()),
                (true, true, told) => told.and_then(read_roots).as_ref().and_then(usable),
                (true, false, _) => client.root().await,
                (false, _, _) => None,
            };
            match connection.open(root).await {
                Ok(session) => session,
                Err(error) => return Ok(convert::failed(format!("no session: {error}; nothing was run")).into()),
            }
        }
    };
    let least = client.context.meta.log_level();
    let peer = client.context.peer.clone();
    let returns = client.returns;
    let token = client.context.meta.get_progress_token();
    let work = async {
        match (&request_state, client.returns) {
            (Some(handle), _) => {
                let answer = answer_in(input_responses.as_ref());
                connection.rounds.resume(handle, &name, &arguments, answer, &client.context.ct).await
            }
            (None, true) if client.can_ask => {
                by_rounds(connection, session, &name, arguments, &client.context.ct).await
            }
            (None, _) => directly(connection, session, &name, arguments, &client).await,
        }
    };
    let response = reporting(&peer, token, connection.progress_every, work).await;
    if returns {
        connection.notices.flush(&peer, least).await;
    }
    response
}

async fn directly(
    connection: &Connection,
    session: &Session,
    tool: &str,
    arguments: JsonObject,
    client: &Client,
) -> Result<CallToolResponse, ErrorData> {
    let way = if client.can_ask { Asking::Directly(client.context.peer.clone()) } else { Asking::Nobody };
    let cancel = &client.context.ct;
    let result = asking(way, perform(connection, session, tool, arguments, cancel)).await;
    Ok(convert::result(result).into())
}

/// In a task of its own, which outlives the request when the call has a question.
async fn by_rounds(
    connection: &Arc<Connection>,
    session: &Arc<Session>,
    tool: &str,
    arguments: JsonObject,
    cancelled: &CancellationToken,
) -> Result<CallToolResponse, ErrorData> {
    let (ask, questions) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    let done = {
        let (connection, session, cancel) = (Arc::clone(connection), Arc::clone(session), cancel.clone());
        let (tool, arguments) = (tool.to_owned(), arguments.clone());
        tokio::spawn(async move {
            let work = perform(&connection, &session, &tool, arguments, &cancel);
            asking(Asking::ByReturning(ask), work).await
        })
    };
    let guard = cancel.clone().drop_guard();
    let round = Round { tool: tool.to_owned(), arguments, questions, done, cancel, _guard: guard };
    connection.rounds.follow(round, cancelled).await
}

/// The call itself. Those that run something wait their turn; a look at a task, or the end of one, never waits.
async fn perform(
    connection: &Connection,
    session: &Session,
    tool: &str,
    arguments: JsonObject,
    cancel: &CancellationToken,
) -> crate::tool::ToolResult {
    let _turn = if tool == BASH {
        tokio::select! {
            turn = connection.budget.turn() => turn,
            // The tool layer tells a cancelled call in its own words.
            () = cancel.cancelled() => None,
        }
    } else {
        None
    };
    connection.tools.call(Some(session), tool, Value::Object(arguments), cancel).await
}

fn ask_for_roots() -> CallToolResponse {
    let requests = InputRequests::from([(ROOTS.to_owned(), InputRequest::ListRoots(ListRootsRequest::default()))]);
    InputRequiredResult::from_input_requests(requests).into()
}

fn read_roots(told: &Value) -> Option<ListRootsResult> {
    serde_json::from_value(told.clone()).ok()
}
