//! The supervisor under stress and after its end: nothing hangs, nothing is let through, nothing leaks.

#![allow(clippy::unwrap_used)] // a test that cannot set its scene has failed

mod trace_support;

use std::time::{Duration, Instant};

use nix::errno::Errno;
use stockade::denial::trace::{MAX_OBSERVATIONS, Supervisor};
use stockade::denial::{Aftermath, DenialKind, Target, TraceCoverage};
use stockade::policy::{ArgMatch, ArgOp, RefusalErrno, SyscallRule};
use trace_support::{Scene, again_as_user, errno};

/// Far above what anything here takes, far below a hang.
const SOON: Duration = Duration::from_secs(60);

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn refused_call(syscall: &str, when: Vec<ArgMatch>, errno: RefusalErrno, kind: DenialKind) -> SyscallRule {
    SyscallRule { syscall: syscall.to_owned(), when, errno, kind, reason: "test".to_owned() }
}

#[test]
fn a_flood_is_answered_and_counted() {
    let scene = Scene::new();
    let base = scene.base.display();
    let began = Instant::now();
    let operations = [
        format!("flood|{base}/ws/x|10000"),
        format!("flood|{base}/ro/x|10000"),
        format!("floodnames|{base}/ro/n|{}", MAX_OBSERVATIONS + 500),
    ];
    let (results, record) = scene.probe_all(&scene.mounts(), &operations);
    assert!(began.elapsed() < SOON);
    assert_eq!(results, [0; 3]);
    assert!(scene.path("ws/x").exists() && !scene.path("ro/x").exists());
    assert_eq!(record.observations.len(), MAX_OBSERVATIONS);
    assert_eq!(record.observations[0].target, Target::Path(scene.path("ro/x")));
    assert_eq!((record.repeated, record.omitted), (9999, 501));
    assert_eq!(record.coverage, TraceCoverage::Partial);
}

#[test]
fn no_descriptor_is_left_behind() {
    // In a process of its own: the other tests of this binary open and close as they like.
    if std::env::var_os("TRACE_ALONE").is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_descriptor_is_left_behind", "--test-threads=1"])
            .env("TRACE_ALONE", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let scene = Scene::new();
    let base = scene.base.display().to_string();
    nix::unistd::mkfifo(&scene.path("ro/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let before = descriptors();
    let supervisor = Supervisor::start().unwrap();
    let operations = [
        "open|@ro/new|0101",
        "open|@ro/fifo|2",
        "open|/dev/stdout|1",
        "link|@ro/fifo|@ro/x",
        "rename|@ro/fifo|@ro/x",
        "chmod|@ro/fifo",
        "mkdir|@ro/none/x",
    ];
    for _ in 0..3 {
        let mut command = vec![scene.probe()];
        command.extend(operations.iter().map(|op| op.replace('@', &format!("{base}/"))));
        let (child, handle) = scene.start(&supervisor, &scene.mounts(), &command);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), operations.len());
        assert!(!handle.finish().unwrap().observations.is_empty());
    }
    drop(supervisor);
    // One more was seen for a moment, in one run of eight on a busy machine; what stays is a leak.
    let settled = std::time::Instant::now() + std::time::Duration::from_secs(2);
    while descriptors() != before && std::time::Instant::now() < settled {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let left: Vec<_> =
        std::fs::read_dir("/proc/self/fd").unwrap().map(|fd| std::fs::read_link(fd.unwrap().path())).collect();
    assert_eq!(descriptors(), before, "{left:?}");
}

#[test]
fn processes_killed_while_their_calls_wait_do_not_stop_the_others() {
    let scene = Scene::new();
    let base = scene.base.display();
    let operations =
        [format!("killed|{base}/ro/x|300"), format!("mkdir|{base}/ws/after"), format!("mkdir|{base}/ro/after")];
    let began = Instant::now();
    let (results, record) = scene.probe_all(&scene.mounts(), &operations);
    assert!(began.elapsed() < SOON);
    assert_eq!(results, [0, 0, Errno::EROFS as i32]);
    assert_eq!(record.unreadable, 0);
    let last = record.observations.last().unwrap();
    assert_eq!(last.target, Target::Path(scene.path("ro/after")));
}

#[test]
fn without_its_supervisor_a_command_is_refused_its_traced_calls() {
    let scene = Scene::new();
    let supervisor = Supervisor::start().unwrap();
    let script = format!(
        "mkdir before; echo ready; read go < {base}/go; mkdir after; echo $?; {probe} 'mkdir|never' 'open|{base}/ws/before|0'",
        base = scene.base.display(),
        probe = scene.probe()
    );
    nix::unistd::mkfifo(&scene.path("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (mut child, handle) = scene.start(&supervisor, &scene.mounts(), &["sh".into(), "-c".into(), script]);
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    drop(supervisor);
    std::fs::write(scene.path("go"), "go\n").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    child.wait().unwrap();
    assert_eq!(rest, format!("1\n{}\n0\n", Errno::ENOSYS as i32));
    assert!(scene.path("ws/before").exists());
    assert!(!scene.path("ws/after").exists() && !scene.path("ws/never").exists());
    assert!(handle.finish().is_err(), "a record of a run that nobody watched");
}

#[test]
fn a_handle_that_is_dropped_ends_its_own_run_only() {
    let scene = Scene::new();
    let supervisor = Supervisor::start().unwrap();
    let wait =
        format!("read go < {}/go; {} 'mkdir|{}/ws/$0'", scene.base.display(), scene.probe(), scene.base.display());
    nix::unistd::mkfifo(&scene.path("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let command = ["sh".to_owned(), "-c".into(), wait.replace("$0", "first")];
    let (first, handle) = scene.start(&supervisor, &scene.mounts(), &command);
    drop(handle);
    std::fs::write(scene.path("go"), "go\n").unwrap();
    let output = first.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", Errno::ENOSYS as i32));
    let (second, handle) = scene.start(&supervisor, &scene.mounts(), &[scene.probe(), "mkdir|second".into()]);
    assert_eq!(second.wait_with_output().unwrap().stdout, b"0\n");
    assert_eq!(handle.finish().unwrap().coverage, TraceCoverage::Complete);
    assert!(!scene.path("ws/first").exists() && scene.path("ws/second").exists());
}

#[test]
fn a_path_that_changes_after_the_look_widens_nothing() {
    let scene = Scene::new();
    let racer = scene.path("bin/racer");
    let source = scene.path("bin/racer.c");
    std::fs::write(
        &source,
        r#"#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
static char path[256]; static char *base; static volatile int stop;
static void *flip(void *x) { while (!stop) { memcpy(path + strlen(base), "/ws/r", 6); memcpy(path + strlen(base), "/ro/r", 6); } return x; }
int main(int c, char **v) { pthread_t t; base = v[1]; strcpy(path, base); strcat(path, "/ws/r");
  pthread_create(&t, 0, flip, 0); int fd; for (int i = 0; i < 5000; i++) if ((fd = open(path, O_WRONLY | O_CREAT, 0600)) >= 0) close(fd);
  stop = 1; pthread_join(t, 0); return 0; }"#,
    )
    .unwrap();
    assert!(
        std::process::Command::new("cc").args(["-pthread", "-o"]).arg(&racer).arg(&source).status().unwrap().success()
    );
    let (_, record) = scene.run(&scene.mounts(), &[racer.display().to_string(), scene.base.display().to_string()]);
    assert!(record.calls >= 5000);
    assert!(!scene.path("ro/r").exists());
    assert!(scene.path("ws/r").exists());
    for seen in &record.observations {
        assert_eq!(seen.target, Target::Path(scene.path("ro/r")));
    }
}

#[test]
fn rules_are_answered_and_recorded_and_nothing_else_is() {
    let scene = Scene::new();
    let mut how = scene.mounts();
    let newns = ArgMatch { arg: 0, op: ArgOp::AnyBit, value: 0x0002_0000 | 0x1000_0000, mask: 0 };
    how.rules = vec![
        refused_call("mount", vec![], RefusalErrno::Eperm, DenialKind::Mount),
        refused_call("clone", vec![newns], RefusalErrno::Eperm, DenialKind::Namespace),
        refused_call(
            "socket",
            vec![ArgMatch { arg: 0, op: ArgOp::Eq, value: 10, mask: 0 }],
            RefusalErrno::Eafnosupport,
            DenialKind::Syscall,
        ),
    ];
    let operations = ["mount|/mnt", "clonens|0x10000000", "clonens|0", "connect6|::1|9|1", "connect4|127.0.0.1|9|1"]
        .map(str::to_owned);
    let (results, record) = scene.probe_all(&how, &operations);
    // Without an IPv6 socket the probe goes on with descriptor -1.
    let refused = [Errno::EPERM as i32, Errno::EPERM as i32, 0, Errno::EBADF as i32, Errno::ECONNREFUSED as i32];
    assert_eq!(results, refused);
    let seen: Vec<_> = record
        .observations
        .iter()
        .map(|o| (o.kind, o.syscall.as_deref().unwrap(), o.errno.as_deref().unwrap(), o.target.clone()))
        .collect();
    let expected = [
        (DenialKind::Mount, "mount", "EPERM", Target::Path("/mnt".into())),
        (DenialKind::Namespace, "clone", "EPERM", Target::Syscall),
        (DenialKind::Syscall, "socket", "EAFNOSUPPORT", Target::Syscall),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_foreign_abi_is_refused_and_recorded() {
    let scene = Scene::new();
    let source = scene.path("bin/int80.c");
    let program = scene.path("bin/int80");
    // getpid by the 32-bit entry.
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { long r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20) : \"memory\"); printf(\"%ld\\n\", r); return 0; }").unwrap();
    if cfg!(target_arch = "x86_64") {
        assert!(std::process::Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
        let (output, record) = scene.run(&scene.mounts(), &[program.display().to_string()]);
        assert_eq!(output, format!("{}\n", -(Errno::ENOSYS as i32)));
        assert_eq!(record.observations.len(), 1);
        assert_eq!(record.observations[0].errno.as_deref(), Some("ENOSYS"));
    }
}

#[test]
fn the_aftermath_is_what_the_refused_process_did_next() {
    let scene = Scene::new();
    let base = scene.base.display();
    let run = |command: &str| {
        let command = command.replace('@', &format!("{base}/"));
        let (_, record) = scene.run(&scene.mounts(), &["bash".into(), "-c".into(), command]);
        let after: Vec<_> = record.observations.iter().map(|o| o.aftermath).collect();
        assert_eq!(after.len(), 1, "{:?}", record.observations);
        after[0]
    };
    let exited = |code| Aftermath::ProcessExited { code };
    assert_eq!(run("mkdir @ro/x 2>/dev/null; true"), exited(1));
    assert_eq!(run("exec 2>/dev/null; : > @ro/x; exit 7"), exited(7));
    assert_eq!(run("exec 2>/dev/null; : > @ro/x; : > @ws/x"), Aftermath::Continued);
    // One that tries the same object again has not gone on.
    assert_eq!(run("exec 2>/dev/null; : > @ro/x; : > @ro/x; kill -9 $$"), exited(137));
}

#[test]
fn runs_of_one_supervisor_do_not_mix_and_users_can_be_watched() {
    let scene = Scene::new();
    let supervisor = Supervisor::start().unwrap();
    let runs: Vec<_> = (0..6)
        .map(|i| {
            scene.start(
                &supervisor,
                &scene.mounts(),
                &[scene.probe(), format!("mkdir|{}/ro/{i}", scene.base.display())],
            )
        })
        .collect();
    for (i, (child, handle)) in runs.into_iter().enumerate() {
        assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim(), "30", "{}", errno(30));
        let record = handle.finish().unwrap();
        assert_eq!(record.observations.len(), 1);
        assert_eq!(record.observations[0].target, Target::Path(scene.path("ro").join(i.to_string())));
        assert!(record.observations[0].at.is_some());
    }
    again_as_user("runs_of_one_supervisor_do_not_mix_and_users_can_be_watched");
}
