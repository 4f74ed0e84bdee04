//! Bounded memory and spill files.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use stockade::executor::{BashExecutor as _, ExecRequest};
use stockade::local::{LocalConfig, LocalExecutor};
use stockade::output::SPILL_PREFIX;

use crate::helper::{alone, executor, executor_with, passed, run, shell};

fn spill_directories(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    entries.filter(|e| e.file_name().to_str().unwrap().starts_with(SPILL_PREFIX)).map(|e| e.path()).collect()
}

#[tokio::test]
async fn the_tail_is_shown_and_the_whole_is_on_disk_until_disposal() {
    let (dir, executor) = executor();
    let done = shell(&executor, "seq 100000; seq 20000 >&2").await;
    let whole = |n: u32| (1..=n).map(|i| format!("{i}\n")).collect::<String>();
    let mut paths = Vec::new();
    for (stream, whole) in [(done.stdout, whole(100_000)), (done.stderr, whole(20_000))] {
        assert_eq!((stream.bytes, stream.truncated, stream.text.len()), (whole.len() as u64, true, 64_000));
        assert!(whole.ends_with(&stream.text));
        let path = stream.spill_path.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        paths.push(path);
    }
    shell(&executor, "true").await;
    assert!(paths.iter().all(|path| path.exists()), "spills last as long as the executor");
    executor.dispose().await;
    assert!(!paths.iter().any(|path| path.exists()));
    assert!(spill_directories(dir.path()).is_empty());
}

#[tokio::test]
async fn a_dropped_executor_takes_its_spills_along() {
    let (dir, executor) = executor();
    let path = shell(&executor, "seq 100000").await.stdout.spill_path.unwrap();
    assert!(path.exists());
    drop(executor);
    assert!(spill_directories(dir.path()).is_empty());
}

#[tokio::test]
async fn the_budget_of_a_request_replaces_the_default_for_stdout() {
    let (_dir, executor) = executor();
    let request = ExecRequest { stdout_max_bytes: Some(1_000_000), ..ExecRequest::shell("seq 100000; seq 20000 >&2") };
    let done = run(&executor, request).await.unwrap();
    assert_eq!((done.stdout.truncated, done.stdout.text.len(), done.stdout.spill_path), (false, 588_895, None));
    assert_eq!((done.stderr.truncated, done.stderr.text.len()), (true, 64_000));
    let request = ExecRequest { stdout_max_bytes: Some(7), ..ExecRequest::shell("printf 0123456789") };
    let done = run(&executor, request).await.unwrap();
    assert_eq!((done.stdout.truncated, done.stdout.text.as_str()), (true, "3456789"));
}

#[tokio::test]
async fn an_incomplete_spill_is_withheld_and_deleted() {
    let (dir, executor) = executor_with(|config| config.spill_cap = 100_000);
    let done = shell(&executor, "head -c 100001 /dev/zero; head -c 100000 /dev/zero >&2").await;
    assert_eq!((done.stdout.truncated, done.stdout.spill_path), (true, None));
    let kept = done.stderr.spill_path.unwrap();
    assert_eq!(fs::metadata(&kept).unwrap().len(), 100_000);
    let there: Vec<_> = fs::read_dir(&spill_directories(dir.path())[0]).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(there, [kept]);
}

#[tokio::test]
async fn the_spill_keeps_bytes_that_are_no_text() {
    let (_dir, executor) = executor_with(|config| config.stdout_bytes = 10);
    let done = shell(&executor, r"printf 'a\xff\xfe\x00\xe2\x82'; printf '\xac\xf0\x9f\xa6\x80\xc3'").await;
    assert_eq!(fs::read(done.stdout.spill_path.unwrap()).unwrap(), b"a\xff\xfe\x00\xe2\x82\xac\xf0\x9f\xa6\x80\xc3");
    assert_eq!(done.stdout.text, "\u{fffd}\0€🦀\u{fffd}");
}

#[test]
fn three_hundred_megabytes_pass_in_little_memory() {
    passed(&alone("output::three_hundred_megabytes_alone").output().unwrap());
}

#[tokio::test]
#[ignore = "measures its process's own memory: run alone by three_hundred_megabytes_pass_in_little_memory"]
async fn three_hundred_megabytes_alone() {
    let (_dir, executor) = executor();
    let done = shell(&executor, "head -c 300000000 /dev/zero & head -c 300000000 /dev/zero >&2; wait").await;
    assert_eq!((done.stdout.bytes, done.stderr.bytes), (300_000_000, 300_000_000));
    let peak = procfs::process::Process::myself().unwrap().status().unwrap().vmhwm.unwrap();
    assert!(peak < 40 * 1024, "{peak} KiB");
}

/// Ends a process however its test is left.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn what_a_killed_owner_left_is_swept_and_a_living_one_is_not() {
    let root = tempfile::tempdir().unwrap();
    let owner = || {
        let mut child =
            alone("output::owner_alone").env("SPILL_ROOT", root.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let path = lines.find_map(|line| line.unwrap().split_once("spilled ").map(|(_, path)| PathBuf::from(path)));
        (Ended(child), path.unwrap())
    };
    let (dead, dead_spill) = owner();
    let (_living, living_spill) = owner();
    drop(dead);
    assert!(dead_spill.exists() && living_spill.exists());
    let executor =
        LocalExecutor::new(LocalConfig { spill_root: root.path().into(), ..LocalConfig::default() }).unwrap();
    // The first command sets the sweeper going, beside itself.
    shell(&executor, "true").await;
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while dead_spill.parent().unwrap().exists() {
        assert!(std::time::Instant::now() < patience, "{} was not swept", dead_spill.display());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(living_spill.exists());
}

#[tokio::test]
#[ignore = "is killed from outside: run by what_a_killed_owner_left_is_swept_and_a_living_one_is_not"]
async fn owner_alone() {
    let root = PathBuf::from(std::env::var_os("SPILL_ROOT").unwrap());
    let executor = LocalExecutor::new(LocalConfig { spill_root: root, ..LocalConfig::default() }).unwrap();
    let path = shell(&executor, "seq 100000").await.stdout.spill_path.unwrap();
    writeln!(std::io::stdout(), "spilled {}", path.display()).unwrap();
    std::future::pending::<()>().await;
}
