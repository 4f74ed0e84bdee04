//! The confined executor: policy, plan, launcher, facts.

#![forbid(unsafe_code)]

mod aftermath;
mod attached;
mod audited;
mod child;
mod config;
mod evidence;
mod host_state;
mod launch;
mod layered;
mod lookups;
mod networks;
mod outlet;
mod placeholders;
mod plans;
mod pty;
mod report;
mod sessions;
mod shared;
mod stdio;

use std::sync::Arc;

pub use attached::Attachment;
pub use config::{AuditChoice, PolicySource, SandboxedConfig, TraceChoice};
pub use layered::LayeredPolicy;
pub use pty::{PtyProcess, TerminalSize};

use crate::environment::Variables;
use crate::executor::defaults::Defaults;
use crate::executor::engine::{Engine, Outcome, Settings};
use crate::executor::program::shell_of;
use crate::executor::{BashExecutor, BashProcess, BoxFuture, ExecError, ExecRequest, ExecSpec, RunResult};
use crate::host::HostSupport;
use crate::policy::SandboxMode;
use audited::Audit;
use host_state::HostState;
use sessions::Sessions;

/// Runs every command in a sandbox of its own, under the policy of the call.
///
/// One launcher process serves an executor; it is started with the first command. Nothing about the host process changes:
/// no signal handler, no resource limit, no working directory, no environment.
pub struct SandboxedExecutor {
    config: SandboxedConfig,
    defaults: Defaults,
    environment: Variables,
    shell: Result<std::path::PathBuf, String>,
    engine: Engine,
    host: HostState,
    plans: plans::Plans,
    networks: networks::SessionNetworks,
    audit: Audit,
    sessions: Sessions,
    shared: shared::Shared,
}

impl std::fmt::Debug for SandboxedExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxedExecutor").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}

impl SandboxedExecutor {
    /// Takes the environment as it is now, looks at the host, and removes what dead executors left. Starts nothing.
    ///
    /// # Errors
    /// When the host cannot be asked what it offers, or the environment policy contradicts itself.
    pub fn new(config: SandboxedConfig) -> Result<Self, ExecError> {
        let environment = match config.inherited.clone() {
            Some(inherited) => config.environment.base(inherited)?,
            None => config.environment.base(std::env::vars_os())?,
        };
        let path = environment.get(std::ffi::OsStr::new("PATH")).map(std::ffi::OsString::as_os_str);
        let shell = shell_of(config.shell.as_deref(), path);
        let workdir = config.workdir.clone().unwrap_or_else(|| config.policy.standing().workspace);
        let workdir = std::path::absolute(workdir).map_err(|e| ExecError::io("finding the current directory", e))?;
        let engine = Engine::new(Settings {
            grace: config.grace,
            // Nothing outlives its sandbox, so end of file follows the end of the command at once.
            drain: std::time::Duration::from_millis(500),
            stderr_bytes: config.stderr_bytes,
            spill_root: config.state_root.clone(),
            spill_cap: config.spill_cap,
            keep_spills: config.keep_spills,
        });
        Ok(Self {
            defaults: Defaults {
                workdir,
                timeout: config.default_timeout,
                max_timeout: config.max_timeout,
                stdout_bytes: config.stdout_bytes,
            },
            environment,
            shell,
            engine,
            plans: plans::Plans::default(),
            networks: networks::SessionNetworks::default(),
            host: HostState::detect(config.launcher.clone())?,
            audit: Audit::new(config.audit),
            sessions: Sessions::new(config.state_root.clone()),
            shared: shared::Shared::default(),
            config,
        })
    }

    /// What the host offers, as far as it is known: refusals are learned with the first commands.
    #[must_use]
    pub fn host_support(&self) -> Arc<HostSupport> {
        self.host.support()
    }

    /// As [`dispose`](BashExecutor::dispose) for a program that is about to exit: every command is killed and waited for,
    /// and what the kernel still has to take apart (namespaces, the launcher) is not.
    pub async fn release(&self) {
        self.engine.dispose().await;
        self.host.release();
        self.audit.close();
        self.sessions.end_all();
    }
}

impl BashExecutor for SandboxedExecutor {
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        self.defaults.resolve(request)
    }

    fn run(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(async move {
            let ticket = self.engine.admit(&spec)?;
            let (launched, context) = self.launch(&spec).await?;
            let outcome = self.engine.run(ticket, launched, spec).await?;
            Ok(context.finish(outcome).await)
        })
    }

    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>> {
        Box::pin(async move {
            let ticket = self.engine.admit(&spec)?;
            let (launched, context) = self.launch(&spec).await?;
            let finish = Box::new(move |outcome: Outcome| -> BoxFuture<'static, RunResult> {
                Box::pin(context.finish(outcome))
            });
            let process: Arc<dyn BashProcess> = self.engine.start(ticket, launched, spec, finish);
            Ok(process)
        })
    }

    fn sandbox_mode(&self) -> Option<SandboxMode> {
        Some(self.config.policy.standing().mode)
    }

    fn end_session(&self, session: &str) {
        self.sessions.end(session);
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.engine.dispose().await;
            self.host.close().await;
            self.audit.close();
            self.sessions.end_all();
        })
    }
}
