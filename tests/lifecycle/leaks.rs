//! Many runs, much output, many at once: nothing accumulates.

use std::fs;
use std::path::Path;

use stockade::executor::{BashExecutor as _, CallPolicy, ExecRequest};
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;
use stockade::sandboxed::SandboxedExecutor;

use crate::executor::{Place, as_every_user, run, shell};
use crate::traces::{Token, tree};
use crate::{BACKENDS, block_on};

/// Runs after which nothing may be more than after ten: 2 000 where `STOCKADE_TEST_LONG` is set.
fn many() -> usize {
    if std::env::var_os("STOCKADE_TEST_LONG").is_some() { 2000 } else { 300 }
}

#[test]
fn many_runs_leave_nothing() {
    as_every_user("leaks::many_runs_leave_nothing_inside");
}

#[test]
#[ignore = "run by many_runs_leave_nothing as each user"]
fn many_runs_leave_nothing_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let token = Token::of(place.root());
            let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            });
            let mut after_ten = None;
            for number in 1..=many() {
                one_of_many(&executor, &place, &token, number).await;
                if number == 10 {
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    after_ten = Some(Figures::take(&place, &token));
                }
            }
            let before = after_ten.unwrap();
            let mut after = Figures::take(&place, &token);
            // The init of the last run may still be on its way out.
            for _ in 0..100 {
                if after == before {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                after = Figures::take(&place, &token);
            }
            println!("\nfigure: {backend:?}, after 10 runs {before:?}, after {} {after:?}", many());
            assert_eq!(before, after, "{backend:?}");
            executor.dispose().await;
            token.assert_gone("disposal");
            assert_eq!(tree(&place.state()), Vec::<std::path::PathBuf>::new(), "{backend:?}");
        }
    });
}

/// All kinds in turn: success, failure, a missing program, a signal, a daemon, a spill, a session, another mode.
async fn one_of_many(executor: &SandboxedExecutor, place: &Place, token: &Token, number: usize) {
    let command = match number % 6 {
        0 => "true",
        1 => "exit 1",
        2 => "kill -TERM $$",
        3 => "setsid sleep 1000 >/dev/null 2>&1 & true",
        4 => "head -c 200000 /dev/zero",
        _ => "no-such-program; touch kept /tmp/x",
    };
    let mode = if number.is_multiple_of(2) { SandboxMode::WorkspaceWrite } else { SandboxMode::ReadOnly };
    let policy = CallPolicy {
        mode,
        workspace: place.work(),
        extra: stockade::denial::Grant::default(),
        session: number.is_multiple_of(3).then(|| "one".to_owned()),
    };
    let request = ExecRequest { policy: Some(policy), ..token.mark(ExecRequest::shell(command)) };
    let result = run(executor, request).await.unwrap();
    if let Some(spill) = result.stdout.spill_path {
        fs::remove_file(spill).unwrap();
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Figures {
    descriptors: usize,
    /// Of the launcher; another user's descriptors are for root to see, and it is not dumpable.
    launcher_descriptors: Option<usize>,
    mounts: usize,
    launcher_mounts: Option<usize>,
    processes: usize,
    temporary_files: usize,
    cgroups: usize,
}

impl Figures {
    fn take(place: &Place, token: &Token) -> Self {
        let launcher = token.launcher_process();
        let as_root = |value: &dyn Fn() -> usize| nix::unistd::geteuid().is_root().then(value);
        let mounts = |pid: i32| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        Self {
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            launcher_descriptors: as_root(&|| launcher.fd_count().unwrap()),
            // Other tests mount at the same time, outside our directories.
            mounts: mounts(std::process::id().cast_signed()).matches(&token.0).count(),
            launcher_mounts: as_root(&|| mounts(launcher.pid).matches(place.root().to_str().unwrap()).count()),
            processes: token.processes().len(),
            temporary_files: tree(&place.state()).len(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), 4),
        }
    }
}

/// Cgroups with our name on them.
fn cgroups(directory: &Path, depth: usize) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            let ours = usize::from(entry.file_name().to_string_lossy().contains("stockade"));
            ours + if depth > 0 { cgroups(&entry.path(), depth - 1) } else { 0 }
        })
        .sum()
}

#[test]
fn much_output_costs_no_memory() {
    as_every_user("leaks::much_output_costs_no_memory_inside");
}

#[test]
#[ignore = "run by much_output_costs_no_memory as each user, in a process of its own"]
fn much_output_costs_no_memory_inside() {
    block_on(async {
        let place = Place::new();
        let executor = place.executor(SandboxMode::ReadOnly, BackendChoice::Namespaces);
        let result = shell(&executor, "head -c 300000000 /dev/zero | tr '\\0' x; echo; echo end").await;
        assert_eq!(result.exit_code, Some(0));
        assert_eq!(result.stdout.bytes, 300_000_005);
        assert!(result.stdout.truncated && result.stdout.text.ends_with("x\nend\n"));
        assert_eq!(result.stdout.spill_path, None, "an incomplete spill is withheld");
        assert_eq!(tree(&place.state()).iter().filter(|path| path.is_file()).count(), 0, "and deleted");
        let status = procfs::process::Process::myself().unwrap().status().unwrap();
        let peak = status.vmhwm.unwrap();
        println!("\nfigure: 300 MB of output, peak resident {peak} KiB");
        assert!(peak < 40 * 1024, "{peak} KiB");
        executor.dispose().await;
    });
}

#[test]
fn fifty_at_once() {
    as_every_user("leaks::fifty_at_once_inside");
}

#[test]
#[ignore = "run by fifty_at_once as each user"]
fn fifty_at_once_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let executor = std::sync::Arc::new(place.executor(SandboxMode::WorkspaceWrite, backend));
            let mut runs = tokio::task::JoinSet::new();
            for number in 0..50 {
                let executor = std::sync::Arc::clone(&executor);
                runs.spawn(async move {
                    let command = format!("echo {number} > file-{number}; sleep 0.3; cat file-{number}; exit {number}");
                    let result = shell(&executor, &command).await;
                    assert_eq!(result.stdout.text, format!("{number}\n"), "{}", result.stderr.text);
                    assert_eq!(result.exit_code, Some(number));
                });
            }
            assert_eq!(runs.join_all().await.len(), 50);
            assert_eq!(fs::read_dir(place.work()).unwrap().count(), 50);
            executor.dispose().await;
        }
    });
}
