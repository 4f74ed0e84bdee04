//! The loopback of a session: what one call left running is there for the next, and for nobody else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, unreachable_pub, reason = "the example is a crate root of its own")]
#[path = "../examples/harness.rs"]
mod harness;
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stockade::approval::ApprovalOutcome;
use stockade::launcher::LauncherPath;
use stockade::policy::SandboxMode::{self, ReadOnly, WorkspaceWrite};
use stockade::session::{Session, set_sandbox_mode};
use stockade::tool::{ToolHost, ToolOutput, ToolResult};
use support::approver::Scripted;
use tokio_util::sync::CancellationToken;

/// Ports below the range that hosts hand out by themselves, so that the host's answer is its own.
const PORT: u16 = 18_713;

struct World {
    host: ToolHost,
    workspace: PathBuf,
    _dir: tempfile::TempDir,
}

fn world(answers: impl IntoIterator<Item = ApprovalOutcome>) -> World {
    let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let workspace = dir.path().canonicalize().unwrap().join("w");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::create_dir(workspace.parent().unwrap().join("out")).unwrap();
    let launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    let (executor, protected) = harness::confined(&workspace, launcher).unwrap();
    let builder = ToolHost::builder(executor).home("/h").approver(Scripted::answering(answers));
    let host = builder.protected_paths(Arc::new(protected)).build().unwrap();
    World { host, workspace, _dir: dir }
}

impl World {
    fn session(&self, name: &str, mode: SandboxMode) -> Session {
        let session = Session::in_memory(name.parse().unwrap(), &self.workspace).unwrap();
        set_sandbox_mode(&session, mode).unwrap();
        session
    }

    async fn bash(&self, session: &Session, command: &str, more: Value) -> ToolResult {
        let mut args = json!({ "command": command, "description": "Do what the test says" });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.host.call(Some(session), "bash", args, &CancellationToken::new()).await
    }

    /// A server that answers every connection with `word`, as a background task; returns when it listens.
    async fn serve(&self, session: &Session, port: u16, word: &str) {
        let script = format!(
            "import socket\ns = socket.create_server(('127.0.0.1', {port}))\nopen('up-{word}', 'w').close()\n\
             while True:\n c, _ = s.accept()\n c.sendall(b'{word}')\n c.close()"
        );
        let started =
            self.bash(session, &format!("exec python3 -c \"{script}\""), json!({ "run_in_background": true })).await;
        assert!(matches!(started.structured, ToolOutput::Started { .. }), "{}", started.text);
        let up = self.workspace.join(format!("up-{word}"));
        for _ in 0..1500 {
            if up.exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server did not come up");
    }

    /// What a client in another call gets: the server's word, or the name of its exception.
    async fn ask(&self, session: &Session, port: u16, more: Value) -> String {
        let client = format!(
            "import socket\ntry:\n print(socket.create_connection(('127.0.0.1', {port}), 5).recv(9).decode())\n\
             except OSError as e:\n print(type(e).__name__)"
        );
        self.bash(session, &format!("python3 -c \"{client}\""), more).await.text
    }
}

#[tokio::test]
async fn a_server_of_one_call_is_there_for_the_next() {
    let world = world([]);
    let session = world.session("a", WorkspaceWrite);
    let refused = world.ask(&session, PORT, json!({})).await;
    assert!(refused.contains("ConnectionRefusedError"), "{refused}");
    world.serve(&session, PORT, "hello").await;
    for _ in 0..4 {
        let answer = world.ask(&session, PORT, json!({})).await;
        assert!(answer.starts_with("hello"), "{answer}");
    }
    let host = std::net::TcpStream::connect(("127.0.0.1", PORT)).unwrap_err();
    assert_eq!(host.kind(), std::io::ErrorKind::ConnectionRefused, "it is no server of the host's");
    world.host.dispose().await;
}

#[tokio::test]
async fn another_session_another_mode_and_a_granted_call_do_not_meet_it() {
    let world = world([ApprovalOutcome::AllowedOnce]);
    let session = world.session("a", WorkspaceWrite);
    world.serve(&session, PORT + 1, "hello").await;
    let stranger = world.session("b", WorkspaceWrite);
    let answer = world.ask(&stranger, PORT + 1, json!({})).await;
    assert!(answer.contains("ConnectionRefusedError"), "another session: {answer}");
    let out = world.workspace.parent().unwrap().join("out");
    let granted = json!({ "additional_permissions": { "write": [out] }, "justification": "The task needs it." });
    let answer = world.ask(&session, PORT + 1, granted).await;
    assert!(answer.contains("ConnectionRefusedError"), "a call with a grant: {answer}");
    set_sandbox_mode(&session, ReadOnly).unwrap();
    let answer = world.ask(&session, PORT + 1, json!({})).await;
    assert!(answer.contains("ConnectionRefusedError"), "another mode: {answer}");
    set_sandbox_mode(&session, WorkspaceWrite).unwrap();
    let answer = world.ask(&session, PORT + 1, json!({})).await;
    assert!(answer.starts_with("hello"), "the control: {answer}");
    world.host.dispose().await;
}

#[tokio::test]
async fn a_port_is_free_again_when_its_call_has_ended() {
    let world = world([]);
    let session = world.session("a", WorkspaceWrite);
    let command = format!("python3 -c \"import socket; socket.create_server(('', {})); print('bound')\"", PORT + 2);
    for _ in 0..3 {
        let bound = world.bash(&session, &command, json!({})).await;
        assert!(bound.text.starts_with("bound"), "{}", bound.text);
    }
    world.host.dispose().await;
}

#[tokio::test]
async fn look_ups_are_told_to_the_call_that_asked() {
    let world = world([]);
    let session = world.session("a", WorkspaceWrite);
    world.serve(&session, PORT + 3, "hello").await;
    for name in ["one.example", "two.example"] {
        let asked = world.bash(&session, &format!("getent ahosts {name}"), json!({})).await;
        let ToolOutput::Run(result) = &asked.structured else { panic!("{}", asked.text) };
        let hosts = serde_json::to_value(&result.sandbox).unwrap().to_string();
        assert!(hosts.contains(name), "{hosts}");
        let other = if name.starts_with("one") { "two.example" } else { "one.example" };
        assert!(!hosts.contains(other), "{hosts}");
    }
    world.host.dispose().await;
}

/// What the kernel counts, numbers and protects by namespace stays each call's own: processes, limits, mounts, queues.
#[tokio::test]
async fn the_network_is_all_that_is_shared() {
    let world = world([]);
    let session = world.session("a", WorkspaceWrite);
    let look = "for n in net user pid mnt ipc uts cgroup; do readlink /proc/self/ns/$n; done";
    let waiting = format!("({look}) > first.new; mv first.new first; exec sleep 600");
    let started = world.bash(&session, &waiting, json!({ "run_in_background": true })).await;
    assert!(matches!(started.structured, ToolOutput::Started { .. }), "{}", started.text);
    let first = world.workspace.join("first");
    for _ in 0..1500 {
        if first.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let first = std::fs::read_to_string(first).unwrap();
    let second = world.bash(&session, look, json!({})).await.text;
    let shared: Vec<&str> = first.lines().filter(|one| second.lines().any(|other| other == *one)).collect();
    let mut expected = vec![first.lines().next().unwrap()];
    if nix::unistd::geteuid().is_root() {
        // Root's sandboxes need no user namespace: theirs is the host's.
        expected.push(first.lines().nth(1).unwrap());
    }
    assert_eq!(shared, expected, "{first}\n{second}");
    world.host.dispose().await;
}

/// No call may change what the others find.
#[tokio::test]
async fn nobody_configures_it() {
    let world = world([]);
    let session = world.session("a", WorkspaceWrite);
    world.serve(&session, PORT + 4, "hello").await;
    for command in ["ip link set lo down", "ip addr add 10.9.9.9/8 dev lo", "echo 1 > /proc/sys/net/ipv4/ip_forward"] {
        let tried =
            world.bash(&session, &format!("({command}) 2>/dev/null && echo done || echo refused"), json!({})).await;
        assert!(tried.text.starts_with("refused"), "{command}: {}", tried.text);
    }
    let answer = world.ask(&session, PORT + 4, json!({})).await;
    assert!(answer.starts_with("hello"), "{answer}");
    world.host.dispose().await;
}
