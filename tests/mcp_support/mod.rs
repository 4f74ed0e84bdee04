//! A client without a protocol library: it sends what it is told to and takes what comes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest that anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// `stockade mcp` as a child process. Dropping it kills it.
pub struct Server {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    errors: tempfile::NamedTempFile,
    pub workspace: TempDir,
}

impl Server {
    /// Starts it over a fresh workspace.
    pub fn start(options: &[&str]) -> Self {
        let workspace = TempDir::new().unwrap();
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_stockade"))
            .arg("mcp")
            .args(options)
            .current_dir(workspace.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen().unwrap())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Self { child, stdin, stdout, errors, workspace }
    }

    /// The wire to it, after the handshake.
    pub fn wire(&mut self, capabilities: Value) -> Wire {
        let mut wire = Wire::over(self.stdout.take().unwrap(), self.stdin.take().unwrap());
        wire.handshake(capabilities);
        wire
    }

    /// Waits for its end; fails when it panicked.
    pub fn finish(mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.no_panic();
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Fails when it panicked so far.
    pub fn no_panic(&self) {
        let said = std::fs::read_to_string(self.errors.path()).unwrap();
        assert!(!said.contains("panicked"), "{said}");
    }

    /// Resident memory now, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.workspace.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

/// Both directions of a connection.
pub struct Wire {
    out: Option<Box<dyn Write + Send>>,
    lines: Receiver<Value>,
    /// What came while something else was waited for.
    pub others: Vec<Value>,
    next_id: i64,
}

impl Wire {
    /// Reads in a thread of its own. Whatever is not a JSON-RPC message fails the test.
    pub fn over(input: impl Read + Send + 'static, out: impl Write + Send + 'static) -> Self {
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(input).lines() {
                let Ok(line) = line else { return };
                let value: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "jsonrpc": "not a message", "line": line }));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Self { out: Some(Box::new(out)), lines, others: Vec::new(), next_id: 1 }
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        let out = self.out.as_mut().unwrap();
        out.write_all(bytes).unwrap();
        out.flush().unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a request; its id.
    pub fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next message, whatever it is; `None` when the server has closed.
    pub fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(message) => {
                assert_eq!(message["jsonrpc"], "2.0", "only the protocol is on standard output: {message}");
                Some(message)
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("no message within {PATIENCE:?}"),
        }
    }

    /// The answer to a request; everything else that comes meanwhile is kept in `others`.
    pub fn answer(&mut self, id: i64) -> Value {
        if let Some(at) = self.others.iter().position(|message| message["id"] == id && message.get("method").is_none())
        {
            return self.others.remove(at);
        }
        loop {
            let message = self.next().expect("an answer before the end");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.others.push(message);
        }
    }

    /// Sends a request and takes its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Calls a tool; the result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    pub fn handshake(&mut self, capabilities: Value) {
        let answer = self.ask("initialize", initialize("2025-11-25", &capabilities));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Ends the client's half of the connection.
    pub fn hang_up(&mut self) {
        self.out = None;
    }
}

pub fn initialize(version: &str, capabilities: &Value) -> Value {
    json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } })
}

/// The metadata that each request carries in the revision without a handshake.
pub fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    })
}

pub fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "Do what the test says" })
}

pub fn wider(command: &str) -> Value {
    let mut args = bash(command);
    args["sandbox_permissions"] = json!("workspace-write");
    args["justification"] = json!("The test needs this file.");
    args
}

/// A sleep that no other process of this machine has: the command and its argument.
pub fn unique_sleep() -> (String, String) {
    static NEXT: AtomicU32 = AtomicU32::new(5000);
    let seconds = format!("{}.{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    (format!("sleep {seconds}"), seconds)
}

/// How many sleeps with this argument run.
pub fn alive(seconds: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path().join("cmdline");
        let Ok(line) = std::fs::read(path) else { continue };
        let mut words = line.split(|byte| *byte == 0);
        found += usize::from(words.next() == Some(b"sleep") && words.any(|word| word == seconds.as_bytes()));
    }
    found
}

pub fn wait_for(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until so many of these sleeps run.
pub fn running(seconds: &str, count: usize) {
    wait_for(PATIENCE, "the commands run", || alive(seconds) == count);
}

/// Everything is gone within the second that is promised; a second more is for a machine under load.
pub fn gone(seconds: &str) {
    wait_for(Duration::from_secs(2), "everything is killed", || alive(seconds) == 0);
}

pub fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
