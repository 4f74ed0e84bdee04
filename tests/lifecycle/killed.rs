//! SIGKILL to the host, the launcher, and init.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stockade::executor::{BashExecutor as _, CallPolicy, ExecError, ExecRequest};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run};
use crate::traces::{MARK, Token, eventually, tree};
use crate::{BACKENDS, block_on};

const ROUNDS: u64 = 30;

/// Where a host process of ours finds its directories.
const ROOT: &str = "STOCKADE_TEST_ROOT";

#[test]
fn sigkill_of_the_host_leaves_nothing() {
    as_every_user("killed::sigkill_of_the_host_leaves_nothing_inside");
}

#[test]
#[ignore = "run by sigkill_of_the_host_leaves_nothing as each user"]
fn sigkill_of_the_host_leaves_nothing_inside() {
    let place = Place::new();
    let token = Token::of(place.root());
    fs::create_dir(place.work().join(".git")).unwrap();
    fs::write(place.work().join("file"), "content").unwrap();
    let before = tree(&place.work());
    let (mut busy, mut left_directories) = (0, 0);
    for round in 0..ROUNDS {
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "killed::host"])
            .env(ROOT, place.root())
            .env(MARK, &token.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        // Half of the rounds from the start on, half from where commands are known to run.
        if round.is_multiple_of(2) {
            lines
                .by_ref()
                .find(|line| line.as_ref().unwrap().contains("commands are up"))
                .expect("the host runs")
                .unwrap();
            busy += usize::from(token.processes().len() > 3);
        }
        std::thread::sleep(Duration::from_micros(random() % 120_000));
        host.kill().unwrap();
        host.wait().unwrap();
        token.assert_gone(&format!("SIGKILL of the host, round {round}"));
        assert_eq!(tree(&place.work()), before, "round {round}");
        left_directories += usize::from(!tree(&place.state()).is_empty());
    }
    // The control: there was something to be left.
    assert!(busy > 0, "no round had sandboxes at work");
    assert!(left_directories > 0, "no round left a directory to sweep");
    block_on(async {
        let next = place.executor(SandboxMode::ReadOnly, BACKENDS[0]);
        // With its first command, and without letting it wait.
        run(&next, ExecRequest::shell("true")).await.unwrap();
        eventually("the next executor has swept", || {
            tree(&place.state()).iter().all(|path| path.to_str().unwrap().contains("stockade-spill") && path.is_dir())
        })
        .await;
        next.dispose().await;
        assert_eq!(tree(&place.state()), Vec::<std::path::PathBuf>::new());
    });
}

/// Not a test of its own: a host with all kinds of commands at work, to be killed.
#[test]
#[ignore = "run by the other tests, and killed"]
fn host() {
    let root = std::env::var_os(ROOT).expect("run by the other tests");
    let root = Path::new(&root);
    let token = Token(std::env::var(MARK).unwrap());
    block_on(async {
        let place = Place::at(root);
        let executors = BACKENDS.map(|backend| {
            place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            })
        });
        let commands = [
            "sleep 1000",
            "trap '' TERM HUP; setsid sleep 1000 & (setsid nohup sleep 1000 >/dev/null 2>&1 &); sleep 1000",
            "while :; do head -c 300000 /dev/zero; sleep 0.02; done",
            "while :; do (sleep 0.01; :) & wait; done",
        ];
        let mut processes = Vec::new();
        for (number, command) in commands.into_iter().enumerate() {
            let executor = &executors[number % 2];
            let mut request = token.mark(ExecRequest::shell(command));
            request.policy = Some(CallPolicy {
                mode: SandboxMode::WorkspaceWrite,
                workspace: place.work(),
                extra: stockade::denial::Grant::default(),
                session: Some("s".to_owned()),
            });
            processes.push(executor.start(executor.resolve(request).unwrap()).await.unwrap());
        }
        println!("\ncommands are up");
        let runs = executors.iter().map(async |executor| {
            // Longer than any test waits before it kills us.
            for _ in 0..100_000 {
                run(executor, token.mark(ExecRequest::shell("sleep 0.01"))).await.unwrap();
            }
        });
        let [first, second] = <[_; 2]>::try_from(runs.collect::<Vec<_>>()).ok().unwrap();
        let ((), ()) = tokio::join!(first, second);
    });
}

#[test]
fn sigkill_of_the_launcher_or_of_init_is_survived() {
    as_every_user("killed::sigkill_of_the_launcher_or_of_init_is_survived_inside");
}

#[test]
#[ignore = "run by sigkill_of_the_launcher_or_of_init_is_survived as each user"]
fn sigkill_of_the_launcher_or_of_init_is_survived_inside() {
    block_on(async {
        for backend in BACKENDS {
            for victim in [Victim::Launcher, Victim::Init, Victim::Prepared] {
                kill_one(backend, victim).await;
            }
        }
    });
}

/// Who is killed while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Launcher,
    Init,
    /// The sandbox that is built ahead of time, where there is one.
    Prepared,
}

async fn kill_one(backend: stockade::plan::BackendChoice, victim: Victim) {
    let title = format!("SIGKILL of {victim:?}, {backend:?}");
    let place = Place::new();
    let token = Token::of(place.root());
    let executor = place.executor_with(SandboxMode::ReadOnly, |config| {
        config.backend = backend;
        token.mark_launcher(&place, config);
    });
    let command = "trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &); echo up; sleep 1000";
    let request = token.mark(ExecRequest::shell(command));
    let process = executor.start(executor.resolve(request).unwrap()).await.unwrap();
    let mut seen = String::new();
    eventually("the command is up", || {
        seen.push_str(&process.read_output().stdout);
        seen.contains("up")
    })
    .await;
    let launcher = token.launcher_process().pid;
    let init = |running: bool| token.inits(launcher).into_iter().find(|(_, runs)| *runs == running).map(|(pid, _)| pid);
    if backend == BACKENDS[0] {
        eventually("the next sandbox stands ready", || init(false).is_some()).await;
    }
    let pid = match victim {
        Victim::Launcher => launcher,
        Victim::Init => init(true).unwrap(),
        Victim::Prepared if backend == BACKENDS[0] => init(false).unwrap(),
        // The other backend builds nothing ahead.
        Victim::Prepared => return,
    };
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    if victim == Victim::Prepared {
        assert!(process.kill().await, "{title}: the command has nothing to do with it");
    }
    let end = tokio::time::timeout(Duration::from_secs(10), process.done()).await;
    match end.unwrap_or_else(|_| panic!("{title}: the handle never settles")) {
        Ok(result) => assert!(victim == Victim::Prepared || result.signal.as_deref() == Some("SIGKILL"), "{title}"),
        Err(error) => assert!(matches!(error, ExecError::SandboxLost { .. }), "{title}: {error}"),
    }
    eventually(&format!("{title}: nothing of the command is left"), || {
        token.processes().iter().all(|process| process.cmdline().is_ok_and(|line| line.concat().contains("launcher")))
    })
    .await;
    if victim == Victim::Launcher {
        token.assert_gone(&title);
    }
    let next = run(&executor, token.mark(ExecRequest::shell("echo again"))).await;
    assert_eq!(next.unwrap_or_else(|error| panic!("{title}: {error}")).stdout.text, "again\n");
    executor.dispose().await;
    token.assert_gone("disposal");
}

/// The command line forks its launcher, which has neither arguments nor environment to be found by.
#[test]
fn sigkill_of_the_command_line_leaves_nothing() {
    as_every_user("killed::sigkill_of_the_command_line_leaves_nothing_inside");
}

#[test]
#[ignore = "run by sigkill_of_the_command_line_leaves_nothing as each user"]
fn sigkill_of_the_command_line_leaves_nothing_inside() {
    let place = Place::new();
    let token = Token::of(place.root());
    let program = place.root().join(token.program_name());
    let launcher = crate::executor::launcher();
    fs::hard_link(&launcher, &program).or_else(|_| fs::copy(&launcher, &program).map(drop)).unwrap();
    let mut busy = 0;
    for round in 0..ROUNDS {
        let backend = if round.is_multiple_of(2) { "namespaces" } else { "landlock" };
        let mut host = Command::new(&program)
            .args(["run", "--mode", "workspace-write", "--backend", backend, "-c", "setsid sleep 1000 & sleep 1000"])
            .current_dir(place.work())
            .env(MARK, &token.0)
            .env("TMPDIR", place.state())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(random() % 150_000));
        busy += usize::from(token.processes().len() > 3);
        host.kill().unwrap();
        host.wait().unwrap();
        token.assert_gone(&format!("SIGKILL of stockade run, round {round}, {backend}"));
        assert_eq!(tree(&place.work()), Vec::<std::path::PathBuf>::new(), "round {round}");
    }
    assert!(busy > 0, "no round had a sandbox at work");
}

/// Random enough to spread moments.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}
