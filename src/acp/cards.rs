//! Cards as the protocol's tool calls. Pure: they also serve the replay of a session's log.
//!
//! An editor that draws terminals says so in `_meta.terminal_output` of its capabilities. It is given a terminal of the
//! agent's own making: announced in `_meta.terminal_info` of the call, filled by `_meta.terminal_output` of the update
//! and closed by `_meta.terminal_exit`. Any other editor is given text: the output in a fenced `console` block.
//!
//! An execute card shows neither its raw input nor a description, so the title is the command, and the description is a
//! text block above the terminal. The content of an update replaces that of the call, terminal included; therefore an
//! update of a terminal card has none.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ClientCapabilities, Content, ContentBlock, Meta, Terminal, TextContent, ToolCall, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::{Value, json};

use crate::tool::{CallCard, CardContent, ResultCard};

/// Makes the cards of one session for one editor.
#[derive(Debug, Clone)]
pub struct Cards {
    cwd: PathBuf,
    terminals: bool,
}

/// A call that was shown and has no result yet. It is consumed by its result: there is no output without a card, and no
/// terminal output without a terminal.
#[derive(Debug)]
#[must_use = "a call that was shown stays pending until its result is"]
pub struct Pending {
    id: ToolCallId,
    /// The call made a terminal.
    terminal: bool,
    /// The result is a command's output.
    console: bool,
    /// What stands above the output.
    description: Option<String>,
}

impl Pending {
    /// The id it was shown under.
    #[must_use]
    pub fn id(&self) -> &ToolCallId {
        &self.id
    }
}

impl Cards {
    /// Cards for a session in `cwd` and an editor with these capabilities.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, capabilities: &ClientCapabilities) -> Self {
        let said = capabilities.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        Self { cwd: cwd.into(), terminals: said == Some(&Value::Bool(true)) }
    }

    /// The card of a call that begins.
    pub fn begin(&self, id: impl Into<ToolCallId>, card: CallCard) -> (ToolCall, Pending) {
        let id = id.into();
        match card {
            CallCard::Terminal { title, description, cwd } => {
                self.begin_terminal(id, title, description, cwd.as_deref())
            }
            CallCard::Generic { title, raw_input, content, .. } => {
                let call = execute(id.clone(), title)
                    .raw_input(raw_input.map(Value::String))
                    .content(content.into_iter().map(block).collect::<Vec<_>>());
                (call, Pending { id, terminal: false, console: false, description: None })
            }
        }
    }

    fn begin_terminal(
        &self,
        id: ToolCallId,
        command: String,
        description: Option<String>,
        workdir: Option<&str>,
    ) -> (ToolCall, Pending) {
        let mut content: Vec<ToolCallContent> = description.iter().map(|text| text_block(text.clone())).collect();
        let mut call = execute(id.clone(), command.clone()).raw_input(Value::String(command));
        if self.terminals {
            content.push(ToolCallContent::Terminal(Terminal::new(id.to_string())));
            let cwd = workdir.map_or_else(|| self.cwd.clone(), |workdir| self.cwd.join(Path::new(workdir)));
            let info = json!({ "terminal_id": id, "cwd": cwd });
            call = call.meta(Meta::from_iter([("terminal_info".to_owned(), info)]));
        }
        (call.content(content), Pending { id, terminal: self.terminals, console: true, description })
    }

    /// The update that ends a call.
    #[must_use]
    pub fn end(pending: Pending, card: ResultCard, failed: bool) -> ToolCallUpdate {
        let status = if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let fields = ToolCallUpdateFields::new().status(status);
        let Pending { id, terminal, console, description } = pending;
        let (title, output, exit) = match card {
            ResultCard::Terminal { title, output, exit_code, signal } => {
                (title, output.unwrap_or_default(), Some((exit_code, signal)))
            }
            ResultCard::Generic { title, content } => {
                let texts: Vec<String> = content.into_iter().map(|CardContent::Text { text }| text).collect();
                (title, texts.join("\n"), None)
            }
        };
        let fields = fields.title(title);
        if terminal {
            return ToolCallUpdate::new(id.clone(), fields).meta(terminal_meta(&id, output, exit));
        }
        let output = if console && exit.is_some() { fenced(&output) } else { output };
        let content: Vec<ToolCallContent> = description.into_iter().chain([output]).map(text_block).collect();
        ToolCallUpdate::new(id, fields.content(content))
    }
}

/// Output exactly as it was, line breaks and all; no exit where no process ended.
fn terminal_meta(id: &ToolCallId, output: String, exit: Option<(Option<i32>, Option<String>)>) -> Meta {
    let mut meta = Meta::new();
    meta.insert("terminal_output".to_owned(), json!({ "terminal_id": id, "data": output }));
    if let Some((exit_code, signal)) = exit {
        let exit = json!({ "terminal_id": id, "exit_code": exit_code, "signal": signal });
        meta.insert("terminal_exit".to_owned(), exit);
    }
    meta
}

fn execute(id: ToolCallId, title: String) -> ToolCall {
    ToolCall::new(id, title).kind(ToolKind::Execute).status(ToolCallStatus::InProgress)
}

fn block(content: CardContent) -> ToolCallContent {
    let CardContent::Text { text } = content;
    text_block(text)
}

fn text_block(text: String) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// A fenced block without trailing blank lines; the fence is longer than any in the text.
fn fenced(output: &str) -> String {
    let longest = output.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}console\n{}\n{fence}", output.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{present_call, present_result};

    fn editor(terminals: bool) -> ClientCapabilities {
        let said = Meta::from_iter([("terminal_output".to_owned(), json!(terminals))]);
        ClientCapabilities::new().meta(said)
    }

    fn value(thing: impl serde::Serialize) -> Value {
        serde_json::to_value(thing).unwrap()
    }

    #[test]
    fn a_terminal_card_is_announced_filled_and_closed() {
        let args = json!({"command": "ls -la", "description": "List files", "workdir": "src"});
        let cards = Cards::new("/w", &editor(true));
        let (call, pending) = cards.begin("c1", present_call("bash", &args));
        assert_eq!(
            value(call),
            json!({
                "toolCallId": "c1", "title": "ls -la", "kind": "execute", "status": "in_progress", "rawInput": "ls -la",
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "List files"}},
                    {"type": "terminal", "terminalId": "c1"}
                ],
                "_meta": {"terminal_info": {"terminal_id": "c1", "cwd": "/w/src"}}
            })
        );
        let result = present_result("bash", &args, "a\r\nb\n\n\n[exit code: 3]", false, None);
        assert_eq!(
            value(Cards::end(pending, result, false)),
            json!({
                "toolCallId": "c1", "status": "completed",
                "_meta": {
                    "terminal_output": {"terminal_id": "c1", "data": "a\r\nb\n\n\n[exit code: 3]"},
                    "terminal_exit": {"terminal_id": "c1", "exit_code": 3, "signal": null}
                }
            })
        );
    }

    #[test]
    fn the_header_shows_where_the_command_ran() {
        for (workdir, expected) in [(json!(null), "/w"), (json!("a/b"), "/w/a/b"), (json!("/abs"), "/abs")] {
            let args = json!({"command": "pwd", "description": "d", "workdir": workdir});
            let (call, _pending) = Cards::new("/w", &editor(true)).begin("c", present_call("bash", &args));
            assert_eq!(value(call)["_meta"]["terminal_info"]["cwd"], expected);
        }
    }

    #[test]
    fn without_terminals_the_output_is_a_fenced_block_below_the_description() {
        let args = json!({"command": "ls", "description": "List"});
        for capabilities in [ClientCapabilities::new(), editor(false)] {
            let (call, pending) = Cards::new("/w", &capabilities).begin("c", present_call("bash", &args));
            let call = value(call);
            assert!(call.get("_meta").is_none() && call["content"].as_array().unwrap().len() == 1, "{call}");
            let result = present_result("bash", &args, "x ``` y\n\n", false, None);
            let update = value(Cards::end(pending, result, false));
            assert_eq!(update["content"][0]["content"]["text"], "List");
            assert_eq!(update["content"][1]["content"]["text"], "````console\nx ``` y\n````");
            assert!(update.get("_meta").is_none(), "no output for a terminal never made: {update}");
        }
    }

    #[test]
    fn a_failed_call_in_a_terminal_has_output_and_no_exit() {
        let args = json!({"command": "ls", "description": "List"});
        let (_, pending) = Cards::new("/w", &editor(true)).begin("c", present_call("bash", &args));
        let update = value(Cards::end(pending, present_result("bash", &args, "rejected", true, None), true));
        assert_eq!(update["status"], "failed");
        assert!(update.get("content").is_none(), "content would replace the terminal: {update}");
        assert_eq!(update["_meta"], json!({"terminal_output": {"terminal_id": "c", "data": "rejected"}}));
    }

    #[test]
    fn background_calls_and_tasks_make_no_terminal() {
        for (tool, args, title) in [
            ("bash", json!({"command": "sleep 9", "description": "d", "run_in_background": true}), "sleep 9"),
            ("bash_output", json!({"task_id": "bash-3"}), "Read output from background task bash-3"),
            ("bash_kill", json!({"task_id": "bash-3"}), "Kill background task bash-3"),
        ] {
            let (call, pending) = Cards::new("/w", &editor(true)).begin("c", present_call(tool, &args));
            let call = value(call);
            assert_eq!(call["title"], title);
            assert!(call.get("_meta").is_none(), "{call}");
            let update = value(Cards::end(pending, present_result(tool, &args, "text", false, None), false));
            assert_eq!(update["content"], json!([{"type": "content", "content": {"type": "text", "text": "text"}}]));
            assert!(update.get("_meta").is_none(), "{update}");
        }
    }
}
