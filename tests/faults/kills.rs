//! SIGKILL to the host, its launcher, and the inits of sandboxes, at random moments.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use stockade::executor::{BashExecutor as _, CallPolicy, ExecError, ExecRequest, RunResult, Timeout};
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;
use stockade::sandboxed::{SandboxedExecutor, TerminalSize};

use crate::executor::{Place, as_every_user, launcher, run};
use crate::traces::{MARK, Token, eventually, tree};
use crate::{BACKENDS, Claim, block_on, random};

/// Rounds as each user: `STOCKADE_FAULT_ROUNDS`.
fn rounds() -> u64 {
    std::env::var("STOCKADE_FAULT_ROUNDS").map_or(24, |text| text.parse().unwrap())
}

/// Where a host process of ours finds its directories.
const ROOT: &str = "STOCKADE_TEST_ROOT";

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// A program that embeds the executors, supervisor, proxy and all.
    Host,
    /// `stockade run`, or the launcher that it forked.
    CommandLine,
    /// The launcher of an executor in this process.
    Launcher,
    /// One of its sandboxes: running, being built, or ready for the next command.
    Init,
}

const VICTIMS: [Victim; 4] = [Victim::Host, Victim::CommandLine, Victim::Launcher, Victim::Init];

#[test]
fn sigkill_at_random_moments() {
    as_every_user("kills::sigkill_at_random_moments_inside");
}

#[test]
#[ignore = "run by sigkill_at_random_moments as each user"]
fn sigkill_at_random_moments_inside() {
    let mut claims: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds() {
        let place = Place::new();
        fs::create_dir(place.work().join(".git")).unwrap();
        fs::write(place.work().join("file"), "content").unwrap();
        let victim = VICTIMS[usize::try_from(round % 4).unwrap()];
        let backend = BACKENDS[usize::try_from(round / 4 % 2).unwrap()];
        let title = format!("round {round}: SIGKILL of {victim:?}, {backend:?}");
        let before = world(&place.work());
        let seen = match victim {
            Victim::Host => host_round(&title, &place),
            Victim::CommandLine => command_line_round(&title, &place, backend),
            Victim::Launcher | Victim::Init => {
                let mut seen = Vec::new();
                block_on(async { seen = sandbox_round(&title, &place, backend, victim).await });
                seen
            }
        };
        for claim in seen {
            *claims.entry(format!("{victim:?} {claim}")).or_default() += 1;
        }
        assert_eq!(world(&place.work()), before, "{title}");
    }
    println!("\nfigure: {} rounds: {claims:?}", rounds());
    // The control: kills met commands at work.
    assert!(claims.keys().any(|claim| claim.ends_with("at work")), "{claims:?}");
    assert!(claims.keys().any(|claim| claim.ends_with("Unknown")), "{claims:?}");
}

/// Every path with its content.
fn world(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    tree(root).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap_or_default())).collect()
}

fn host_round(title: &str, place: &Place) -> Vec<String> {
    let token = Token::of(place.root());
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "kills::host"])
        .env(ROOT, place.root())
        .env(MARK, &token.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let busy = random(3) > 0;
    if busy {
        let up = lines.by_ref().find(|line| line.as_ref().unwrap().contains("commands are up"));
        up.unwrap_or_else(|| panic!("{title}: the host runs")).unwrap();
    }
    std::thread::sleep(Duration::from_micros(random(100_000)));
    host.kill().unwrap();
    host.wait().unwrap();
    token.assert_gone(title);
    vec![if busy { "at work" } else { "starting" }.to_owned()]
}

/// Not a test of its own: a host with all kinds of commands at work, to be killed.
#[test]
#[ignore = "run by the other tests, and killed"]
fn host() {
    let root = std::env::var_os(ROOT).expect("run by the other tests");
    let token = Token(std::env::var(MARK).unwrap());
    block_on(async {
        let place = Place::at(Path::new(&root));
        let executors = BACKENDS.map(|backend| executor(&place, &token, backend));
        let mut processes = Vec::new();
        for executor in &executors {
            for (command, network) in [
                ("trap '' TERM HUP; setsid sleep 1000 & (setsid nohup sleep 1000 >/dev/null 2>&1 &); sleep 1000", ""),
                ("while :; do head -c 300000 /dev/zero; done", ""),
                ("sleep 1000", "host.invalid:443"),
            ] {
                let mut request = token.mark(ExecRequest::shell(command));
                let mut extra = stockade::denial::Grant::default();
                extra.network.extend((!network.is_empty()).then(|| network.to_owned()));
                let (mode, session) = (SandboxMode::WorkspaceWrite, Some("s".to_owned()));
                request.policy = Some(CallPolicy { mode, workspace: place.work(), extra, session });
                // Landlock alone has no way for an allowlist.
                processes.extend(executor.start(executor.resolve(request).unwrap()).await);
            }
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

fn executor(place: &Place, token: &Token, backend: BackendChoice) -> SandboxedExecutor {
    place.executor_with(SandboxMode::WorkspaceWrite, |config| {
        config.backend = backend;
        token.mark_launcher(place, config);
    })
}

fn command_line_round(title: &str, place: &Place, backend: BackendChoice) -> Vec<String> {
    let token = Token::of(place.root());
    let program = place.root().join(token.program_name());
    fs::hard_link(launcher(), &program).or_else(|_| fs::copy(launcher(), &program).map(drop)).unwrap();
    let backend = if backend == BackendChoice::Landlock { "landlock" } else { "namespaces" };
    let child = Command::new(&program)
        .args(["run", "--mode", "workspace-write", "--backend", backend, "-c"])
        .arg("echo ran >ran; setsid sleep 1000 & sleep 2")
        .current_dir(place.work())
        .env(MARK, &token.0)
        .env("TMPDIR", place.state())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_micros(random(120_000)));
    let host = i32::try_from(child.id()).unwrap();
    let forked = token.processes().into_iter().find(|process| process.stat().is_ok_and(|stat| stat.ppid == host));
    let victim = match forked {
        Some(launcher) if random(2) == 0 => launcher.pid,
        _ => host,
    };
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    token.assert_gone(title);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let ran = fs::remove_file(place.work().join("ran")).is_ok();
    if victim != host {
        // It has lost its sandbox: that is said, and no exit status of a command is made up. One that was lost before it
        // had its order is made up for by another.
        let made_up_for = ran && output.status.success();
        let told = made_up_for || stderr.contains("stockade: ") && output.status.code() == Some(125);
        assert!(told, "{title}: {:?} {stderr}", output.status);
        assert!(made_up_for || !ran || stderr.contains("lost"), "{title}: it ran: {stderr}");
    }
    vec![if ran { "at work" } else { "starting" }.to_owned()]
}

async fn sandbox_round(title: &str, place: &Place, backend: BackendChoice, victim: Victim) -> Vec<String> {
    let token = Token::of(place.root());
    let executor = Arc::new(executor(place, &token, backend));
    if random(2) == 0 {
        run(&executor, token.mark(ExecRequest::shell("true"))).await.unwrap();
    }
    let mut commands = tokio::task::JoinSet::new();
    for number in 0..4 {
        commands.spawn(command(number, Arc::clone(&executor), token.clone()));
    }
    tokio::time::sleep(Duration::from_micros(random(60_000))).await;
    if let Some(pid) = choose(&token, victim) {
        // ESRCH: it has just ended by itself.
        assert!(matches!(kill(Pid::from_raw(pid), Signal::SIGKILL), Ok(()) | Err(nix::errno::Errno::ESRCH)));
    }
    let all = async {
        let mut outcomes = Vec::new();
        while let Some(ended) = commands.join_next().await {
            let (number, outcome) = ended.unwrap();
            let then = place.work().join(format!("ran-{number}")).exists();
            outcomes.push((number, then, outcome));
        }
        outcomes
    };
    let outcomes = tokio::time::timeout(Duration::from_secs(20), all).await;
    let outcomes = outcomes.unwrap_or_else(|_| panic!("{title}: a command never settles"));
    eventually(&format!("{title}: nothing of the commands is left"), || {
        token.processes().iter().all(|process| process.cmdline().is_ok_and(|line| line.concat().contains("launcher")))
    })
    .await;
    let mut claims = Vec::new();
    for (number, then, outcome) in outcomes {
        let ran = fs::remove_file(place.work().join(format!("ran-{number}"))).is_ok();
        let claim = Claim::of(title, &outcome);
        let consistent = match (&outcome, claim) {
            (_, Claim::DidNot) => !ran,
            // What is said to have ended does nothing more.
            (Ok(result), _) => ran == then && (ran || result.exit_code != Some(0)),
            (Err(_), _) => ran == then || victim == Victim::Launcher,
        };
        assert!(consistent, "{title}, command {number}: ran: {ran}, when it was said: {then}, {outcome:?}");
        claims.push(format!("{claim:?}"));
    }
    let next = run(&executor, token.mark(ExecRequest::shell("echo again"))).await;
    assert_eq!(next.unwrap_or_else(|error| panic!("{title}: afterwards: {error}")).stdout.text, "again\n");
    executor.dispose().await;
    token.assert_gone(title);
    assert_eq!(tree(&place.state()), Vec::<PathBuf>::new(), "{title}");
    claims
}

/// One of four kinds of commands, each of which leaves a file when it runs.
async fn command(
    number: usize,
    executor: Arc<SandboxedExecutor>,
    token: Token,
) -> (usize, Result<RunResult, ExecError>) {
    let ending = if number == 0 { "true" } else { "sleep 1000" };
    let mut request = token.mark(ExecRequest::shell(format!("echo ran >ran-{number}; setsid sleep 1000 & {ending}")));
    let outcome = match number {
        0 | 1 => {
            request.timeout = Timeout::After(Duration::from_millis(200));
            run(&executor, request).await
        }
        2 => match executor.start(executor.resolve(request).unwrap()).await {
            Ok(process) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                process.kill().await;
                process.done().await
            }
            Err(error) => Err(error),
        },
        _ => match executor.start_pty(executor.resolve(request).unwrap(), TerminalSize::default()).await {
            Ok(process) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                process.kill().await;
                process.done().await
            }
            Err(error) => Err(error),
        },
    };
    (number, outcome)
}

/// The launcher, or any process below it: inits of all states.
fn choose(token: &Token, victim: Victim) -> Option<i32> {
    let processes = token.processes();
    let below = |parent: i32| -> Vec<i32> {
        let of = processes.iter().filter(|process| process.stat().is_ok_and(|stat| stat.ppid == parent));
        of.map(|process| process.pid).collect()
    };
    let launcher = *below(getpid().as_raw()).first()?;
    if victim == Victim::Launcher {
        return Some(launcher);
    }
    let inits = below(launcher);
    let number = u64::try_from(inits.len()).unwrap();
    (number > 0).then(|| inits[usize::try_from(random(number)).unwrap()])
}
