//! A host asked for through the tools: refused, told, granted for one call, and refused again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, unreachable_pub, reason = "the example is a crate root of its own")]
#[path = "../examples/harness.rs"]
mod harness;
mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stockade::approval::{ApprovalOutcome, Asks};
use stockade::launcher::LauncherPath;
use stockade::session::Session;
use stockade::tool::{ToolHost, ToolResult};
use support::approver::{Scripted, rejected};
use tokio_util::sync::CancellationToken;

/// A web server on the host's loopback, and how many have come.
fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, came) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&came);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            if stream.read(&mut [0; 4096]).unwrap() == 0 {
                continue;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved").unwrap();
        }
    });
    (port, came)
}

struct World {
    host: ToolHost,
    approver: Arc<Scripted>,
    session: Session,
    _dir: tempfile::TempDir,
}

fn world(answers: impl IntoIterator<Item = ApprovalOutcome>) -> World {
    let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let root = dir.path().canonicalize().unwrap();
    let launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    let (executor, _) = harness::confined(&root, launcher).unwrap();
    let approver = Scripted::answering(answers);
    let host = ToolHost::builder(executor).home("/h").approver(approver.clone()).build().unwrap();
    World { host, approver, session: Session::in_memory("s".parse().unwrap(), root).unwrap(), _dir: dir }
}

impl World {
    async fn bash(&self, command: &str, more: Value) -> ToolResult {
        let mut args = json!({ "command": command, "description": "Do what the test says" });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.host.call(Some(&self.session), "bash", args, &CancellationToken::new()).await
    }
}

fn network(entries: &[&str]) -> Value {
    json!({ "additional_permissions": { "network": entries }, "justification": "The task needs this host." })
}

/// Speaks to the proxy of the environment where there is one: no client has to be installed.
const FETCH: &str =
    "exec 3<>/dev/tcp/HOST/PORT || exit 7; printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; cat <&3";
const FETCH_BY_PROXY: &str = "at=${HTTP_PROXY#http://}; login=$(printf %s \"${at%@*}\" | base64 -w0); \
    exec 3<>/dev/tcp/127.0.0.1/${at##*:}; \
    printf 'GET http://HOST:PORT/ HTTP/1.1\\r\\nHost: HOST:PORT\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' \"$login\" >&3; \
    cat <&3 | tee answer | grep -q '200 OK' || { cat answer >&2; exit 1; }; tail -n 1 answer";

fn fetch(script: &str, host: &str, port: u16) -> String {
    format!("cd /tmp; {script}").replace("HOST", host).replace("PORT", &port.to_string())
}

#[tokio::test]
async fn a_host_is_granted_for_one_call() {
    let world = world([rejected(), ApprovalOutcome::AllowedOnce]);
    let (port, came) = server();
    let entry = format!("127.0.0.1:{port}");
    let direct = fetch(FETCH, "127.0.0.1", port);
    let by_proxy = fetch(FETCH_BY_PROXY, "127.0.0.1", port);

    let denied = world.bash(&direct, json!({})).await;
    assert!(denied.text.contains("[sandbox: network access denied under read-only mode]"), "{}", denied.text);
    assert!(denied.text.contains(&format!("[sandbox: denied net.connect {entry} by bash]")), "{}", denied.text);
    let hint = format!("additional_permissions {{\"network\":[\"{entry}\"]}}");
    assert!(denied.text.contains("escalation available") && denied.text.contains(&hint), "{}", denied.text);

    let refused = world.bash(&by_proxy, network(&[&entry])).await;
    assert!(refused.is_error, "the user said no: {}", refused.text);
    assert_eq!(came.load(Ordering::SeqCst), 0, "nobody came");
    let Asks::Extra { grant, .. } = &world.approver.asked()[0].asks else { panic!("asks for extra permissions") };
    assert_eq!(grant.network, std::slice::from_ref(&entry), "the approver is told which host");

    // Another command than the refused one: asked for anew, and granted.
    let granted = world.bash(&format!("{by_proxy}; true"), network(&[&entry])).await;
    assert!(!granted.is_error && granted.text.contains("served"), "{}", granted.text);
    assert_eq!(came.load(Ordering::SeqCst), 1);

    let again = world.bash(&direct, json!({})).await;
    assert!(again.text.contains("network access denied"), "it held for one call: {}", again.text);
    assert_eq!(came.load(Ordering::SeqCst), 1);
    world.host.dispose().await;
}

#[tokio::test]
async fn a_grant_opens_what_it_names_and_nothing_beside() {
    let world = world([ApprovalOutcome::AllowedOnce, ApprovalOutcome::AllowedOnce]);
    let ((port, came), (other, others)) = (server(), server());
    let entry = format!("127.0.0.1:{port}");
    let to_other = fetch(FETCH_BY_PROXY, "127.0.0.1", other);
    let denied = world.bash(&to_other, network(&[&entry])).await;
    let shown = format!("[sandbox: denied net.connect 127.0.0.1:{other}");
    assert!(denied.text.contains(&shown), "{}", denied.text);
    assert!(denied.text.contains(&format!("\"127.0.0.1:{other}\"")), "what would cure it: {}", denied.text);
    assert_eq!((came.load(Ordering::SeqCst), others.load(Ordering::SeqCst)), (0, 0));
    let both = world.bash(&to_other, network(&[&entry, &format!("127.0.0.1:{other}")])).await;
    assert!(!both.is_error && both.text.contains("served"), "the control: {}", both.text);
    assert_eq!((came.load(Ordering::SeqCst), others.load(Ordering::SeqCst)), (0, 1));
    world.host.dispose().await;
}

#[tokio::test]
async fn entries_that_are_none_are_refused_before_anybody_is_asked() {
    let world = world([]);
    for bad in ["", "*", "http://a.test/", "a.test:0", "a.test:99999", "127.1", "a b", "user@a.test", "[::1%lo]:80"] {
        let refused = world.bash("true", network(&[bad])).await;
        assert!(refused.is_error, "{bad:?}: {}", refused.text);
    }
    assert!(world.approver.asked().is_empty());
    let unasked = world.bash("true", json!({ "additional_permissions": { "network": ["a.test"] } })).await;
    assert!(unasked.is_error && unasked.text.contains("justification"), "{}", unasked.text);
    world.host.dispose().await;
}
