//! Confined executors for tests, each with a scene of its own on the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stockade::executor::{BashExecutor as _, ExecError, ExecRequest, RunResult};
use stockade::launcher::LauncherPath;
use stockade::plan::BackendChoice;
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};

use crate::user::{User, scratch};

/// Directories that an executor works in, below `/var/tmp`. Dropping it removes them.
pub(crate) struct Place {
    root: PathBuf,
    /// Absent where another process owns the directories.
    _dir: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = scratch();
        for name in ["work", "home", "state"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { root: dir.path().to_path_buf(), _dir: Some(dir) }
    }

    /// Directories that another process made and will remove.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), _dir: None }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Where executors keep spill files and the sessions' `/tmp`.
    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    pub(crate) fn config(&self, mode: SandboxMode) -> SandboxedConfig {
        self.config_for(PolicyRequest::new(mode, self.work()))
    }

    pub(crate) fn config_for(&self, request: PolicyRequest) -> SandboxedConfig {
        let host = HostPaths {
            home: self.root().join("home"),
            account_home: None,
            tmp: "/tmp".into(),
            cwd: self.root().to_path_buf(),
        };
        let policy = LayeredPolicy::new(request, host).unwrap();
        let mut config = SandboxedConfig::new(Arc::new(policy));
        config.state_root = self.state();
        config.grace = Duration::from_millis(300);
        config.launcher = LauncherPath::Exact(launcher());
        config
    }

    pub(crate) fn executor(&self, mode: SandboxMode, backend: BackendChoice) -> SandboxedExecutor {
        self.executor_with(mode, |config| config.backend = backend)
    }

    pub(crate) fn executor_with(
        &self,
        mode: SandboxMode,
        change: impl FnOnce(&mut SandboxedConfig),
    ) -> SandboxedExecutor {
        let mut config = self.config(mode);
        change(&mut config);
        SandboxedExecutor::new(config).unwrap()
    }
}

pub(crate) async fn run(executor: &SandboxedExecutor, request: ExecRequest) -> Result<RunResult, ExecError> {
    executor.run(executor.resolve(request)?).await
}

pub(crate) async fn shell(executor: &SandboxedExecutor, command: &str) -> RunResult {
    run(executor, ExecRequest::shell(command)).await.unwrap()
}

/// The variable by which a test run as another user is told where the launcher is.
const LAUNCHER: &str = "STOCKADE_TEST_LAUNCHER";

/// The launcher's executable.
pub(crate) fn launcher() -> PathBuf {
    std::env::var_os(LAUNCHER).map_or_else(|| env!("CARGO_BIN_EXE_stockade").into(), PathBuf::from)
}

/// Runs an ignored test of this file as every user, in a process of its own.
pub(crate) fn as_every_user(test: &str) {
    let programs = crate::user::Programs::get();
    for user in User::all() {
        let mut command = user.command(&programs.own);
        command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test]);
        let output = command.env(LAUNCHER, &programs.stockade).current_dir("/").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && text.contains("1 passed");
        assert!(passed, "{test} as {}:\n{text}\n{}", user.name(), String::from_utf8_lossy(&output.stderr));
        let figures: Vec<&str> = text.lines().filter(|line| line.starts_with("figure: ")).collect();
        if !figures.is_empty() {
            println!("{}:\n{}", user.name(), figures.join("\n"));
        }
    }
}
