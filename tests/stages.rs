//! Every stage between a request and a running command, made to fail: the failure comes back typed, and nothing ran.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nix::errno::Errno;
use nix::unistd::geteuid;
use stockade::executor::{BashExecutor as _, CallPolicy, CommandLine, ExecError, ExecRequest};
use stockade::launcher::{SetupFailure, Stage};
use stockade::plan::{BackendChoice, Fault};
use stockade::policy::{PolicyRequest, SandboxMode};
use stockade::sandboxed::{SandboxedConfig, SandboxedExecutor, TraceChoice};

use executor::{Place, as_every_user, run};

/// What confines the command of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Namespaces,
    /// With a network that leads to one host.
    Allowlist,
    Landlock,
    Unconfined,
}

const CASES: [Case; 4] = [Case::Namespaces, Case::Allowlist, Case::Landlock, Case::Unconfined];

impl Case {
    fn mode(self) -> SandboxMode {
        if self == Self::Unconfined { SandboxMode::DangerFullAccess } else { SandboxMode::WorkspaceWrite }
    }

    fn config(self, place: &Place) -> SandboxedConfig {
        let allowed = (self == Self::Allowlist).then(|| "example.invalid:443".to_owned());
        let request = PolicyRequest::new(self.mode(), place.work()).network(None, allowed);
        let mut config = place.config_for(request);
        config.backend = self.backend();
        config
    }

    fn executor(self, place: &Place) -> SandboxedExecutor {
        SandboxedExecutor::new(self.config(place)).unwrap()
    }

    fn backend(self) -> BackendChoice {
        if self == Self::Landlock { BackendChoice::Landlock } else { BackendChoice::Namespaces }
    }

    /// Whether a sandbox of this kind has the stage at all.
    fn has(self, stage: Stage) -> bool {
        let root = geteuid().is_root();
        let mounts = matches!(self, Self::Namespaces | Self::Allowlist);
        match stage {
            // Root needs no user namespace, and only root may limit a PID namespace.
            Stage::IdMaps => mounts && !root,
            Stage::PidLimit => mounts && root,
            Stage::BindSources
            | Stage::ReadOnlyRoot
            | Stage::Dev
            | Stage::Proc
            | Stage::PrivateDirs
            | Stage::Binds
            | Stage::Loopback => mounts,
            Stage::ProxySocket => self == Self::Allowlist,
            Stage::Capabilities | Stage::NoNewPrivs | Stage::Landlock | Stage::Trace => self != Self::Unconfined,
            Stage::Request
            | Stage::Namespaces
            | Stage::Lifeline
            | Stage::Fork
            | Stage::Session
            | Stage::Keyring
            | Stage::Rlimits
            | Stage::Descriptors
            | Stage::Seccomp
            | Stage::Stdio
            | Stage::Workdir
            | Stage::Exec => true,
        }
    }
}

#[test]
fn every_stage_can_fail() {
    as_every_user("every_stage_can_fail_inside");
}

#[test]
#[ignore = "run by every_stage_can_fail as each user"]
fn every_stage_can_fail_inside() {
    block_on(async {
        let place = Place::new();
        for (case, stage) in CASES.into_iter().flat_map(|case| Stage::ALL.map(|stage| (case, stage))) {
            fail_at(&place, case, stage).await;
        }
    });
}

async fn fail_at(place: &Place, case: Case, stage: Stage) {
    // An errno that tells of no missing ability, so that nothing weaker is tried in its place.
    let fault = Fault { stage, errno: Errno::EUCLEAN as i32 };
    let executor = SandboxedExecutor::new(SandboxedConfig { fault: Some(fault), ..case.config(place) }).unwrap();
    let marker = place.work().join("marker");
    let outcome = run(&executor, ExecRequest::shell(format!("echo ran > {}", marker.display()))).await;
    executor.dispose().await;
    let ran = fs::remove_file(&marker).is_ok();
    let title = format!("{case:?} {stage}");
    if !case.has(stage) {
        // The control: the same request, the same executor, and a fault in a stage that is not there.
        assert!(ran && outcome.unwrap().exit_code == Some(0), "{title}: nothing was in the way");
        return;
    }
    assert!(!ran, "{title}: the command ran");
    let errno = match outcome.unwrap_err() {
        ExecError::Setup(SetupFailure { stage: reported, errno, path: None }) if reported == stage => errno,
        ExecError::Workdir { path, source } if stage == Stage::Workdir && path == place.work() => raw(&source),
        ExecError::NotExecutable { program, source } if stage == Stage::Exec && program == "bash" => raw(&source),
        other => panic!("{title}: {other:?}"),
    };
    assert_eq!(errno, Errno::EUCLEAN as i32, "{title}");
}

/// A refusal that tells of a missing ability leads to the weaker backend, and the result says so; a shortage does not.
#[test]
fn what_the_host_refuses_is_done_without_and_reported() {
    as_every_user("what_the_host_refuses_is_done_without_and_reported_inside");
}

#[test]
#[ignore = "run by what_the_host_refuses_is_done_without_and_reported as each user"]
fn what_the_host_refuses_is_done_without_and_reported_inside() {
    block_on(async {
        let place = Place::new();
        let with_fault = |stage, errno: Errno, backend| {
            place.executor_with(SandboxMode::ReadOnly, |config| {
                config.backend = backend;
                config.fault = Some(Fault { stage, errno: errno as i32 });
            })
        };
        let weaker = with_fault(Stage::Loopback, Errno::EPERM, BackendChoice::Auto);
        let report = run(&weaker, ExecRequest::shell("true")).await.unwrap().sandbox.unwrap();
        let names: Vec<&str> = report.gaps.iter().map(|gap| gap.as_str()).collect();
        assert!(names.contains(&"process-isolation"), "{names:?}");
        let demanded = with_fault(Stage::Loopback, Errno::EPERM, BackendChoice::Namespaces);
        let error = run(&demanded, ExecRequest::shell("true")).await.unwrap_err();
        assert!(matches!(&error, ExecError::SandboxUnavailable { reason } if reason.contains("namespaces")), "{error}");
        let short = with_fault(Stage::Loopback, Errno::ENOMEM, BackendChoice::Auto);
        let error = run(&short, ExecRequest::shell("true")).await.unwrap_err();
        assert!(matches!(&error, ExecError::Setup(failure) if failure.stage == Stage::Loopback), "{error}");
        let watched = |trace| {
            place.executor_with(SandboxMode::ReadOnly, |config| {
                config.trace = trace;
                config.fault = Some(Fault { stage: Stage::Trace, errno: Errno::EBUSY as i32 });
            })
        };
        let (unwatched, must_watch) = (watched(TraceChoice::Auto), watched(TraceChoice::On));
        let report = run(&unwatched, ExecRequest::shell("true")).await.unwrap().sandbox.unwrap();
        assert!(report.notes.iter().any(|note| note.contains("trace")), "{:?}", report.notes);
        let error = run(&must_watch, ExecRequest::shell("true")).await.unwrap_err();
        assert!(matches!(&error, ExecError::Setup(failure) if failure.stage == Stage::Trace), "{error}");
        for executor in [weaker, demanded, short, unwatched, must_watch] {
            executor.dispose().await;
        }
    });
}

#[test]
fn real_failures_are_typed() {
    as_every_user("real_failures_are_typed_inside");
}

#[test]
#[ignore = "run by real_failures_are_typed as each user"]
fn real_failures_are_typed_inside() {
    block_on(async {
        let place = Place::new();
        for case in CASES {
            let executor = case.executor(&place);
            workdirs(&place, &executor).await;
            programs(&place, &executor).await;
            executor.dispose().await;
        }
        for case in [Case::Namespaces, Case::Landlock] {
            vanished_session(&place, case).await;
        }
    });
}

async fn workdirs(place: &Place, executor: &SandboxedExecutor) {
    let file = place.work().join("a-file");
    fs::write(&file, "").unwrap();
    let closed = place.work().join("closed");
    fs::create_dir_all(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let mut cases = vec![(place.work().join("missing"), Errno::ENOENT), (file, Errno::ENOTDIR)];
    if !geteuid().is_root() {
        cases.push((closed, Errno::EACCES));
    }
    for (workdir, errno) in cases {
        let marker = place.work().join("marker");
        let request =
            ExecRequest { workdir: Some(workdir.clone()), ..ExecRequest::shell(format!("touch {}", marker.display())) };
        match run(executor, request).await.unwrap_err() {
            // Where the standard library looks first it answers with a kind of its own instead of an errno.
            ExecError::Workdir { path, source } => {
                assert_eq!(path, workdir);
                assert_eq!(source.kind(), std::io::Error::from(errno).kind());
            }
            other => panic!("{}: {other:?}", workdir.display()),
        }
        assert!(!marker.exists());
    }
    // The control: a directory that is there.
    assert_eq!(executor::shell(executor, "pwd").await.stdout.text.trim(), place.work().to_str().unwrap());
}

async fn programs(place: &Place, executor: &SandboxedExecutor) {
    let work = place.work();
    fs::create_dir_all(work.join("folder")).unwrap();
    let plain = work.join("plain");
    fs::write(&plain, "#!/bin/sh\necho ran > ran\n").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let try_program = async |program: &str| {
        let request = ExecRequest::new(CommandLine::Program(vec![program.into()]));
        let outcome = run(executor, request).await;
        assert!(!work.join("ran").exists());
        outcome
    };
    for missing in ["no-such-program-anywhere", "./no-such-program", "./plain/beneath"] {
        let error = try_program(missing).await.unwrap_err();
        assert!(matches!(&error, ExecError::NotFound { program } if program == missing), "{missing}: {error:?}");
    }
    for refused in ["./folder", "./plain"] {
        match try_program(refused).await.unwrap_err() {
            ExecError::NotExecutable { program, source } => {
                assert_eq!((program.as_str(), raw(&source)), (refused, Errno::EACCES as i32));
            }
            other => panic!("{refused}: {other:?}"),
        }
    }
    // The control: the same file, once it may be executed.
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
    let request = ExecRequest::new(CommandLine::Program(vec!["./plain".into()]));
    assert_eq!(run(executor, request).await.unwrap().exit_code, Some(0));
    fs::remove_file(work.join("ran")).unwrap();
}

/// A path of the plan that is gone when the sandbox is built: here the session's own `/tmp`, removed behind our back.
async fn vanished_session(place: &Place, case: Case) {
    let executor = case.executor(place);
    let marker = place.work().join("marker");
    let policy = CallPolicy {
        mode: case.mode(),
        workspace: place.work(),
        extra: stockade::denial::Grant::default(),
        session: Some("one".to_owned()),
    };
    let request = |command: String| ExecRequest { policy: Some(policy.clone()), ..ExecRequest::shell(command) };
    let first = run(&executor, request("echo x > \"${TMPDIR:-/tmp}/kept\"".to_owned())).await.unwrap();
    assert_eq!(first.exit_code, Some(0), "{}", first.stderr.text);
    let session = fs::read_dir(place.state())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("tmp/kept").exists())
        .expect("the session's directory is on the host");
    fs::remove_dir_all(session.join("tmp")).unwrap();
    let error = run(&executor, request(format!("touch {}", marker.display()))).await.unwrap_err();
    let stage = if case == Case::Landlock { Stage::Landlock } else { Stage::BindSources };
    match error {
        ExecError::Setup(failure) => {
            assert_eq!((failure.stage, failure.errno), (stage, Errno::ENOENT as i32));
            assert_eq!(failure.path, Some(session.join("tmp")));
        }
        other => panic!("{other:?}"),
    }
    assert!(!marker.exists());
    executor.dispose().await;
}

/// Sockets of the host are covered one by one; one that is gone by then needs no cover.
#[test]
fn host_sockets_that_come_and_go_stop_no_command() {
    let place = Place::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (path, stop) = (place.root().join(format!("socket-{number}")), &stop);
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    fs::remove_file(&path).unwrap();
                    drop(socket);
                }
            });
        }
        let outcomes = std::thread::spawn({
            let executor = place.executor(SandboxMode::ReadOnly, BackendChoice::Namespaces);
            move || {
                let mut failures = Vec::new();
                block_on(async {
                    for _ in 0..300 {
                        failures.extend(run(&executor, ExecRequest::shell("true")).await.err());
                    }
                    executor.dispose().await;
                });
                failures
            }
        })
        .join();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let failures = outcomes.unwrap();
        assert!(failures.is_empty(), "{} of 300: {:?}", failures.len(), failures[0]);
    });
}

fn raw(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap()
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}
