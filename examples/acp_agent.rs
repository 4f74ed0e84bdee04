//! An agent for editors that speak the Agent Client Protocol, with no model in it: each prompt is run as a command.
//!
//! Point an editor at `cargo run --example acp_agent` (or at the built binary). Commands run read-only in the session's
//! directory. When one is denied something that a wider mode would allow, the agent asks for that mode, so that the
//! editor's permission prompt is seen; `--mode workspace-write` starts wider. `/background COMMAND` leaves a command
//! running, `/output TASK` shows what it printed since, `/kill TASK` ends it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientCapabilities, ContentBlock, Implementation, InitializeRequest,
    InitializeResponse, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionId, StopReason,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error, on_receive_notification, on_receive_request};
use serde_json::json;
use stockade::acp::{Call, Cards, PermissionApprover, perform};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};
use stockade::session::Session;
use stockade::tool::{BASH, BASH_KILL, BASH_OUTPUT, PolicyProtection, ToolHost, ToolOutput, ToolResult};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

/// One session of the editor.
struct Open {
    session: Session,
    cards: Cards,
    turn: Mutex<CancellationToken>,
    calls: Mutex<u64>,
}

struct State {
    host: ToolHost,
    editor: Mutex<ClientCapabilities>,
    open: Mutex<HashMap<SessionId, Arc<Open>>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The launcher is this same executable, started anew.
    stockade::launcher::enter();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(serve());
    runtime.shutdown_background();
    served
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let state = Arc::new(State { host: host(mode()?)?, editor: Mutex::default(), open: Mutex::default() });
    let (on_init, on_new, on_prompt, on_cancel) = (state.clone(), state.clone(), state.clone(), state.clone());
    let streams = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let served = Agent
        .v1()
        .name("stockade-example-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                *lock(&on_init.editor) = request.client_capabilities;
                let about = Implementation::new("stockade-example-agent", env!("CARGO_PKG_VERSION"));
                let response = InitializeResponse::new(request.protocol_version);
                responder.respond(response.agent_capabilities(AgentCapabilities::new()).agent_info(about))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| match on_new.open_session(request.cwd) {
                Ok(id) => responder.respond(NewSessionResponse::new(id)),
                Err(error) => responder.respond_with_error(Error::invalid_params().data(error.to_string())),
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                // A command takes its time, and the connection must go on being read meanwhile.
                let state = on_prompt.clone();
                let turn = connection.clone();
                connection.spawn(async move {
                    match state.turn(request, &turn).await {
                        Ok(reason) => responder.respond(PromptResponse::new(reason)),
                        Err(error) => responder.respond_with_error(error),
                    }
                })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _| {
                if let Some(open) = lock(&on_cancel.open).get(&cancel.session_id) {
                    lock(&open.turn).cancel();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(streams)
        .await;
    // The editor is gone: so is everything it started.
    state.host.dispose().await;
    Ok(served?)
}

impl State {
    fn open_session(&self, cwd: PathBuf) -> Result<SessionId, Box<dyn std::error::Error>> {
        let session = Session::in_memory(stockade::session::SessionId::generate(), cwd)?;
        let id = SessionId::new(session.id().as_str());
        let cards = Cards::new(session.cwd(), &lock(&self.editor));
        let open = Open { session, cards, turn: Mutex::default(), calls: Mutex::default() };
        lock(&self.open).insert(id.clone(), Arc::new(open));
        Ok(id)
    }

    /// Runs the prompt; when it was denied and a wider mode would do, asks for that.
    async fn turn(&self, request: PromptRequest, connection: &ConnectionTo<Client>) -> Result<StopReason, Error> {
        let open = lock(&self.open).get(&request.session_id).cloned();
        let open = open.ok_or_else(|| Error::invalid_params().data("unknown session"))?;
        let cancel = CancellationToken::new();
        *lock(&open.turn) = cancel.clone();
        let (tool, mut args) = tool_call(&text(&request.prompt));
        let result = self.call(&open, &request.session_id, connection, (tool, args.clone()), &cancel).await?;
        if let Some(mode) = wider(&result) {
            args["sandbox_permissions"] = json!(mode.as_str());
            args["justification"] = json!("The command was denied an access that this mode allows.");
            self.call(&open, &request.session_id, connection, (tool, args), &cancel).await?;
        }
        Ok(if cancel.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn })
    }

    async fn call(
        &self,
        open: &Open,
        session_id: &SessionId,
        connection: &ConnectionTo<Client>,
        (tool, args): (&str, serde_json::Value),
        cancel: &CancellationToken,
    ) -> Result<ToolResult, Error> {
        let id = {
            let mut calls = lock(&open.calls);
            *calls += 1;
            format!("call-{calls}").into()
        };
        let (session, cards) = (&open.session, &open.cards);
        let call = Call { connection, session_id, cards, session, id, tool, args };
        perform(&self.host, call, cancel).await
    }
}

/// The widest mode that the blocking denials call for; none when one of them has no cure.
fn wider(result: &ToolResult) -> Option<SandboxMode> {
    let ToolOutput::Run(run) = &result.structured else { return None };
    let denials = run.sandbox.iter().flat_map(|report| &report.denials).filter(|denial| denial.blocking);
    let modes: Option<Vec<SandboxMode>> = denials.map(|denial| denial.widen_to).collect();
    modes?.into_iter().max()
}

/// The tool that a prompt means, and its arguments.
fn tool_call(prompt: &str) -> (&'static str, serde_json::Value) {
    match prompt.split_once(' ') {
        Some(("/output", task)) => (BASH_OUTPUT, json!({ "task_id": task })),
        Some(("/kill", task)) => (BASH_KILL, json!({ "task_id": task })),
        Some(("/background", command)) => {
            let description = "Leave the prompt running as a command";
            (BASH, json!({ "command": command, "description": description, "run_in_background": true }))
        }
        _ => (BASH, json!({ "command": prompt, "description": "Run the prompt as a command" })),
    }
}

fn text(prompt: &[ContentBlock]) -> String {
    let texts = prompt.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn mode() -> Result<SandboxMode, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (None, _) => Ok(SandboxMode::ReadOnly),
        (Some("--mode"), Some(mode)) => Ok(mode.parse()?),
        _ => Err("usage: acp_agent [--mode MODE]".into()),
    }
}

fn host(mode: SandboxMode) -> Result<ToolHost, Box<dyn std::error::Error>> {
    let paths = HostPaths::of_process()?;
    let policy = LayeredPolicy::new(PolicyRequest::new(Some(mode), paths.cwd.clone()), paths)?;
    let mut config = SandboxedConfig::new(Arc::new(policy.clone()));
    config.grace = Duration::from_millis(500);
    let executor = SandboxedExecutor::new(config)?;
    let guard = PolicyProtection::new(move |workspace| policy.of_writing(workspace));
    let builder = ToolHost::builder(Arc::new(executor)).protected_paths(Arc::new(guard));
    Ok(builder.approver(Arc::new(PermissionApprover::default())).build()?)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
