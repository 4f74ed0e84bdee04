//! Background processes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use stockade::executor::{BashExecutor as _, BashProcess, ExecRequest, OutputRead, ProcessStatus, Timeout};
use stockade::local::LocalExecutor;

use crate::helper::{alive, eventually, executor, executor_with, number};

async fn start(executor: &LocalExecutor, command: &str) -> Arc<dyn BashProcess> {
    executor.start(executor.resolve(ExecRequest::shell(command)).unwrap()).await.unwrap()
}

#[tokio::test]
async fn output_comes_in_pieces_and_never_twice() {
    let (dir, executor) = executor();
    let step = |n| format!("while [ ! -e go{n} ]; do sleep 0.01; done; ");
    let command = format!(r"printf 'one \xe2'; {}printf '\x82\xac two'; echo err >&2; {}printf end", step(1), step(2));
    let process = start(&executor, &command).await;
    let mut read = OutputRead::default();
    let mut take = |wanted: &str, errors: &str| {
        let fresh = process.read_output();
        assert!(!fresh.lossy);
        read.stdout += &fresh.stdout;
        read.stderr += &fresh.stderr;
        (read.stdout.as_str(), read.stderr.as_str()) == (wanted, errors)
    };
    eventually("the first piece, without half a character", || take("one ", "")).await;
    assert_eq!(process.status(), ProcessStatus::Running);
    fs::write(dir.path().join("go1"), b"").unwrap();
    eventually("the second", || take("one € two", "err\n")).await;
    fs::write(dir.path().join("go2"), b"").unwrap();
    let done = process.done().await.unwrap();
    assert!(take("one € twoend", "err\n"));
    assert_eq!((done.exit_code, done.stdout.text.as_str(), done.timeout_ms), (Some(0), "one € twoend", 0));
    assert_eq!(process.read_output(), OutputRead::default());
    assert_eq!(process.status(), ProcessStatus::Settled(Box::new(done)));
}

#[tokio::test]
async fn a_late_reader_is_told_and_sent_to_the_whole() {
    let (_dir, executor) = executor();
    let process = start(&executor, "seq 100000").await;
    process.done().await.unwrap();
    let fresh = process.read_output();
    assert!(fresh.lossy && fresh.stdout.ends_with("\n100000\n") && fresh.stdout.len() <= 64_000);
    let whole = fs::read_to_string(fresh.stdout_spill.unwrap()).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with(&fresh.stdout));
    let again = process.read_output();
    assert!(!again.lossy && again.stdout.is_empty());
}

#[tokio::test]
async fn kill_ends_the_group_and_says_so_once() {
    let (dir, executor) = executor();
    let process = start(&executor, "trap '' TERM; sleep 1000 & echo $! > child; wait; sleep 1000").await;
    let child = number(&dir.path().join("child")).await;
    assert!(alive(child));
    assert!(process.kill().await);
    assert!(!alive(child));
    assert!(!process.kill().await);
    let done = process.done().await.unwrap();
    assert_eq!((done.signal.as_deref(), done.aborted, done.timed_out), (Some("SIGKILL"), true, false));
}

#[tokio::test]
async fn killing_what_has_ended_is_refused() {
    let (_dir, executor) = executor();
    let process = start(&executor, "exit 5").await;
    assert_eq!(process.done().await.unwrap().exit_code, Some(5));
    assert!(!process.kill().await);
    assert!(!process.done().await.unwrap().aborted);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_wait_for_one() {
    let (_dir, executor) = executor();
    let process = start(&executor, "sleep 0.2; echo done").await;
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let process = Arc::clone(&process);
        waiters.spawn(async move { process.done().await.unwrap().stdout.text });
    }
    while let Some(text) = waiters.join_next().await {
        assert_eq!(text.unwrap(), "done\n");
    }
}

#[tokio::test]
async fn no_timeout_applies_and_the_owner_is_carried() {
    let (_dir, executor) = executor_with(|config| config.default_timeout = Some(Duration::from_millis(50)));
    let mut request = ExecRequest::shell("sleep 0.5; echo through");
    request.timeout = Timeout::After(Duration::from_millis(50));
    request.owner = Some("session-1".into());
    let process = executor.start(executor.resolve(request.clone()).unwrap()).await.unwrap();
    assert_eq!(process.owner(), Some("session-1"));
    let done = process.done().await.unwrap();
    assert_eq!((done.stdout.text.as_str(), done.timed_out), ("through\n", false));
    let control = executor.run(executor.resolve(request).unwrap()).await.unwrap();
    assert!(control.timed_out && control.stdout.text.is_empty());
}

#[tokio::test]
async fn a_command_outlives_its_handle_but_not_its_executor() {
    let (dir, executor) = executor();
    drop(start(&executor, "echo $$ > pid; sleep 1000").await);
    let pid = number(&dir.path().join("pid")).await;
    assert!(alive(pid));
    drop(executor);
    eventually("it is gone", || !alive(pid)).await;
}
