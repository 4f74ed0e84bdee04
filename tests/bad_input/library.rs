//! What only the library can be asked for.

use std::collections::BTreeMap;
use std::path::Path;

use stockade::executor::{BashExecutor as _, CallPolicy, CommandLine, ExecError, ExecRequest};
use stockade::launcher::LauncherPath;
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;

use crate::executor::{Place, run};

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

#[test]
fn nul_bytes_and_empty_commands() {
    block_on(async {
        let place = Place::new();
        let executor = place.executor(SandboxMode::WorkspaceWrite, BackendChoice::Auto);
        let program = |argv: &[&str]| ExecRequest::new(CommandLine::Program(argv.iter().map(Into::into).collect()));
        let with_env = |name: &str, value: &str| ExecRequest {
            env: BTreeMap::from([(name.into(), value.into())]),
            ..ExecRequest::shell("touch ran")
        };
        for request in [
            ExecRequest::shell("touch ran\0"),
            program(&["touch", "ran", "\0"]),
            program(&["to\0uch", "ran"]),
            ExecRequest { workdir: Some("a\0b".into()), ..ExecRequest::shell("touch ran") },
            with_env("A", "x\0y"),
        ] {
            let error = run(&executor, request).await.unwrap_err();
            let typed = matches!(error, ExecError::NulByte { .. } | ExecError::Environment { .. });
            assert!(typed && error.to_string().contains("NUL"), "{error:?}");
        }
        for request in [with_env("", "x"), with_env("A=B", "x"), with_env("DSH_X", "x")] {
            let error = run(&executor, request).await.unwrap_err();
            assert!(matches!(error, ExecError::Environment { .. }), "{error:?}");
        }
        for request in [ExecRequest::shell(""), ExecRequest::shell(" \n"), program(&[]), program(&["", "ran"])] {
            let error = run(&executor, request).await.unwrap_err();
            assert!(matches!(error, ExecError::EmptyCommand), "{error:?}");
        }
        assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 0, "something ran");
        assert_eq!(run(&executor, ExecRequest::shell("touch ran")).await.unwrap().exit_code, Some(0));
        assert!(place.work().join("ran").exists(), "the control");
        executor.dispose().await;
    });
}

#[test]
fn workspaces_of_a_call() {
    block_on(async {
        let place = Place::new();
        std::fs::write(place.root().join("file"), "").unwrap();
        let executor = place.executor(SandboxMode::ReadOnly, BackendChoice::Auto);
        for workspace in ["/", "/no/such/directory", "relative", "", place.root().join("file").to_str().unwrap()] {
            let policy = CallPolicy {
                mode: SandboxMode::WorkspaceWrite,
                workspace: workspace.into(),
                extra: stockade::denial::Grant::default(),
                session: None,
            };
            let marker = place.work().join("ran");
            let request =
                ExecRequest { policy: Some(policy), ..ExecRequest::shell(format!("touch {}", marker.display())) };
            let error = run(&executor, request).await.unwrap_err();
            let typed = matches!(error, ExecError::Policy { .. } | ExecError::Workspace { .. });
            assert!(typed && error.to_string().contains("workspace"), "{workspace:?}: {error:?}");
            assert!(!marker.exists());
        }
        executor.dispose().await;
    });
}

#[test]
fn launchers_that_are_none() {
    block_on(async {
        let place = Place::new();
        let script = place.root().join("not-executable");
        std::fs::write(&script, "").unwrap();
        // The last one starts, and is no launcher.
        for path in [Path::new("/no/such/launcher"), &script, Path::new("/"), Path::new("/bin/true")] {
            let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.launcher = LauncherPath::Exact(path.into())
            });
            let error = run(&executor, ExecRequest::shell("touch ran")).await.unwrap_err();
            let typed = matches!(error, ExecError::SandboxUnavailable { .. } | ExecError::SandboxLost { .. });
            assert!(typed && error.to_string().contains("launcher"), "{}: {error}", path.display());
            assert!(!place.work().join("ran").exists());
            executor.dispose().await;
        }
    });
}

/// This test binary never called `launcher::enter()`, and no `stockade` is beside it.
#[test]
fn no_launcher_at_all() {
    let own = std::env::current_exe().unwrap();
    let output = std::process::Command::new(own)
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "library::no_launcher_at_all_inside"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "run by no_launcher_at_all, with an empty PATH"]
fn no_launcher_at_all_inside() {
    block_on(async {
        let place = Place::new();
        let executor = place.executor_with(SandboxMode::DangerFullAccess, |config| {
            config.launcher = LauncherPath::Auto;
            config.shell = Some("/bin/bash".into());
        });
        let error = run(&executor, ExecRequest::shell("touch ran")).await.unwrap_err();
        assert!(matches!(&error, ExecError::SandboxUnavailable { reason } if reason.contains("enter()")), "{error:?}");
        assert!(!place.work().join("ran").exists(), "never a silent unconfined run");
        executor.dispose().await;
    });
}
