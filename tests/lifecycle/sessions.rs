//! The private `/tmp`: one for each session, shared by its calls; and calls under different policies at once.

use std::fs;

use stockade::executor::{BashExecutor as _, CallPolicy, ExecRequest};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run};
use crate::{BACKENDS, block_on};

#[test]
fn sessions_share_and_keep_apart() {
    as_every_user("sessions::sessions_share_and_keep_apart_inside");
}

#[test]
#[ignore = "run by sessions_share_and_keep_apart as each user"]
fn sessions_share_and_keep_apart_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let executor = place.executor(SandboxMode::ReadOnly, backend);
            let in_session = async |session: Option<&str>, mode, command: &str| {
                let policy = CallPolicy {
                    mode,
                    workspace: place.work(),
                    extra: stockade::denial::Grant::default(),
                    session: session.map(str::to_owned),
                };
                let command = format!("cd \"${{TMPDIR:-/tmp}}\"; {command}");
                let request = ExecRequest { policy: Some(policy), ..ExecRequest::shell(command) };
                run(&executor, request).await.unwrap().stdout.text
            };
            let (read_only, write) = (SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite);
            in_session(Some("a"), read_only, "echo secret > note").await;
            assert_eq!(in_session(Some("a"), read_only, "cat note").await, "secret\n", "{backend:?}");
            assert_eq!(in_session(Some("a"), write, "cat note").await, "secret\n", "{backend:?}: in another mode");
            assert_eq!(in_session(Some("b"), read_only, "ls -A").await, "", "{backend:?}: another session's");
            assert_eq!(in_session(None, read_only, "ls -A").await, "", "{backend:?}: of no session");
            in_session(None, read_only, "echo x > once").await;
            assert_eq!(in_session(None, read_only, "ls -A").await, "", "{backend:?}: each its own");
            executor.end_session("a");
            assert_eq!(in_session(Some("a"), read_only, "ls -A").await, "", "{backend:?}: a session that ended");
            executor.dispose().await;
            assert_eq!(fs::read_dir(place.state()).unwrap().count(), 0, "{backend:?}: nothing is left");
        }
    });
}

#[test]
fn calls_under_different_policies_run_at_once() {
    as_every_user("sessions::calls_under_different_policies_run_at_once_inside");
}

#[test]
#[ignore = "run by calls_under_different_policies_run_at_once as each user"]
fn calls_under_different_policies_run_at_once_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let other = place.root().join("other");
            fs::create_dir(&other).unwrap();
            let executor = place.executor(SandboxMode::ReadOnly, backend);
            let call = async |mode, workspace: std::path::PathBuf, name: &str| {
                let (work, other) = (place.work(), place.root().join("other"));
                let command = format!(
                    "for n in $(seq 40); do touch {0}/{name}-$n; touch {1}/{name}-$n; sleep 0.005; done 2>/dev/null; true",
                    work.display(),
                    other.display()
                );
                let policy = CallPolicy { mode, workspace, extra: stockade::denial::Grant::default(), session: None };
                let request = ExecRequest { policy: Some(policy), ..ExecRequest::shell(command) };
                let report = run(&executor, request).await.unwrap().sandbox.unwrap();
                assert_eq!(report.mode, mode);
            };
            tokio::join!(
                call(SandboxMode::ReadOnly, place.work(), "reader"),
                call(SandboxMode::WorkspaceWrite, place.work(), "writer"),
                call(SandboxMode::WorkspaceWrite, other.clone(), "neighbour"),
                call(SandboxMode::DangerFullAccess, place.work(), "open"),
            );
            executor.dispose().await;
            let count = |directory: &std::path::Path, name: &str| {
                let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
                names.filter(|file| file.to_str().unwrap().starts_with(name)).count()
            };
            let found =
                ["reader", "writer", "neighbour", "open"].map(|name| (count(&place.work(), name), count(&other, name)));
            assert_eq!(found, [(0, 0), (40, 0), (0, 40), (40, 40)], "{backend:?}");
        }
    });
}

/// A sandbox is built ahead of time; what is mounted on the host in between is seen by the next command all the same.
#[test]
fn what_was_mounted_meanwhile_is_seen() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not root: nothing can be mounted, so this is not tested in this run");
        return;
    }
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    block_on(async {
        let place = Place::new();
        let target = place.root().join("target");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("below"), "").unwrap();
        let executor = place.executor(SandboxMode::ReadOnly, BACKENDS[0]);
        let look = async || {
            let command = format!("ls {0}; touch {0}/new 2>/dev/null && echo written; true", target.display());
            crate::executor::shell(&executor, &command).await.stdout.text
        };
        for pause in [0, 0, 30, 30] {
            // Without a pause the next sandbox may still be under construction, with one it stands ready.
            let pause = || tokio::time::sleep(std::time::Duration::from_millis(pause));
            assert_eq!(look().await, "below\n");
            pause().await;
            mount(Some("none"), &target, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
            fs::write(target.join("above"), "").unwrap();
            let seen = look().await;
            pause().await;
            umount2(&target, MntFlags::MNT_DETACH).unwrap();
            assert_eq!(seen, "above\n", "mounted, and read-only like all else");
        }
        assert_eq!(look().await, "below\n");
        executor.dispose().await;
    });
}
