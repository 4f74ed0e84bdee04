//! The tool layer's values as the protocol's.

#![forbid(unsafe_code)]

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use crate::tool::{ToolDefinition, ToolResult};

/// A tool as it is listed.
pub(super) fn tool(definition: ToolDefinition) -> Tool {
    let hints = definition.annotations;
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only_hint)
        .destructive(hints.destructive_hint)
        .idempotent(hints.idempotent_hint)
        .open_world(hints.open_world_hint);
    let schema: JsonObject = match definition.input_schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(definition.name, definition.description, Arc::new(schema)).with_annotations(annotations)
}

/// A result: the text for the model, the same as a value beside it.
pub(super) fn result(result: ToolResult) -> CallToolResult {
    let content = vec![ContentBlock::text(result.text)];
    let mut call = if result.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    match serde_json::to_value(&result.structured) {
        Ok(value) => call.structured_content = Some(value),
        // The text says it all the same; a value that cannot be written is a path that is no UTF-8.
        Err(error) => tracing::warn!(%error, "a result has no structured form"),
    }
    call
}

/// A call that failed before it reached the tools; the model reads why.
pub(super) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}
