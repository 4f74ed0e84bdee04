//! The requests the server answers.

#![forbid(unsafe_code)]
#![expect(deprecated, reason = "log levels are on their way out of the protocol; clients still set them")]

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, SetLevelRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call::call;
use super::connection::Connection;
use super::convert;

/// Methods whose parameters did not fit, told from methods that do not exist.
const KNOWN: [&str; 5] = ["initialize", "tools/call", "tools/list", "logging/setLevel", "server/discover"];

/// Answers one client.
pub(super) struct Handler {
    connection: Arc<Connection>,
    config: ServerConfig,
}

impl Handler {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let capabilities = ServerCapabilities::builder().enable_logging().enable_tools().build();
        let mut sections = connection.tools.prompt_sections(None);
        sections.sort_by_key(|section| section.order);
        let instructions: Vec<String> = sections.into_iter().map(|section| section.text).collect();
        let about =
            Implementation::new("stockade", env!("CARGO_PKG_VERSION")).with_title("stockade: confined shell commands");
        let config = ServerConfig::new(capabilities)
            .with_server_info(about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_instructions(instructions.join("\n\n"));
        Self { connection, config }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.config.clone()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.connection.tools.definitions().into_iter().map(convert::tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call(&self.connection, request, context).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.connection.notices.set_least(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        Arc::clone(&self.connection.notices).follow(context.peer).await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if KNOWN.contains(&request.method.as_str()) {
            return Err(ErrorData::invalid_params("the parameters do not fit the method; nothing was run", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no such method", None))
    }
}
