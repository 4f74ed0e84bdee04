//! The executor that confines nothing: each command is a fresh `bash -c` in a process group of its own.
//!
//! What it cannot do: a command that leaves its process group (`setsid`, a daemon) is out of reach of time-outs, kills and
//! disposal, and descriptors that the host left inheritable reach the command. The confined executor closes both.
//!
//! Starting stays on the standard library's `posix_spawn` path, so nothing here may need code between fork and exec.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::environment::{EnvironmentPolicy, Variables};
use crate::executor::defaults::{Defaults, check_workdir};
use crate::executor::engine::{Engine, Launched, Settings};
use crate::executor::program::{SHELL_NAME, find_program, shell_arguments, shell_of};
use crate::executor::{
    BashExecutor, BashProcess, BoxFuture, CommandLine, ExecError, ExecRequest, ExecSpec, RunResult, Stdin,
};
use crate::output::{DEFAULT_TAIL_BYTES, SPILL_CAP, SPILL_PREFIX};
use crate::policy::SandboxMode;

mod group;

use group::Group;

/// How a [`LocalExecutor`] runs commands.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Where commands start that name no workdir; `None` for the current directory at construction.
    pub workdir: Option<PathBuf>,
    /// Time limit of a foreground run that names none.
    pub default_timeout: Option<Duration>,
    /// Longest time limit of a foreground run; `None` for no cap.
    pub max_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// How long output is still collected after the command ended while a background child holds its pipes.
    pub drain: Duration,
    /// In-memory budget of standard output, bytes; a request may name its own.
    pub stdout_bytes: usize,
    /// In-memory budget of standard error, bytes.
    pub stderr_bytes: usize,
    /// Directory to make the spill directory in.
    pub spill_root: PathBuf,
    /// Largest spill of one stream, bytes.
    pub spill_cap: u64,
    /// What of the inherited environment reaches commands.
    pub environment: EnvironmentPolicy,
    /// The inherited environment; `None` for this process's at construction.
    pub inherited: Option<Variables>,
    /// The bash to use; `None` for the first on PATH.
    pub shell: Option<PathBuf>,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            workdir: None,
            default_timeout: Some(Duration::from_secs(120)),
            max_timeout: Some(Duration::from_secs(600)),
            grace: Duration::from_secs(3),
            drain: Duration::from_millis(500),
            stdout_bytes: DEFAULT_TAIL_BYTES,
            stderr_bytes: DEFAULT_TAIL_BYTES,
            spill_root: std::env::temp_dir(),
            spill_cap: SPILL_CAP,
            environment: EnvironmentPolicy::default(),
            inherited: None,
            shell: None,
        }
    }
}

/// Runs commands unconfined, as this process's user.
#[derive(Debug)]
pub struct LocalExecutor {
    defaults: Defaults,
    environment: Variables,
    shell: Result<PathBuf, String>,
    engine: Engine,
}

impl LocalExecutor {
    /// Takes the environment as it is now, looks for bash, and removes spill files that dead executors left.
    ///
    /// # Errors
    /// When the environment policy contradicts itself, or the current directory is needed and gone. A missing bash is
    /// reported by the runs that need it.
    pub fn new(config: LocalConfig) -> Result<Self, ExecError> {
        let environment = match config.inherited {
            Some(inherited) => config.environment.base(inherited)?,
            None => config.environment.base(std::env::vars_os())?,
        };
        let shell = shell_of(config.shell.as_deref(), variable(&environment, "PATH"));
        // An absolute base makes every resolved workdir absolute.
        let workdir = std::path::absolute(config.workdir.unwrap_or_else(|| PathBuf::from(".")))
            .map_err(|source| ExecError::io("finding the current directory", source))?;
        Ok(Self {
            defaults: Defaults {
                workdir,
                timeout: config.default_timeout,
                max_timeout: config.max_timeout,
                stdout_bytes: config.stdout_bytes,
            },
            environment,
            shell,
            engine: Engine::new(Settings {
                grace: config.grace,
                drain: config.drain,
                stderr_bytes: config.stderr_bytes,
                spill_root: config.spill_root,
                spill_cap: config.spill_cap,
                keep_spills: false,
            }),
        })
    }

    fn environment_of(&self, spec: &ExecSpec) -> Variables {
        let mut environment = self.environment.clone();
        environment.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        environment.extend(spec.managed_env.iter().map(|(name, value)| (name.into(), value.into())));
        environment
    }

    /// The program, the name it sees itself under, and its arguments.
    fn program(
        &self,
        spec: &ExecSpec,
        environment: &Variables,
    ) -> Result<(PathBuf, OsString, Vec<OsString>), ExecError> {
        match &spec.command {
            CommandLine::Shell(command) => {
                let shell = self.shell.clone().map_err(|searched| ExecError::NoShell { searched })?;
                Ok((shell, SHELL_NAME.into(), shell_arguments(command).map(OsString::from).to_vec()))
            }
            CommandLine::Program(argv) => {
                let (program, arguments) = argv.split_first().ok_or(ExecError::EmptyCommand)?;
                let path = find_program(program, variable(environment, "PATH"), &spec.workdir)?;
                Ok((path, program.clone(), arguments.to_vec()))
            }
        }
    }

    fn launch(&self, spec: &ExecSpec) -> Result<Launched<Group>, ExecError> {
        check_workdir(&spec.workdir)?;
        let environment = self.environment_of(spec);
        let (path, name, arguments) = self.program(spec, &environment)?;
        let pipe = || std::io::pipe().map_err(|source| ExecError::io("making a pipe for the command", source));
        let ((stdout, child_stdout), (stderr, child_stderr)) = (pipe()?, pipe()?);
        let (child_stdin, stdin) = match spec.stdin {
            Stdin::Empty => (Stdio::null(), None),
            Stdin::Inherit => (Stdio::inherit(), None),
            Stdin::Bytes(_) | Stdin::Open => {
                let (reader, writer) = pipe()?;
                (Stdio::from(reader), Some(OwnedFd::from(writer)))
            }
        };
        let mut command = std::process::Command::new(&path);
        std::os::unix::process::CommandExt::arg0(&mut command, name);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.args(arguments).env_clear().envs(&environment).current_dir(&spec.workdir);
        command.stdin(child_stdin).stdout(child_stdout).stderr(child_stderr);
        let began = Instant::now();
        let child = Group::spawn(command).map_err(|source| match spec.command {
            CommandLine::Program(_) if source.raw_os_error() != Some(libc::EAGAIN) => {
                ExecError::NotExecutable { program: path.display().to_string(), source }
            }
            _ => ExecError::io(format!("starting {}", path.display()), source),
        })?;
        Ok(Launched { child, stdout: stdout.into(), stderr: stderr.into(), stdin, began })
    }
}

impl BashExecutor for LocalExecutor {
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        self.defaults.resolve(request)
    }

    fn run(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(async move {
            let ticket = self.engine.admit(&spec)?;
            let launched = self.launch(&spec)?;
            self.engine.sweep_once(&[SPILL_PREFIX]);
            Ok(self.engine.run(ticket, launched, spec).await?.result)
        })
    }

    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>> {
        Box::pin(async move {
            let ticket = self.engine.admit(&spec)?;
            let launched = self.launch(&spec)?;
            self.engine.sweep_once(&[SPILL_PREFIX]);
            let finish = Box::new(|outcome: crate::executor::engine::Outcome| -> BoxFuture<'static, RunResult> {
                Box::pin(std::future::ready(outcome.result))
            });
            let process: Arc<dyn BashProcess> = self.engine.start(ticket, launched, spec, finish);
            Ok(process)
        })
    }

    fn sandbox_mode(&self) -> Option<SandboxMode> {
        None
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.engine.dispose())
    }
}

fn variable<'a>(environment: &'a Variables, name: &str) -> Option<&'a OsStr> {
    environment.get(OsStr::new(name)).map(OsString::as_os_str)
}
