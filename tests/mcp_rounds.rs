//! The server as a library, over an executor without a kernel behind it: questions that time out, answers that do not
//! fit, calls in rounds without the handshake, and input that nobody would send.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod mcp_support;
mod support;

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

use mcp_support::{Wire, bash, meta, wider};
use proptest::prelude::*;
use serde_json::{Value, json};
use stockade::mcp::{McpOptions, serve};
use stockade::policy::SandboxMode::ReadOnly;
use stockade::tool::ProtectedList;
use support::FakeExecutor;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Panics of servers. The runtime catches those of its tasks, and they run on the thread that serves.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() == Some("served") {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(panic);
        }));
    });
}

struct Served {
    wire: Wire,
    thread: Option<JoinHandle<()>>,
    executor: Arc<FakeExecutor>,
    workspace: TempDir,
}

impl Served {
    fn new(question_timeout: Duration) -> Self {
        count_panics();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (workspace, executor) = (TempDir::new().unwrap(), FakeExecutor::confining(ReadOnly));
        let mut options = McpOptions::new(workspace.path(), Arc::new(ProtectedList::default()));
        options.question_timeout = question_timeout;
        options.home = Some("/nonexistent/home".into());
        let served = executor.clone();
        let thread = std::thread::Builder::new().name("served".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                theirs.set_nonblocking(true).unwrap();
                let (read, write) = tokio::net::UnixStream::from_std(theirs).unwrap().into_split();
                serve(served, options, read, write, CancellationToken::new()).await.unwrap();
            });
        });
        let thread = thread.unwrap();
        let closing = ours.try_clone().unwrap();
        let wire = Wire::over(ours.try_clone().unwrap(), Closing(closing));
        Self { wire, thread: Some(thread), executor, workspace }
    }

    /// A call without the handshake.
    fn round(&mut self, tool: &str, arguments: Value, more: Value) -> Value {
        let mut params = json!({ "name": tool, "arguments": arguments, "_meta": meta(&json!({ "elicitation": {} })) });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.wire.ask("tools/call", params)
    }

    fn ran(&self) -> usize {
        self.executor.ran().len()
    }

    /// Hangs up; the server must end without a panic.
    fn end(mut self) {
        self.wire.hang_up();
        self.thread.take().unwrap().join().unwrap();
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a task of a server panicked");
    }
}

/// Shuts the connection down when it is dropped: a clone of a socket keeps it open otherwise.
struct Closing(UnixStream);

impl std::io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_question_nobody_answers_is_withdrawn_in_time() {
    let mut served = Served::new(Duration::from_millis(200));
    served.wire.handshake(json!({ "elicitation": {} }));
    let id = served.wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch a") }));
    let answer = served.wire.answer(id);
    assert_eq!(answer["result"]["structuredContent"]["code"], "cancelled", "{answer}");
    let methods: Vec<&Value> = served.wire.others.iter().map(|message| &message["method"]).collect();
    assert_eq!(methods, ["elicitation/create", "notifications/cancelled"]);
    assert_eq!(served.ran(), 0);
    served.end();
}

#[test]
fn only_an_explicit_accept_runs_anything() {
    for (answer, code) in [
        (json!({ "result": { "action": "accept", "content": {} } }), None),
        (json!({ "result": { "action": "decline" } }), Some("rejected")),
        (json!({ "result": { "action": "cancel" } }), Some("cancelled")),
        (json!({ "result": { "action": "perhaps" } }), Some("unavailable")),
        (json!({ "result": {} }), Some("unavailable")),
        (json!({ "result": { "content": { "action": "accept" } } }), Some("unavailable")),
        (json!({ "error": { "code": -32603, "message": "no window" } }), Some("unavailable")),
    ] {
        let mut served = Served::new(LONG);
        served.wire.handshake(json!({ "elicitation": {} }));
        let id = served.wire.request("tools/call", json!({ "name": "bash", "arguments": wider("touch a") }));
        let question = served.wire.next().unwrap();
        let mut reply = json!({ "jsonrpc": "2.0", "id": question["id"] });
        reply.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        served.wire.send(&reply);
        let result = served.wire.answer(id);
        assert_eq!(result["result"]["structuredContent"]["code"].as_str(), code, "{answer}: {result}");
        let accepted = code.is_none();
        assert_eq!((served.ran(), served.workspace.path().join("a").exists()), (usize::from(accepted), accepted));
        served.end();
    }
}

#[test]
fn a_call_in_rounds_runs_once_and_only_as_it_was_shown() {
    let mut served = Served::new(LONG);
    let accept = json!({ "approval": { "action": "accept", "content": {} } });
    let asked = served.round("bash", wider("touch a"), json!({}));
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let question = &result["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("touch a"), "{question}");
    let state = result["requestState"].clone();

    // Another command under the same state: refused, and the question is gone.
    let swapped = served.round("bash", wider("touch b"), json!({ "requestState": state, "inputResponses": accept }));
    assert_eq!(swapped["error"]["code"], -32602, "{swapped}");
    let late = served.round("bash", wider("touch a"), json!({ "requestState": state, "inputResponses": accept }));
    assert_eq!(late["error"]["code"], -32602, "{late}");
    let invented = served.round("bash", wider("touch a"), json!({ "requestState": "0", "inputResponses": accept }));
    assert_eq!(invented["error"]["code"], -32602, "{invented}");
    // An answer to a question that was not asked.
    let unasked = served.round("bash", wider("touch a"), json!({ "inputResponses": accept }));
    assert_eq!(unasked["result"]["resultType"], "input_required", "{unasked}");
    assert_eq!(served.ran(), 0);

    let state = unasked["result"]["requestState"].clone();
    let done = served.round("bash", wider("touch a"), json!({ "requestState": state, "inputResponses": accept }));
    assert_eq!(done["result"]["structuredContent"]["type"], "run", "{done}");
    let again = served.round("bash", wider("touch a"), json!({ "requestState": state, "inputResponses": accept }));
    assert_eq!(again["error"]["code"], -32602, "a state works once: {again}");
    assert_eq!((served.ran(), served.workspace.path().join("a").exists()), (1, true));
    served.end();
}

#[test]
fn an_answer_without_the_answer_runs_nothing() {
    let mut served = Served::new(LONG);
    for (responses, code) in [
        (json!({}), "cancelled"),
        (json!({ "approval": { "action": "decline" } }), "rejected"),
        (json!({ "approval": true }), "unavailable"),
    ] {
        let command = format!("touch {code}");
        let asked = served.round("bash", wider(&command), json!({}));
        let state = asked["result"]["requestState"].clone();
        let done = served.round("bash", wider(&command), json!({ "requestState": state, "inputResponses": responses }));
        assert_eq!(done["result"]["structuredContent"]["code"], code, "{done}");
    }
    assert_eq!(served.ran(), 0);
    served.end();
}

#[test]
fn a_round_that_is_never_taken_up_expires() {
    let mut served = Served::new(Duration::from_millis(200));
    let asked = served.round("bash", wider("touch a"), json!({}));
    std::thread::sleep(Duration::from_millis(600));
    let more = json!({
        "requestState": asked["result"]["requestState"],
        "inputResponses": { "approval": { "action": "accept", "content": {} } },
    });
    let late = served.round("bash", wider("touch a"), more);
    assert_eq!(late["result"]["structuredContent"]["code"], "cancelled", "{late}");
    // More open questions than are kept: the oldest give way, and nothing runs.
    let first = served.round("bash", wider("touch 0"), json!({}))["result"]["requestState"].clone();
    for n in 1..70 {
        assert_eq!(
            served.round("bash", wider(&format!("touch {n}")), json!({}))["result"]["resultType"],
            "input_required"
        );
    }
    let gone = served.round("bash", wider("touch 0"), json!({ "requestState": first, "inputResponses": {} }));
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    assert_eq!(served.ran(), 0);
    served.end();
}

#[test]
fn one_answer_is_lost_on_nobody_else() {
    // Two questions at once, answered in the other order.
    let mut served = Served::new(LONG);
    served.wire.handshake(json!({ "elicitation": {} }));
    let ids = ["a", "b"].map(|name| {
        served.wire.request("tools/call", json!({ "name": "bash", "arguments": wider(&format!("touch {name}")) }))
    });
    let questions = [served.wire.next().unwrap(), served.wire.next().unwrap()];
    for question in questions.iter().rev() {
        let about_a = question["params"]["message"].as_str().unwrap().contains("touch a");
        let action = if about_a { "decline" } else { "accept" };
        served.wire.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": action } }));
    }
    assert_eq!(served.wire.answer(ids[0])["result"]["isError"], true);
    assert_eq!(served.wire.answer(ids[1])["result"]["isError"], false);
    let there = |name: &str| served.workspace.path().join(name).exists();
    assert_eq!((there("a"), there("b")), (false, true));
    served.end();
}

fn a_message() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!(null)), Just(json!(1.5)), Just(json!({}))];
    let method = prop_oneof![
        Just("tools/call"),
        Just("tools/list"),
        Just("initialize"),
        Just("ping"),
        Just("notifications/cancelled"),
        Just("notifications/initialized"),
        Just("server/discover"),
        Just("logging/setLevel"),
        Just("x")
    ];
    let command =
        prop_oneof![Just(bash("true")), Just(wider("true")), Just(json!({})), Just(json!([1])), Just(json!(7))];
    let tool = prop_oneof![Just("bash"), Just("bash_output"), Just("bash_kill"), Just("")];
    let shaped = (id, method, command, tool, any::<bool>(), any::<bool>()).prop_map(
        |(id, method, arguments, tool, modern, with_id)| {
            let mut params = json!({
                "name": tool, "arguments": arguments, "requestId": 1, "level": "info", "protocolVersion": "2025-11-25",
                "capabilities": { "elicitation": {}, "roots": {} }, "clientInfo": { "name": "t", "version": "1" },
            });
            if modern {
                params["_meta"] = meta(&json!({ "elicitation": {}, "roots": {} }));
            }
            let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            if with_id {
                message["id"] = id;
            }
            message.to_string().into_bytes()
        },
    );
    prop_oneof![3 => shaped, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes, the server answers only in the protocol, does not panic, and ends when the client does.
    #[test]
    fn no_input_breaks_the_server(messages in prop::collection::vec(a_message(), 0..20)) {
        let mut served = Served::new(Duration::from_millis(50));
        for message in &messages {
            // The server may have ended the connection; that is its right.
            let mut line = message.clone();
            line.push(b'\n');
            served.wire.raw(&line);
        }
        served.wire.hang_up();
        while served.wire.next().is_some() {}
        served.end();
    }
}
