//! A host program whose `main` calls `launcher::enter()` and that is therefore its own launcher. This test has no harness,
//! because it is that program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "its main is for people; what it does is tested here")]
#[path = "../examples/embed.rs"]
mod embed;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use procfs::process::{Process, all_processes};
use stockade::executor::{BashExecutor as _, ExecRequest};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};

use user::{Programs, User, scratch};

/// The argument by which this program is started once more, as another user or from another place.
const AGAIN: &str = "again";

fn main() {
    stockade::launcher::enter();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(AGAIN) => return as_whoever_we_are(arguments.get(1).map(String::as_str) == Some("unlinked")),
        Some("--list") => return println!("embedding: test"),
        _ => {}
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if filters.is_empty() || filters.iter().any(|filter| "embedding".contains(filter.as_str())) {
        for user in User::all() {
            for unlinked in ["", "unlinked"] {
                again(user, unlinked);
                println!("test embedding as {} {unlinked} ... ok", user.name());
            }
        }
    }
}

/// Runs this program as a user. Its environment and arguments hold secrets, and no `stockade` is on its PATH.
fn again(user: User, unlinked: &str) {
    let programs = Programs::get();
    let dir = scratch();
    let copy = dir.path().join("host-program");
    fs::copy(&programs.own, &copy).unwrap();
    user.own(dir.path());
    let mut command = user.command(&copy);
    command
        .args([AGAIN, unlinked, "secret-argument"])
        .env("HOST_SECRET", "secret-variable")
        .env("PATH", "/usr/bin:/bin");
    let output = command.env("HOME", dir.path()).current_dir(dir.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as {}, {unlinked}: {errors}", user.name());
}

fn as_whoever_we_are(unlinked: bool) {
    let own = std::env::current_exe().unwrap();
    if unlinked {
        // As an upgrade does it: the program that runs is no longer to be found under its name.
        fs::remove_file(&own).unwrap();
        assert!(!own.exists());
    }
    let here = std::env::current_dir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(embed::run("echo out; echo new > new; exit 3")).unwrap();
    assert_eq!((result.exit_code, result.stdout.text.as_str()), (Some(3), "out\n"), "{}", result.stderr.text);
    assert!(!here.join("new").exists(), "read-only");
    runtime.block_on(its_own_launcher(&here));
    // The control: nothing but the mode stood in the way.
    assert!(Command::new("sh").args(["-c", "echo new > new"]).status().unwrap().success());
    assert!(here.join("new").exists());
}

async fn its_own_launcher(here: &Path) {
    let host = HostPaths::of_process().unwrap();
    let policy = LayeredPolicy::new(PolicyRequest::new(SandboxMode::WorkspaceWrite, here), host).unwrap();
    let executor = SandboxedExecutor::new(SandboxedConfig::new(Arc::new(policy))).unwrap();
    assert_eq!(children().len(), 0, "nothing is started before it is needed");
    let spec = executor.resolve(ExecRequest::shell("echo up > up; exec sleep 1000")).unwrap();
    let process = executor.start(spec).await.unwrap();
    while !here.join("up").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let launchers = children();
    assert_eq!(launchers.len(), 1, "one launcher");
    let launcher = &launchers[0];
    let arguments = launcher.cmdline().unwrap().join(" ");
    assert!(!arguments.contains("secret-argument"), "{arguments}");
    if nix::unistd::geteuid().is_root() {
        // Only root can look, because the launcher is not dumpable.
        let own = fs::metadata("/proc/self/exe").unwrap();
        let its = fs::metadata(format!("/proc/{}/exe", launcher.pid)).unwrap();
        assert!(
            std::os::unix::fs::MetadataExt::ino(&own) == std::os::unix::fs::MetadataExt::ino(&its),
            "the same program"
        );
        assert_eq!(fs::read(format!("/proc/{}/environ", launcher.pid)).unwrap(), b"", "nothing of our environment");
    } else {
        assert!(fs::read(format!("/proc/{}/environ", launcher.pid)).is_err(), "not dumpable");
    }
    assert!(process.kill().await);
    executor.dispose().await;
    assert_eq!(children().len(), 0, "nothing is left");
}

fn children() -> Vec<Process> {
    let me = std::process::id().cast_signed();
    let all = all_processes().unwrap().filter_map(Result::ok);
    all.filter(|process| process.stat().is_ok_and(|stat| stat.ppid == me)).collect()
}
