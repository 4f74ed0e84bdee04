//! Results, input, programs, and requests that cannot run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use stockade::executor::{BashExecutor as _, CommandLine, ExecError, ExecRequest, Stdin};
use tokio_util::sync::CancellationToken;

use crate::helper::{executor, executor_with, run, shell};

#[tokio::test]
async fn a_result_says_how_it_ended_and_what_was_written() {
    let (dir, executor) = executor();
    let done = shell(&executor, "echo out; echo err >&2; pwd; exit 3").await;
    assert_eq!((done.exit_code, done.signal, done.timed_out, done.aborted), (Some(3), None, false, false));
    assert_eq!(done.stdout.text, format!("out\n{}\n", dir.path().canonicalize().unwrap().display()));
    assert_eq!((done.stderr.text.as_str(), done.stderr.bytes, done.stderr.truncated), ("err\n", 4, false));
    assert_eq!((done.timeout_ms, done.sandbox, executor.sandbox_mode()), (120_000, None, None));
    assert!(done.duration_ms > 0.0);

    let killed = shell(&executor, "kill -KILL $$").await;
    assert_eq!((killed.exit_code, killed.signal.as_deref()), (None, Some("SIGKILL")));
    assert!(!killed.aborted && !killed.timed_out);
}

#[tokio::test]
async fn input_is_empty_unless_given() {
    let (_dir, executor) = executor();
    assert_eq!(shell(&executor, "readlink /proc/self/fd/0; cat | wc -c").await.stdout.text, "/dev/null\n0\n");

    // Through `cat` both ways at once: more than any pipe holds.
    let bytes = vec![b'x'; 5_000_000];
    let request = ExecRequest { stdin: Stdin::Bytes(bytes.clone()), ..ExecRequest::shell("cat") };
    assert_eq!(run(&executor, request).await.unwrap().stdout.bytes, 5_000_000);

    // A command that reads nothing is no failure.
    let request = ExecRequest { stdin: Stdin::Bytes(bytes), ..ExecRequest::shell("exit 4") };
    assert_eq!(run(&executor, request).await.unwrap().exit_code, Some(4));
}

#[tokio::test]
async fn a_command_may_begin_with_a_dash() {
    let (_dir, executor) = executor();
    let done = shell(&executor, "-x() { :; }; echo fine").await;
    assert_eq!((done.exit_code, done.stdout.text.as_str()), (Some(0), "fine\n"));
}

#[tokio::test]
async fn each_command_leads_a_process_group_of_its_own() {
    let (_dir, executor) = executor();
    let done = shell(&executor, "read -r -a s < /proc/$$/stat; echo $$ ${s[4]}").await;
    let numbers: Vec<_> = done.stdout.text.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1]);
}

fn program(argv: &[&str]) -> ExecRequest {
    ExecRequest::new(CommandLine::Program(argv.iter().map(Into::into).collect()))
}

#[tokio::test]
async fn a_program_gets_its_arguments_as_they_are() {
    let (dir, executor) = executor();
    let done = run(&executor, program(&["printf", "%s|", "a b", "$HOME", "*", ""])).await.unwrap();
    assert_eq!(done.stdout.text, "a b|$HOME|*||");

    let script = dir.path().join("tool");
    fs::write(&script, "#!/bin/sh\necho ran > landed\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = run(&executor, program(&["./tool"])).await.unwrap_err();
    assert!(matches!(refused, ExecError::NotExecutable { .. }), "{refused}");
    assert!(!dir.path().join("landed").exists());
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    // Another test may be forking just now with this file still open for writing.
    let mut control = run(&executor, program(&["./tool"])).await;
    while matches!(&control, Err(ExecError::NotExecutable { source, .. }) if source.kind() == io::ErrorKind::ExecutableFileBusy)
    {
        control = run(&executor, program(&["./tool"])).await;
    }
    assert_eq!(control.unwrap().exit_code, Some(0));
    assert!(dir.path().join("landed").exists());

    fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
    assert!(matches!(run(&executor, program(&["./tool"])).await, Err(ExecError::NotExecutable { .. })));
    assert!(matches!(run(&executor, program(&["no-such-program"])).await, Err(ExecError::NotFound { .. })));
}

#[tokio::test]
async fn programs_are_looked_up_on_the_commands_own_path() {
    let (dir, executor) = executor();
    fs::create_dir(dir.path().join("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/echo", dir.path().join("bin/only-here")).unwrap();
    assert!(matches!(run(&executor, program(&["only-here", "x"])).await, Err(ExecError::NotFound { .. })));
    let mut request = program(&["only-here", "x"]);
    request.env.insert("PATH".into(), dir.path().join("bin").into());
    assert_eq!(run(&executor, request).await.unwrap().stdout.text, "x\n");
}

#[tokio::test]
async fn an_unusable_workdir_is_an_error_and_nothing_runs() {
    let (dir, executor) = executor();
    fs::write(dir.path().join("file"), b"").unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let landed = dir.path().join("landed");
    let touch = |workdir: &str| ExecRequest {
        workdir: Some(PathBuf::from(workdir)),
        ..ExecRequest::shell(format!("echo > {}", landed.display()))
    };
    for (workdir, kind) in [("missing", io::ErrorKind::NotFound), ("file", io::ErrorKind::NotADirectory)] {
        match run(&executor, touch(workdir)).await {
            Err(ExecError::Workdir { path, source }) => {
                assert_eq!((path, source.kind()), (dir.path().join(workdir), kind));
            }
            other => panic!("{workdir}: {other:?}"),
        }
        assert!(!landed.exists());
    }
    assert_eq!(run(&executor, touch("sub")).await.unwrap().exit_code, Some(0));
    assert!(landed.exists());
}

#[tokio::test]
async fn without_bash_only_programs_run() {
    let (_dir, executor) = executor_with(|config| config.shell = Some("/nowhere/bash".into()));
    let error = run(&executor, ExecRequest::shell("true")).await.unwrap_err();
    assert!(matches!(error, ExecError::NoShell { searched } if searched == "/nowhere/bash"));
    assert_eq!(run(&executor, program(&["true"])).await.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn a_request_cancelled_before_it_begins_does_not_run() {
    let (dir, executor) = executor();
    let cancel = CancellationToken::new();
    let request = ExecRequest { cancel: Some(cancel.clone()), ..ExecRequest::shell("echo > landed") };
    cancel.cancel();
    assert!(matches!(run(&executor, request.clone()).await, Err(ExecError::AlreadyCancelled)));
    let spec = executor.resolve(request).unwrap();
    assert!(matches!(executor.start(spec).await.map(|_| ()), Err(ExecError::AlreadyCancelled)));
    assert!(!Path::new(&dir.path().join("landed")).exists());
    shell(&executor, "echo > landed").await;
    assert!(dir.path().join("landed").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_do_not_mix() {
    let (_dir, executor) = executor();
    let executor = std::sync::Arc::new(executor);
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..50 {
        let executor = std::sync::Arc::clone(&executor);
        runs.spawn(async move {
            let command = format!("for i in $(seq 200); do echo {n}; done; echo e{n} >&2; exit {n}");
            (n, shell(&executor, &command).await)
        });
    }
    while let Some(done) = runs.join_next().await {
        let (n, result) = done.unwrap();
        assert_eq!(result.exit_code, Some(n));
        assert_eq!(result.stdout.text, format!("{n}\n").repeat(200));
        assert_eq!(result.stderr.text, format!("e{n}\n"));
    }
}
