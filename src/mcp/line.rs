//! One line of input: a message, an error to answer with, or nothing to speak of.

#![forbid(unsafe_code)]

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Longest line that is parsed as a message, bytes. The longest usable call, a command of 128 KiB with every character
/// written as an escape, stays below it.
pub(super) const MESSAGE_MAX: usize = 2 << 20;
/// Longest line that is kept at all, bytes: long enough to find the id in it and answer.
pub(super) const LINE_MAX: usize = 16 << 20;

/// What a line comes to.
pub(super) enum Line {
    /// A message.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// An error to send, with the id of the request when it could be told.
    Answer(ErrorData, Option<RequestId>),
    /// Nothing: an empty line, or an unusable message that wants no answer.
    Nothing,
}

/// The part of a message that says who wants an answer.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<IgnoredAny>,
}

/// Reads one line, without its line break.
pub(super) fn read(line: &[u8]) -> Line {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xEF\xBB\xBF".as_slice()).unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return Line::Nothing;
    }
    if line.len() > MESSAGE_MAX {
        let text = format!("a message of {} bytes is longer than the limit of {MESSAGE_MAX}", line.len());
        return refuse(line, ErrorData::invalid_params(text, None));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(error) if error.is_syntax() || error.is_eof() => Line::Answer(parse_error(), None),
        Err(_) => refuse(line, ErrorData::invalid_request("not a JSON-RPC 2.0 message of this protocol", None)),
    }
}

/// What is answered to a line that is longer than [`LINE_MAX`].
pub(super) fn too_long() -> (ErrorData, Option<RequestId>) {
    (ErrorData::invalid_request(format!("a line is longer than the limit of {LINE_MAX} bytes"), None), None)
}

fn parse_error() -> ErrorData {
    ErrorData::new(ErrorCode::PARSE_ERROR, "not JSON", None)
}

/// The error to a request; nothing to a notification or a response.
fn refuse(line: &[u8], error: ErrorData) -> Line {
    match serde_json::from_slice::<Envelope>(line) {
        Ok(Envelope { id: Some(id), method: Some(_) }) => Line::Answer(error, Some(id)),
        Ok(Envelope { id: None, method: Some(_) }) => Line::Nothing,
        Ok(Envelope { id: Some(_), method: None }) if line.len() > MESSAGE_MAX => Line::Nothing,
        Ok(_) => Line::Answer(error, None),
        Err(error) if error.is_syntax() || error.is_eof() => Line::Answer(parse_error(), None),
        Err(_) => Line::Answer(ErrorData::invalid_request("not a JSON-RPC 2.0 message", None), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &[u8]) -> (Option<i32>, Option<RequestId>) {
        match read(line) {
            Line::Answer(error, id) => (Some(error.code.0), id),
            Line::Message(_) | Line::Nothing => (None, None),
        }
    }

    #[test]
    fn each_kind_of_wrong_has_its_error() {
        let seven = Some(RequestId::Number(7));
        for (line, expected) in [
            (&b"{"[..], (Some(-32700), None)),
            (b"\xff\xfe", (Some(-32700), None)),
            (b"[]", (Some(-32600), None)),
            (b"42", (Some(-32600), None)),
            (b"{}", (Some(-32600), None)),
            (br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, (Some(-32600), seven.clone())),
            (br#"{"jsonrpc":"2.0","id":null,"method":5}"#, (None, None)),
            (b"  ", (None, None)),
            (b"\r", (None, None)),
        ] {
            assert_eq!(code(line), expected, "{}", String::from_utf8_lossy(line));
        }
        let long = format!(
            r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"x":"{}"}},"id":7}}"#,
            "y".repeat(MESSAGE_MAX)
        );
        assert_eq!(code(long.as_bytes()), (Some(-32602), seven));
        assert!(matches!(read(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), Line::Message(_)), "the control");
    }
}
