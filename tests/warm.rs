//! Sandboxes built ahead of their call: used when they may be, never twice, and never when the world they show is not the
//! world any more.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stockade::executor::BashExecutor as _;
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;
use stockade::sandboxed::SandboxedExecutor;

use executor::{Place, as_every_user, shell};

/// Ample for a sandbox to be built on a busy machine, and for what was just changed to be old enough to be remembered.
const PAUSE: Duration = Duration::from_millis(400);

fn block_on<F: Future<Output = ()>>(body: F) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(body);
}

fn confined(place: &Place) -> SandboxedExecutor {
    place.executor(SandboxMode::WorkspaceWrite, BackendChoice::Namespaces)
}

/// Runs something often enough that a sandbox waits for the next call of its kind.
async fn warm_up(executor: &SandboxedExecutor) {
    for _ in 0..2 {
        assert_eq!(shell(executor, "true").await.exit_code, Some(0));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Seconds since boot.
fn uptime() -> f64 {
    fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The command's own start, seconds since boot: exec does not change it.
const START: &str = "cut -d' ' -f22 /proc/$$/stat";

async fn started(executor: &SandboxedExecutor) -> f64 {
    let result = shell(executor, START).await;
    let ticks: f64 = result.stdout.text.trim().parse().unwrap_or_else(|_| panic!("{result:?}"));
    ticks / 100.0
}

#[test]
fn one_that_waits_is_used_once() {
    as_every_user("one_that_waits_is_used_once_inside");
}

#[test]
#[ignore = "run by one_that_waits_is_used_once as each user"]
fn one_that_waits_is_used_once_inside() {
    block_on(async {
        let place = Place::new();
        let executor = confined(&place);
        warm_up(&executor).await;
        // Sockets that other programs of the host open and close change the plan, and then nothing that waits will do: so
        // not every call of these has to find one.
        let mut waited = 0;
        for _ in 0..6 {
            let called = uptime();
            let began = started(&executor).await;
            waited += usize::from(began < called - PAUSE.as_secs_f64() / 4.0);
            // What the last one left in its private places is not there.
            let left = shell(&executor, "ls -A /tmp /dev/shm; touch /tmp/left /dev/shm/left").await;
            assert_eq!(left.stdout.text, "/dev/shm:\n\n/tmp:\n", "{left:?}");
            assert_eq!(left.exit_code, Some(0), "it could write there: {left:?}");
            tokio::time::sleep(PAUSE).await;
        }
        assert!(waited > 0, "none of the calls found a sandbox that waited");
        executor.dispose().await;
        assert!(children().is_empty(), "nothing waits any longer");
    });
}

#[test]
fn what_changed_since_is_seen() {
    as_every_user("what_changed_since_is_seen_inside");
}

/// A protected directory replaced, one that appears, and the whole workspace replaced: each after a sandbox was built.
#[test]
#[ignore = "run by what_changed_since_is_seen as each user"]
fn what_changed_since_is_seen_inside() {
    block_on(async {
        let place = Place::new();
        let work = place.work();
        repository(&work);
        let executor = confined(&place);
        warm_up(&executor).await;
        refused(&executor, &work.join(".git/hooks/pre-commit")).await;
        tokio::time::sleep(PAUSE).await;

        fs::rename(work.join(".git/hooks"), work.join("old-hooks")).unwrap();
        fs::create_dir(work.join(".git/hooks")).unwrap();
        refused(&executor, &work.join(".git/hooks/pre-commit")).await;
        tokio::time::sleep(PAUSE).await;

        fs::create_dir(work.join(".vscode")).unwrap();
        refused(&executor, &work.join(".vscode/tasks.json")).await;
        tokio::time::sleep(PAUSE).await;

        let old = place.root().join("old-work");
        fs::rename(&work, &old).unwrap();
        fs::create_dir(&work).unwrap();
        let result = shell(&executor, "echo new > file").await;
        assert_eq!(result.exit_code, Some(0), "{result:?}");
        assert_eq!(fs::read(work.join("file")).unwrap(), b"new\n");
        assert!(!old.join("file").exists(), "the workspace of before was written");
        executor.dispose().await;
    });
}

/// Writing there fails and leaves nothing, and writing beside it lands.
async fn refused(executor: &SandboxedExecutor, path: &Path) {
    let result = shell(executor, &format!("echo planted > {}; echo fine > beside", path.display())).await;
    assert!(!path.exists(), "{}: {result:?}", path.display());
    let beside = executor.resolve(stockade::executor::ExecRequest::shell("true")).unwrap().workdir.join("beside");
    assert_eq!(fs::read(&beside).unwrap(), b"fine\n", "the control");
    fs::remove_file(beside).unwrap();
}

fn repository(at: &Path) {
    for directory in [".git/hooks", ".git/objects", ".git/refs"] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at.join(".git/config"), "").unwrap();
}

#[test]
fn one_that_is_gone_is_done_without() {
    as_every_user("one_that_is_gone_is_done_without_inside");
}

#[test]
#[ignore = "run by one_that_is_gone_is_done_without as each user"]
fn one_that_is_gone_is_done_without_inside() {
    block_on(async {
        let place = Place::new();
        let executor = confined(&place);
        warm_up(&executor).await;
        let [launcher] = children()[..] else { panic!("one launcher: {:?}", children()) };
        let waiting = children_of(launcher);
        assert!(!waiting.is_empty(), "something waits");
        for pid in &waiting {
            kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap();
        }
        tokio::time::sleep(PAUSE).await;
        let called = uptime();
        assert!(started(&executor).await >= called - 0.02, "it was built after those that waited were gone");
        executor.dispose().await;
    });
}

fn children() -> Vec<i32> {
    children_of(i32::try_from(std::process::id()).unwrap())
}

/// Of every thread of a process.
fn children_of(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let files: Vec<PathBuf> = tasks.map(|task| task.unwrap().path().join("children")).collect();
    let listed: String = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
