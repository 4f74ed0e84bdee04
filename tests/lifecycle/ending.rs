//! Timeouts, cancellation, background commands, disposal.

use std::time::{Duration, Instant};

use stockade::executor::{BashExecutor as _, ExecError, ExecRequest, ProcessStatus, Timeout};
use stockade::policy::SandboxMode;
use tokio_util::sync::CancellationToken;

use crate::executor::{Place, as_every_user, run};
use crate::traces::{Token, eventually};
use crate::{BACKENDS, block_on};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn commands_are_ended() {
    as_every_user("ending::commands_are_ended_inside");
}

#[test]
#[ignore = "run by commands_are_ended as each user"]
fn commands_are_ended_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let token = Token::of(place.root());
            let executor = place.executor_with(SandboxMode::ReadOnly, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            });
            timeouts_and_cancellation(&executor, &token).await;
            background(&executor, &token).await;
            disposal(&executor, &token).await;
        }
    });
}

async fn timeouts_and_cancellation(executor: &stockade::sandboxed::SandboxedExecutor, token: &Token) {
    let polite = "trap 'echo ending; exit 7' TERM; sleep 1000 & wait";
    let deaf = "trap '' TERM; while :; do sleep 1000; done";
    let request = |command: &str, timeout: Option<u64>, cancel: Option<&CancellationToken>| ExecRequest {
        timeout: timeout.map_or(Timeout::None, |limit| Timeout::After(MS(limit))),
        cancel: cancel.cloned(),
        ..token.mark(ExecRequest::shell(command))
    };
    let polite_end = run(executor, request(polite, Some(300), None)).await.unwrap();
    assert!(polite_end.timed_out && !polite_end.aborted);
    assert_eq!((polite_end.exit_code, polite_end.stdout.text.as_str()), (Some(7), "ending\n"));
    assert_eq!(polite_end.timeout_ms, 300);
    let deaf_end = run(executor, request(deaf, Some(200), None)).await.unwrap();
    assert!(deaf_end.timed_out && !deaf_end.aborted);
    assert_eq!(deaf_end.signal.as_deref(), Some("SIGKILL"));

    for command in [polite, deaf] {
        let cancel = CancellationToken::new();
        let soon = async {
            tokio::time::sleep(MS(200)).await;
            cancel.cancel();
        };
        // The time limit passes within the grace, and comes second.
        let (ended, ()) = tokio::join!(run(executor, request(command, Some(350), Some(&cancel))), soon);
        let ended = ended.unwrap();
        assert!(ended.aborted && !ended.timed_out, "{command}");
    }
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let error = run(executor, request("true", None, Some(&cancelled))).await.unwrap_err();
    assert!(matches!(error, ExecError::AlreadyCancelled), "{error}");
    // A future that is dropped takes its command along.
    let dropped = tokio::time::timeout(MS(200), run(executor, request(deaf, None, None))).await;
    assert!(dropped.is_err());
    eventually("the command of a dropped future is gone", || {
        token
            .processes()
            .iter()
            .all(|process| process.cmdline().unwrap_or_default().iter().any(|arg| arg.contains("launcher")))
    })
    .await;
}

async fn background(executor: &stockade::sandboxed::SandboxedExecutor, token: &Token) {
    let request = ExecRequest {
        owner: Some("me".to_owned()),
        ..token.mark(ExecRequest::shell("echo one; sleep 0.2; echo two >&2; sleep 1000"))
    };
    let process = executor.start(executor.resolve(request).unwrap()).await.unwrap();
    assert_eq!(process.owner(), Some("me"));
    assert_eq!(process.status(), ProcessStatus::Running);
    let (mut stdout, mut stderr) = (String::new(), String::new());
    eventually("both lines are read", || {
        let read = process.read_output();
        stdout.push_str(&read.stdout);
        stderr.push_str(&read.stderr);
        stderr.contains("two")
    })
    .await;
    assert_eq!((stdout.as_str(), stderr.as_str()), ("one\n", "two\n"));
    assert!(process.kill().await, "it was running");
    assert!(!process.kill().await, "it is not any more");
    let result = process.done().await.unwrap();
    assert!(result.aborted && !result.timed_out);
    assert!(matches!(process.status(), ProcessStatus::Settled(_)));
    assert_eq!(process.read_output(), stockade::executor::OutputRead::default(), "nothing is delivered twice");
}

async fn disposal(executor: &stockade::sandboxed::SandboxedExecutor, token: &Token) {
    let mut processes = Vec::new();
    for _ in 0..3 {
        let request = token.mark(ExecRequest::shell("trap '' TERM; setsid sleep 1000 & sleep 1000; sleep 1000"));
        processes.push(executor.start(executor.resolve(request).unwrap()).await.unwrap());
    }
    let foreground = run(executor, token.mark(ExecRequest::shell("trap '' TERM; sleep 1000; sleep 1000")));
    let dispose = async {
        tokio::time::sleep(MS(200)).await;
        assert!(token.processes().len() > 6, "the control: there is something to dispose of");
        let began = Instant::now();
        executor.dispose().await;
        assert!(token.processes().is_empty(), "disposal waits until all is gone");
        began.elapsed()
    };
    let (foreground, took) = tokio::join!(foreground, dispose);
    assert!(foreground.unwrap().aborted);
    assert!(took < Duration::from_secs(10), "disposal took {took:?}");
    for process in processes {
        assert!(process.done().await.unwrap().aborted);
    }
    let error = run(executor, ExecRequest::shell("true")).await.unwrap_err();
    assert!(matches!(error, ExecError::Disposed), "{error}");
}
