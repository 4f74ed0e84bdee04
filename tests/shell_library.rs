//! Terminals and input of background commands, through the library.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use stockade::executor::{BashExecutor, CommandLine, ExecRequest, Stdin};
use stockade::launcher::LauncherPath;
use stockade::local::{LocalConfig, LocalExecutor};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, PtyProcess, SandboxedConfig, SandboxedExecutor, TerminalSize};

const PATIENCE: Duration = Duration::from_secs(20);

fn executor(mode: SandboxMode, workspace: &std::path::Path) -> SandboxedExecutor {
    let request = PolicyRequest::new(mode, workspace);
    let policy = LayeredPolicy::new(request, HostPaths::of_process().unwrap()).unwrap();
    let mut config = SandboxedConfig::new(Arc::new(policy));
    config.launcher = LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into());
    config.grace = Duration::from_millis(500);
    SandboxedExecutor::new(config).unwrap()
}

async fn start(executor: &SandboxedExecutor, script: &str, size: TerminalSize) -> PtyProcess {
    let spec = executor.resolve(ExecRequest::shell(script)).unwrap();
    executor.start_pty(spec, size).await.unwrap()
}

/// Reads until the text has been shown, or to the end.
async fn until(pty: &PtyProcess, text: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0_u8; 1024];
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(text) {
            match pty.read(&mut buffer).await.unwrap() {
                0 => break,
                length => seen.extend_from_slice(&buffer[..length]),
            }
        }
    };
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        panic!("never shown: {text:?}; shown: {:?}", String::from_utf8_lossy(&seen));
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[tokio::test]
async fn a_terminal_is_written_read_resized_and_ends_with_a_status() {
    let dir = tempfile::tempdir().unwrap();
    for mode in SandboxMode::ALL {
        let executor = executor(mode, dir.path());
        let script =
            "trap 'stty size' WINCH; stty size; read -r line; echo \"got $line\"; touch out; echo touched=$?; exit 5";
        let pty = start(&executor, script, TerminalSize { columns: 90, rows: 30 }).await;
        until(&pty, "30 90").await;
        pty.resize(TerminalSize { columns: 100, rows: 40 }).unwrap();
        // A builtin `read` is interrupted by the trap and goes on.
        pty.write(b"a line\n").await.unwrap();
        let seen = until(&pty, "touched=").await;
        assert!(seen.contains("got a line"), "{mode}: {seen}");
        until(&pty, "never").await;
        let result = pty.done().await.unwrap();
        assert_eq!(result.exit_code, Some(5), "{mode}");
        assert_eq!(dir.path().join("out").exists(), mode != SandboxMode::ReadOnly, "{mode}");
        let denied = result.sandbox.unwrap().denials.iter().any(|denial| denial.target().ends_with("/out"));
        assert_eq!(denied, mode == SandboxMode::ReadOnly, "{mode}");
        assert!(result.stderr.text.contains("got a line"), "the transcript is kept");
        std::fs::remove_file(dir.path().join("out")).ok();
        executor.dispose().await;
    }
}

#[tokio::test]
async fn resizing_is_seen_inside() {
    let dir = tempfile::tempdir().unwrap();
    let executor = executor(SandboxMode::ReadOnly, dir.path());
    let script = "echo ready; until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo resized";
    let pty = start(&executor, script, TerminalSize::default()).await;
    until(&pty, "ready").await;
    pty.resize(TerminalSize { columns: 100, rows: 40 }).unwrap();
    until(&pty, "resized").await;
    executor.dispose().await;
}

#[tokio::test]
async fn signals_kill_and_dropping_end_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let executor = executor(SandboxMode::ReadOnly, dir.path());
    let pty = start(
        &executor,
        "trap 'echo told; exit 9' USR1; echo ready; while :; do sleep 0.1; done",
        TerminalSize::default(),
    )
    .await;
    until(&pty, "ready").await;
    pty.signal(Signal::SIGUSR1);
    until(&pty, "told").await;
    assert_eq!(pty.done().await.unwrap().exit_code, Some(9));
    assert!(!pty.kill().await, "it had ended");

    let pty = start(&executor, "trap '' HUP TERM; echo ready; sleep 1000", TerminalSize::default()).await;
    until(&pty, "ready").await;
    assert!(pty.kill().await);
    assert_eq!(pty.done().await.unwrap().signal.as_deref(), Some("SIGKILL"));

    let pty = start(&executor, "echo ready; while :; do sleep 0.1; done", TerminalSize::default()).await;
    until(&pty, "ready").await;
    pty.write(b"\x03").await.unwrap();
    let result = pty.done().await.unwrap();
    assert_eq!(result.signal.as_deref(), Some("SIGINT"), "{result:?}");
    // Disposal ends one whose handle was dropped, and waits until it is gone.
    drop(start(&executor, "trap '' HUP; sleep 1000", TerminalSize::default()).await);
    tokio::time::timeout(PATIENCE, executor.dispose()).await.expect("it is gone");
}

#[tokio::test]
async fn output_that_is_not_read_is_waited_for_and_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let executor = executor(SandboxMode::ReadOnly, dir.path());
    let pty = start(&executor, "stty -opost; seq 1 50000; echo end", TerminalSize::default()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let seen = until(&pty, "never").await;
    let expected: String = (1..=50_000).map(|n| format!("{n}\n")).chain(["end\n".to_owned()]).collect();
    assert!(seen == expected, "{} bytes of {}", seen.len(), expected.len());
    executor.dispose().await;
}

async fn input_reaches(executor: &dyn BashExecutor) {
    let script = "while read -r line; do echo \"got $line\"; done; echo over";
    let request = ExecRequest { stdin: Stdin::Open, ..ExecRequest::shell(script) };
    let process = executor.start(executor.resolve(request.clone()).unwrap()).await.unwrap();
    for number in 0..3 {
        process.write_input(format!("line {number}\n").as_bytes()).await.unwrap();
        let mut seen = String::new();
        while !seen.contains(&format!("got line {number}")) {
            seen.push_str(&process.read_output().stdout);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    process.close_input().await;
    let result = tokio::time::timeout(PATIENCE, process.done()).await.unwrap().unwrap();
    assert_eq!((result.exit_code, result.stdout.text.lines().last()), (Some(0), Some("over")));
    assert!(process.write_input(b"late").await.is_err());

    // In the foreground nobody can write: the input is at its end.
    let ran = executor.run(executor.resolve(request).unwrap());
    let result = tokio::time::timeout(PATIENCE, ran).await.unwrap().unwrap();
    assert_eq!(result.stdout.text, "over\n");
    // A command with other input takes none.
    let process = executor.start(executor.resolve(ExecRequest::shell("cat")).unwrap()).await.unwrap();
    assert!(process.write_input(b"x").await.is_err());
    process.done().await.unwrap();
}

#[tokio::test]
async fn a_background_command_takes_input_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let confined = executor(SandboxMode::ReadOnly, dir.path());
    input_reaches(&confined).await;
    confined.dispose().await;
    let config = LocalConfig { workdir: Some(dir.path().to_path_buf()), ..LocalConfig::default() };
    let local = LocalExecutor::new(config).unwrap();
    input_reaches(&local).await;
    local.dispose().await;
}

#[tokio::test]
async fn a_command_that_cannot_start_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let executor = executor(SandboxMode::ReadOnly, dir.path());
    let request = ExecRequest::new(CommandLine::Program(vec!["no-such-program".into()]));
    let spec = executor.resolve(request).unwrap();
    let error = executor.start_pty(spec, TerminalSize::default()).await.unwrap_err();
    assert!(matches!(error, stockade::executor::ExecError::NotFound { .. }), "{error}");
    executor.dispose().await;
}
