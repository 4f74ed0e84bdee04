//! Disks that are full, and disks that are slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stockade::executor::{BashExecutor as _, CallPolicy, ExecError, ExecRequest};
use stockade::policy::SandboxMode;

use crate::executor::{Place, launcher, run, shell};
use crate::traces::tree;
use crate::user::{Programs, User, scratch};
use crate::{BACKENDS, block_on};

/// Where the process with the small disks finds them.
const ROOT: &str = "STOCKADE_TEST_ROOT";

/// In a mount namespace of its own, the workspace and the directory for spill files are on disks of 256 KiB.
#[test]
fn full_disks() {
    let programs = Programs::get();
    for user in User::all() {
        let place = scratch();
        for name in ["work", "home", "state"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        user.own(place.path());
        let script = "set -e
            for d in work state; do mount -t tmpfs -o size=256k,nr_inodes=60,mode=0777 none \"$1/$d\"; done
            shift; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !User::current().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["bash", "-c", script, "bash"]).arg(place.path());
        let inner = user.command(&programs.own);
        command.arg(inner.get_program()).args(inner.get_args());
        command.args(["--ignored", "--exact", "--nocapture", "disks::full_disks_inside"]);
        let output = command
            .env("STOCKADE_TEST_LAUNCHER", &programs.stockade)
            .env(ROOT, place.path())
            .current_dir("/")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && text.contains("1 passed");
        assert!(passed, "{}: {text}\n{}", user.name(), String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
#[ignore = "run by full_disks as each user, with small disks"]
fn full_disks_inside() {
    let root = PathBuf::from(std::env::var_os(ROOT).expect("run by full_disks"));
    let place = Place::at(&root);
    block_on(async {
        for backend in BACKENDS {
            let executor = place.executor(SandboxMode::WorkspaceWrite, backend);
            // The spill finds no room: the tail is kept, no file is named, none is left.
            let result = shell(&executor, "head -c 1000000 /dev/zero | tr '\\0' x; echo end").await;
            assert_eq!(result.exit_code, Some(0), "{}", result.stderr.text);
            assert_eq!((result.stdout.bytes, result.stdout.truncated), (1_000_004, true));
            assert!(result.stdout.text.ends_with("xend\n"));
            assert_eq!(result.stdout.spill_path, None, "what is not whole is not named");
            assert_eq!(files(&place.state()), 0);
            // The control: one that fits is kept.
            let result = shell(&executor, "head -c 150000 /dev/zero").await;
            let spill = result.stdout.spill_path.unwrap();
            assert_eq!(fs::metadata(&spill).unwrap().len(), 150_000);
            fs::remove_file(spill).unwrap();

            // A full workspace is the command's own affair, and no refusal of ours.
            let result = shell(&executor, "head -c 1000000 /dev/zero >large").await;
            let report = result.sandbox.unwrap();
            assert!(
                result.exit_code == Some(1) && result.stderr.text.contains("No space left"),
                "{}",
                result.stderr.text
            );
            assert!(!report.denied && report.denials.is_empty(), "{:?}", report.denials);
            let result = shell(&executor, "rm large; echo small >small; cat small; rm small").await;
            assert_eq!(result.stdout.text, "small\n", "{}", result.stderr.text);

            // No room at all, and no inode for a session's /tmp: an error with its cause, and the command did not run.
            let filler = place.state().join("filler");
            fs::write(&filler, "").unwrap();
            let mut names = Vec::new();
            // Twice: what the executor sweeps away in the background may make room once more.
            for _ in 0..2 {
                while let Ok(()) = fs::write(place.state().join(format!("f{}", names.len())), "") {
                    names.push(place.state().join(format!("f{}", names.len())));
                    assert!(names.len() < 100, "the disk has no limit");
                }
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            let policy = CallPolicy {
                mode: SandboxMode::WorkspaceWrite,
                workspace: place.work(),
                extra: stockade::denial::Grant::default(),
                session: Some("one".to_owned()),
            };
            let request = ExecRequest { policy: Some(policy), ..ExecRequest::shell("echo ran >ran") };
            let error = run(&executor, request.clone()).await.unwrap_err();
            let full =
                matches!(&error, ExecError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull);
            assert!(full, "{error:?}");
            assert!(!place.work().join("ran").exists());
            // What needs no room goes on working.
            if backend == BACKENDS[0] {
                assert_eq!(shell(&executor, "echo on").await.stdout.text, "on\n");
            }
            names.iter().chain([&filler]).for_each(|name| fs::remove_file(name).unwrap());
            assert_eq!(run(&executor, request).await.unwrap().exit_code, Some(0));
            fs::remove_file(place.work().join("ran")).unwrap();
            executor.dispose().await;
            assert_eq!(tree(&place.state()), Vec::<PathBuf>::new());
            assert_eq!(tree(&place.work()), Vec::<PathBuf>::new());
        }
        let stockade = launcher();
        journal(&stockade, &place);
    });
}

fn files(root: &Path) -> usize {
    tree(root).iter().filter(|path| path.is_file()).count()
}

/// A record that cannot be written is said, and is no reason to lose what the command did.
fn journal(stockade: &Path, place: &Place) {
    let filler = place.state().join("filler");
    let mut size = 262_144_usize;
    while fs::write(&filler, vec![0; size]).is_err() {
        size -= 4096;
    }
    let output = Command::new(stockade)
        .args(["run", "--mode", "workspace-write", "--journal"])
        .arg(place.state().join("journal"))
        .args(["-c", "echo ran >ran; exit 7"])
        .current_dir(place.work())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let ran = fs::remove_file(place.work().join("ran")).is_ok();
    assert!(stderr.contains("journal") && stderr.contains("No space left"), "{:?}: {stderr}", output.status);
    assert_eq!(ran, output.status.code() == Some(7), "either it ran, with its own exit status, or not: {stderr}");
    fs::remove_file(&filler).unwrap();
    fs::remove_file(place.state().join("journal")).unwrap_or_default();
}

/// Every call that opens, looks up or renames files takes 2 ms more, in the host, the launcher and the sandbox: strace
/// makes them slow. Results are the same, and time limits hold.
#[test]
fn slow_disks() {
    let programs = Programs::get();
    for user in User::all() {
        let place = scratch();
        user.own(place.path());
        for backend in ["namespaces", "landlock"] {
            let slow = |arguments: &[&str]| {
                let mut command = user.command("strace");
                command.args([
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    "trace=openat,statx,newfstatat,mkdir,rename,unlink,write",
                ]);
                command.args(["-e", "inject=openat,statx,newfstatat,mkdir,rename,unlink:delay_exit=2000"]);
                command.arg(&programs.stockade).args(["run", "--backend", backend, "--mode", "workspace-write"]);
                command.args(arguments).current_dir(place.path());
                let began = Instant::now();
                let output = command.output().unwrap();
                (output, began.elapsed())
            };
            let (output, took) = slow(&["-c", "echo said; echo x >f; mv f g; cat g; rm g; exit 5"]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!((text.as_ref(), output.status.code()), ("said\nx\n", Some(5)), "{backend}: {output:?}");
            assert!(took > Duration::from_millis(300), "the control: it was slow: {took:?}");
            let (output, took) = slow(&["--timeout-ms", "1500", "-c", "trap '' TERM; sleep 1000"]);
            assert_eq!(output.status.code(), Some(124), "{backend}: {output:?}");
            assert!(took < Duration::from_secs(60), "{took:?}");
            assert_eq!(tree(place.path()), Vec::<PathBuf>::new(), "{backend}");
        }
    }
}
