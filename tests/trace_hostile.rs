//! Commands that would hide a refusal, or feign one: the record says what happened, whatever they try.

#![allow(clippy::unwrap_used)] // a test that cannot set its scene has failed

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
mod trace_support;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stockade::denial::trace::{NetBackend, TraceRecord};
use stockade::denial::{Target, TraceCoverage};
use stockade::executor::RunResult;

use cli::Prompt;
use trace_support::{Confinement, Scene, errno};
use user::User;

/// Far above what anything here takes, far below a hang.
const SOON: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    let scene = Scene::new();
    scene.compile("hostile.c", "bin/hostile");
    std::fs::write(scene.path("ro/file"), "as it was").unwrap();
    std::os::unix::fs::symlink("loop", scene.path("ro/loop")).unwrap();
    std::os::unix::fs::symlink(scene.path("ro"), scene.path("ws/out")).unwrap();
    for link in 0..39 {
        std::os::unix::fs::symlink(format!("chain{}", link + 1), scene.path(&format!("ws/chain{link}"))).unwrap();
    }
    std::os::unix::fs::symlink("../ro", scene.path("ws/chain39")).unwrap();
    scene
}

fn tricks(scene: &Scene, how: &Confinement, names: &[&str]) -> (Vec<String>, TraceRecord) {
    let program = scene.path("bin/hostile").display().to_string();
    let mut command = vec![program, scene.base.display().to_string()];
    command.extend(names.iter().map(|name| (*name).to_owned()));
    let began = Instant::now();
    let (output, record) = scene.run(how, &command);
    assert!(began.elapsed() < SOON);
    let results: Vec<String> = output.lines().map(|line| errno(line.parse().unwrap())).collect();
    assert_eq!(results.len(), names.len(), "{output}");
    assert_eq!(std::fs::read_to_string(scene.path("ro/file")).unwrap(), "as it was");
    let mut names: Vec<_> = std::fs::read_dir(scene.path("ro")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "loop"], "something was made");
    (results, record)
}

/// A call that fails for a reason of its own is no denial, though its object may not be written.
#[test]
fn what_fails_by_itself_is_no_denial() {
    const TABLE: [(&str, Errno); 33] = [
        ("null", Errno::EFAULT),
        ("unmapped", Errno::EFAULT),
        ("no-end", Errno::EFAULT),
        ("beyond-file", Errno::EFAULT),
        ("protected", Errno::EFAULT),
        ("path-max", Errno::ENAMETOOLONG),
        ("name-max", Errno::ENAMETOOLONG),
        ("not-a-directory", Errno::ENOTDIR),
        ("loop", Errno::ELOOP),
        ("empty", Errno::ENOENT),
        ("bad-descriptor", Errno::EBADF),
        ("file-as-directory", Errno::ENOTDIR),
        ("create-directory", Errno::EINVAL),
        ("tmpfile-read", Errno::EINVAL),
        ("full-table", Errno::EMFILE),
        ("rename-flags", Errno::EINVAL),
        ("rename-both", Errno::EINVAL),
        ("link-flags", Errno::EINVAL),
        ("unlink-flags", Errno::EINVAL),
        ("chown-flags", Errno::EINVAL),
        ("chmod-flags", Errno::EINVAL),
        ("times-flags", Errno::EINVAL),
        ("times-odd", Errno::EINVAL),
        ("times-null", Errno::EFAULT),
        ("truncate-below", Errno::EINVAL),
        ("node-directory", Errno::EPERM),
        ("node-odd", Errno::EINVAL),
        ("link-text-null", Errno::EFAULT),
        ("link-text-empty", Errno::ENOENT),
        ("attribute-name", Errno::ERANGE),
        ("attribute-size", Errno::E2BIG),
        ("attribute-null", Errno::EFAULT),
        ("gone", Errno::ENOENT),
    ];
    let scene = scene();
    let (results, record) = tricks(&scene, &scene.mounts(), &TABLE.map(|(name, _)| name));
    for ((name, expected), result) in TABLE.iter().zip(&results) {
        assert_eq!(*result, format!("{expected:?}"), "{name}");
    }
    assert_eq!(record.observations, []);
    // A call that succeeds by doing nothing.
    let (results, nothing) = tricks(&scene, &scene.mounts(), &["times-omitted"]);
    assert_eq!((results, nothing.observations), (vec![errno(0)], Vec::new()));
    assert_eq!(record.unreadable, 0);
    assert_eq!(record.coverage, TraceCoverage::Complete);
}

#[test]
fn what_fails_by_itself_on_a_socket_is_no_denial() {
    const TABLE: [(&str, Errno); 7] = [
        ("connect-nothing", Errno::EBADF),
        ("connect-file", Errno::ENOTSOCK),
        ("connect-unix", Errno::EINVAL),
        ("bind-nothing", Errno::EBADF),
        ("send-nothing", Errno::EBADF),
        ("send-stream", Errno::EPIPE),
        ("message-stream", Errno::EPIPE),
    ];
    let scene = scene();
    let mut how = scene.mounts();
    how.network = NetBackend::Namespace;
    how.namespaces.push("-n");
    let (results, record) = tricks(&scene, &how, &TABLE.map(|(name, _)| name));
    for ((name, expected), result) in TABLE.iter().zip(&results) {
        assert_eq!(*result, format!("{expected:?}"), "{name}");
    }
    assert_eq!(record.observations, []);
}

/// However a command goes about it, what was refused is in the record, with the path it comes to.
#[test]
fn no_refusal_is_hidden() {
    const TABLE: [&str; 18] = [
        "page-end",
        "straddle",
        "longest",
        "high-bits",
        "dirfd",
        "through-proc",
        "reopen",
        "root-link",
        "parent-of-link",
        "chain",
        "deleted-name",
        "gone-absolute",
        "shared-cwd",
        "own-cwd",
        "undumpable",
        "silent",
        "vfork",
        "orphan",
    ];
    let scene = scene();
    let (results, record) = tricks(&scene, &scene.mounts(), &TABLE);
    for (name, result) in TABLE.iter().zip(&results) {
        assert_eq!(result, "EROFS", "{name}");
    }
    let seen: Vec<_> = record.observations.iter().map(|o| o.target.clone()).collect();
    let expected = |name: &&str| if *name == "reopen" { scene.path("ro/file") } else { scene.path("ro").join(name) };
    let expected: Vec<_> = TABLE.iter().map(|name| Target::Path(expected(name))).collect();
    assert_eq!(seen, expected);
    assert!(record.observations.iter().all(|o| o.errno.as_deref() == Some("EROFS")));
    assert_eq!((record.unreadable, record.coverage), (0, TraceCoverage::Complete));
}

/// A supervisor that is stopped holds up its commands and lets nothing through; when it goes on, so do they, and nothing
/// is missing from what it says.
#[test]
fn a_stalled_supervisor_widens_nothing_and_loses_nothing() {
    let prompt = Prompt::of(User::current());
    let outside = prompt.root().join("outside");
    let line = format!(
        "echo > ready; while [ ! -e go ]; do read -t 0.02 x <> {0}; done; echo x > {1}; echo $? > after",
        "fifo",
        outside.display()
    );
    nix::unistd::mkfifo(&prompt.work().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    prompt.user.own(prompt.root());
    let child = prompt.run(["--json", "--mode", "workspace-write", "-c", &line]).spawn().unwrap();
    let host = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let began = Instant::now();
    while !prompt.work().join("ready").exists() {
        assert!(began.elapsed() < SOON, "the command did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(host, Signal::SIGSTOP).unwrap();
    std::fs::write(prompt.work().join("go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let went_on = prompt.work().join("after").exists();
    kill(host, Signal::SIGCONT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < SOON);
    assert!(!went_on && !outside.exists());
    assert_eq!(std::fs::read_to_string(prompt.work().join("after")).unwrap(), "1\n");
    let result: RunResult = serde_json::from_slice(&output.stdout).unwrap();
    let denials = result.sandbox.unwrap().denials;
    assert_eq!(denials.iter().map(|d| d.path.clone()).collect::<Vec<_>>(), [Some(outside)], "{denials:?}");
}
