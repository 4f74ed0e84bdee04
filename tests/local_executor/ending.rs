//! Time-outs, cancellation, and what commands do against them.

use std::time::{Duration, Instant};

use stockade::executor::{BashExecutor as _, ExecError, ExecRequest, RunResult, Timeout};
use stockade::local::LocalExecutor;
use tokio_util::sync::CancellationToken;

use crate::helper::{alive, alone, eventually, executor, executor_with, number, passed, run, shell};

const MS: fn(u64) -> Duration = Duration::from_millis;

async fn limited(executor: &LocalExecutor, ms: u64, command: &str) -> RunResult {
    run(executor, ExecRequest { timeout: Timeout::After(MS(ms)), ..ExecRequest::shell(command) }).await.unwrap()
}

#[tokio::test]
async fn a_command_may_end_itself_on_sigterm() {
    let (_dir, executor) = executor_with(|config| config.grace = Duration::from_secs(20));
    let done = limited(&executor, 300, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done").await;
    assert_eq!((done.exit_code, done.timed_out, done.aborted, done.timeout_ms), (Some(7), true, false, 300));
    assert_eq!(done.stdout.text, "up\nbye\n");
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_with_its_children() {
    let (dir, executor) = executor();
    let command = "trap '' TERM; sleep 1000 & echo $! > child; wait; wait; sleep 1000";
    let done = limited(&executor, 300, command).await;
    assert_eq!((done.exit_code, done.signal.as_deref(), done.timed_out), (None, Some("SIGKILL"), true));
    assert!(!alive(number(&dir.path().join("child")).await));
}

#[tokio::test]
async fn a_stopped_command_is_ended_too() {
    let (dir, executor) = executor_with(|config| config.grace = Duration::from_secs(20));
    let done = limited(&executor, 300, "echo $$ > pid; kill -STOP $$; echo never").await;
    assert_eq!((done.signal.as_deref(), done.timed_out), (Some("SIGTERM"), true));
    assert!(!alive(number(&dir.path().join("pid")).await));
}

#[tokio::test]
async fn children_keep_the_grace_when_the_shell_is_gone() {
    let (dir, executor) = executor_with(|config| config.grace = Duration::from_secs(20));
    // The outer shell dies of SIGTERM at once; the inner one puts its things in order, longer than the drain.
    let inner =
        "trap 'sleep 1; echo > tidied; exit' TERM; echo $$ > child; exec >/dev/null 2>&1; while :; do sleep 0.02; done";
    let done = limited(&executor, 500, &format!("bash -c \"{}\"; true", inner.replace('$', "\\$"))).await;
    assert_eq!((done.signal.as_deref(), done.timed_out), (Some("SIGTERM"), true));
    assert!(dir.path().join("tidied").exists());
    assert!(!alive(number(&dir.path().join("child")).await));
}

#[tokio::test]
async fn the_first_cause_wins() {
    let (_dir, executor) = executor_with(|config| config.grace = MS(700));
    let stubborn = "trap '' TERM; while :; do sleep 0.02; done";
    for (timeout, cancel_after, timed_out) in [(300, 600, true), (600, 300, false)] {
        let cancel = CancellationToken::new();
        let request = ExecRequest {
            timeout: Timeout::After(MS(timeout)),
            cancel: Some(cancel.clone()),
            ..ExecRequest::shell(stubborn)
        };
        let later = async {
            tokio::time::sleep(MS(cancel_after)).await;
            cancel.cancel();
        };
        let (done, ()) = tokio::join!(run(&executor, request), later);
        let done = done.unwrap();
        assert_eq!((done.timed_out, done.aborted), (timed_out, !timed_out));
        assert_eq!(done.signal.as_deref(), Some("SIGKILL"));
    }
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_call_and_does_not_outlive_it() {
    let (dir, executor) = executor();
    let began = Instant::now();
    let done = shell(&executor, "sleep 1000 & echo $! > child; (sleep 0.1; echo late) & echo early").await;
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!((done.exit_code, done.timed_out, done.aborted), (Some(0), false, false));
    assert_eq!(done.stdout.text, "early\nlate\n", "what was written within the drain is collected");
    assert!(!alive(number(&dir.path().join("child")).await));

    // One that lets go of the pipes delays nothing, and ends as well.
    let done = shell(&executor, "sleep 1000 >/dev/null 2>&1 & echo $! > quiet").await;
    assert_eq!(done.exit_code, Some(0));
    assert!(!alive(number(&dir.path().join("quiet")).await));
}

#[tokio::test]
async fn a_child_in_a_session_of_its_own_is_out_of_reach_but_holds_nothing_up() {
    let (dir, executor) = executor();
    let began = Instant::now();
    let done = shell(&executor, "setsid bash -c 'echo $$ > escaped; exec sleep 1000' & sleep 0.3; echo done").await;
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(done.stdout.text, "done\n");
    let escaped = number(&dir.path().join("escaped")).await;
    assert!(alive(escaped), "documented: process groups end where sessions begin");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(escaped), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_dropped_run_is_killed() {
    let (dir, executor) = executor();
    let pid = dir.path().join("pid");
    tokio::select! {
        done = shell(&executor, "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done") => panic!("{done:?}"),
        () = eventually("it runs", || pid.exists()) => {}
    }
    let pid = number(&pid).await;
    eventually("it is gone", || !alive(pid)).await;
    executor.dispose().await;
}

#[tokio::test]
async fn disposal_leaves_no_process_and_admits_none() {
    let (dir, executor) = executor_with(|config| config.grace = Duration::from_secs(1000));
    let command = |name: &str| format!("trap '' TERM; sleep 1000 & echo $! > {name}; wait; wait; sleep 1000");
    let start = |name| executor.start(executor.resolve(ExecRequest::shell(command(name))).unwrap());
    let (first, second) = (start("a").await.unwrap(), start("b").await.unwrap());
    let foreground = async { shell(&executor, &command("c")).await };
    let dispose = async {
        let mut pids = Vec::new();
        for name in ["a", "b", "c"] {
            pids.push(number(&dir.path().join(name)).await);
        }
        assert!(pids.iter().all(|pid| alive(*pid)));
        executor.dispose().await;
        assert!(!pids.iter().any(|pid| alive(*pid)), "disposal waits until they are gone");
    };
    let (done, ()) = tokio::join!(foreground, dispose);
    assert!(done.aborted && !done.timed_out);
    assert!(first.done().await.unwrap().aborted && second.done().await.unwrap().aborted);
    let refused = run(&executor, ExecRequest::shell("echo > landed")).await;
    assert!(matches!(refused, Err(ExecError::Disposed)));
    assert!(!dir.path().join("landed").exists());
    executor.dispose().await;
}

#[test]
fn a_runtime_that_goes_takes_the_commands_along() {
    let (dir, executor) = executor();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (process, pid) = runtime.block_on(async {
        let spec = executor.resolve(ExecRequest::shell("echo $$ > pid; sleep 1000")).unwrap();
        (executor.start(spec).await.unwrap(), number(&dir.path().join("pid")).await)
    });
    assert!(alive(pid));
    drop(runtime);
    let control = tokio::runtime::Runtime::new().unwrap();
    control.block_on(eventually("it is gone", || !alive(pid)));
    assert!(control.block_on(process.done()).is_err());
    assert!(matches!(process.status(), stockade::executor::ProcessStatus::Failed(_)));
}

#[test]
fn many_runs_leave_nothing_behind() {
    passed(&alone("ending::many_runs_alone").output().unwrap());
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
#[ignore = "counts its process's own descriptors: run alone by many_runs_leave_nothing_behind"]
async fn many_runs_alone() {
    let (dir, executor) = executor();
    for _ in 0..10 {
        shell(&executor, "echo x; echo y >&2").await;
    }
    let before = descriptors();
    for round in 0..300 {
        let timeout = if round % 10 == 0 { Timeout::After(MS(5)) } else { Timeout::Default };
        let command = if round % 10 == 0 { "sleep 5" } else { "echo x; echo y >&2" };
        run(&executor, ExecRequest { timeout, ..ExecRequest::shell(command) }).await.unwrap();
    }
    assert_eq!(descriptors(), before);
    let children = procfs::process::Process::myself().unwrap().tasks().unwrap().flatten();
    let children: Vec<_> = children.flat_map(|task| task.children().unwrap()).collect();
    assert!(children.is_empty(), "{children:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
