//! What this host can enforce, found out by doing it: each feature tried in a process of its own, each mode by running a
//! command under it.

#![forbid(unsafe_code)]

mod facts;
mod features;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

pub use facts::{Cgroup, Container, Facts};
pub use features::{Feature, features};

use crate::executor::blocking::blocking;
use crate::executor::{BashExecutor, CommandLine, Enforcement, ExecError, ExecRequest, Gap};
use crate::host::HostSupport;
use crate::launcher::{LauncherError, LauncherPath, Probe, Stage};
use crate::plan::BackendChoice;
use crate::policy::{HostPaths, PolicyRequest, SandboxMode};
use crate::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};

/// The whole examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Kernel release.
    pub kernel: String,
    /// Effective uid of whoever asked.
    pub uid: u32,
    /// The container runtime around, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Both confining modes can run commands here.
    pub usable: bool,
    /// Every feature.
    pub features: Vec<Feature>,
    /// What each mode comes to with each backend.
    pub modes: Vec<ModeReport>,
}

/// One mode with one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeReport {
    /// The mode.
    pub mode: SandboxMode,
    /// `auto` (what a run takes by itself), `namespaces` or `landlock`.
    pub backend: &'static str,
    /// What was enforced when a command ran; absent when none could.
    pub enforcement: Option<Enforcement>,
    /// Promises not kept.
    pub gaps: Vec<Gap>,
    /// Why no command could run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Examines this host. Takes about as long as six commands.
///
/// # Errors
/// When not even an executor can be set up, or no workspace made.
pub async fn examine(launcher: &LauncherPath) -> Result<Report, ExecError> {
    let mut facts = Facts::default();
    facts.read();
    try_each(launcher, &mut facts).await?;
    let workspace = tempfile::tempdir().map_err(|error| ExecError::io("making an empty workspace", error))?;
    let mut modes = Vec::new();
    for mode in SandboxMode::ALL {
        let backends: &[(&'static str, BackendChoice)] = match mode.confines() {
            true => &[
                ("auto", BackendChoice::Auto),
                ("namespaces", BackendChoice::Namespaces),
                ("landlock", BackendChoice::Landlock),
            ],
            false => &[("auto", BackendChoice::Auto)],
        };
        for (name, backend) in backends {
            let trial = Trial { mode, backend: *backend, workspace: workspace.path(), launcher };
            let (report, support) = trial.run(name, &mut facts).await?;
            learn(&mut facts, &support);
            modes.push(report);
        }
    }
    let usable = modes
        .iter()
        .filter(|report| report.mode.confines() && report.backend == "auto")
        .all(|report| report.enforcement.is_some());
    Ok(Report {
        kernel: facts.release.clone(),
        uid: facts.euid,
        container: facts.container,
        usable,
        features: features(&facts),
        modes,
    })
}

/// Tries every ability, without holding the caller's runtime up.
async fn try_each(launcher: &LauncherPath, facts: &mut Facts) -> Result<(), ExecError> {
    let launcher = launcher.clone();
    let attempts = blocking(move || Probe::ALL.map(|probe| (probe, probe.attempt(&launcher))));
    for (probe, attempt) in attempts.await.map_err(|error| ExecError::io("probing", error))? {
        match attempt {
            Ok(answer) => {
                facts.probes.insert(probe, answer.map_err(|errno| errno as i32));
            }
            Err(error @ (LauncherError::NotFound { .. } | LauncherError::Start { .. })) => {
                facts.no_launcher = Some(error.to_string());
            }
            Err(error) => tracing::warn!(%error, "a probe gave no answer"),
        }
    }
    Ok(())
}

fn learn(facts: &mut Facts, support: &HostSupport) {
    facts.euid = support.euid;
    facts.kernel = support.kernel;
    facts.landlock_abi = support.landlock_abi;
    facts.sees_host_sockets = support.sees_host_sockets;
    let refused = support.refusals.iter().find(|failure| failure.stage == Stage::Proc);
    facts.fresh_proc_refused = facts.fresh_proc_refused.take().or_else(|| refused.cloned());
}

/// One command under one mode and backend.
struct Trial<'a> {
    mode: SandboxMode,
    backend: BackendChoice,
    workspace: &'a Path,
    launcher: &'a LauncherPath,
}

impl Trial<'_> {
    async fn run(&self, name: &'static str, facts: &mut Facts) -> Result<(ModeReport, Arc<HostSupport>), ExecError> {
        let cwd = PathBuf::from("/");
        let host = HostPaths { cwd, ..HostPaths::of_process().map_err(|e| ExecError::io("finding the home", e))? };
        let refuse = |error: crate::policy::PolicyError| ExecError::Policy { reason: error.to_string() };
        let request = PolicyRequest::new(self.mode, self.workspace);
        let limit = request.resolve(&host).map_err(refuse)?.limits.processes;
        let mut config = SandboxedConfig::new(Arc::new(LayeredPolicy::new(request, host).map_err(refuse)?));
        config.backend = self.backend;
        config.launcher = self.launcher.clone();
        let executor = SandboxedExecutor::new(config)?;
        facts.release =
            nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default();
        let command = CommandLine::Program(["cat", "/proc/sys/kernel/pid_max"].map(Into::into).to_vec());
        let spec = executor.resolve(ExecRequest::new(command))?;
        let ran = executor.run(spec).await;
        let support = executor.host_support();
        executor.dispose().await;
        let (enforcement, gaps, refused) = match ran {
            Ok(result) if result.exit_code == Some(0) => {
                let sandbox = result.sandbox.as_ref();
                if self.backend == BackendChoice::Namespaces {
                    facts.sandbox_built = true;
                    let inside = result.stdout.text.trim().parse::<u64>().ok();
                    // 300 numbers are reserved (kernel/pid.c, RESERVED_PIDS).
                    facts.own_pid_max |= limit.is_some() && inside == limit.map(|limit| limit + 300);
                }
                (sandbox.map(|s| s.enforcement), sandbox.map(|s| s.gaps.clone()).unwrap_or_default(), None)
            }
            Ok(result) => (None, Vec::new(), Some(format!("a harmless command failed: {}", result.stderr.text.trim()))),
            Err(error) => (None, Vec::new(), Some(error.to_string())),
        };
        Ok((ModeReport { mode: self.mode, backend: name, enforcement, gaps, refused }, support))
    }
}
