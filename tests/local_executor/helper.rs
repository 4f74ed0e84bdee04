//! What the tests share.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use stockade::executor::{BashExecutor as _, ExecError, ExecRequest, RunResult};
use stockade::local::{LocalConfig, LocalExecutor};

/// An executor with short times, and the directory that is its workdir and its spill root.
pub(crate) fn executor() -> (tempfile::TempDir, LocalExecutor) {
    executor_with(|_| ())
}

pub(crate) fn executor_with(change: impl FnOnce(&mut LocalConfig)) -> (tempfile::TempDir, LocalExecutor) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = LocalConfig {
        workdir: Some(dir.path().to_path_buf()),
        spill_root: dir.path().to_path_buf(),
        grace: Duration::from_millis(300),
        ..LocalConfig::default()
    };
    change(&mut config);
    let executor = LocalExecutor::new(config).unwrap();
    (dir, executor)
}

pub(crate) async fn run(executor: &LocalExecutor, request: ExecRequest) -> Result<RunResult, ExecError> {
    executor.run(executor.resolve(request)?).await
}

pub(crate) async fn shell(executor: &LocalExecutor, command: &str) -> RunResult {
    run(executor, ExecRequest::shell(command)).await.unwrap()
}

/// Whether a process exists and is not a zombie.
pub(crate) fn alive(pid: i32) -> bool {
    procfs::process::Process::new(pid).and_then(|process| process.stat()).is_ok_and(|stat| stat.state != 'Z')
}

/// Waits generously for something to become true.
pub(crate) async fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !test() {
        assert!(Instant::now() < limit, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The number in a file, once a command has written it whole.
pub(crate) async fn number(path: &Path) -> i32 {
    let read = || std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'));
    eventually(&format!("{} is written", path.display()), || read().is_some()).await;
    read().unwrap().trim().parse().unwrap()
}

/// A command that runs one ignored test of this file in a process of its own.
pub(crate) fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test]);
    command
}

pub(crate) fn passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}
