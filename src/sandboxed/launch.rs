//! Starting one command: effective policy, plan, environment, launcher, first event.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::time::Instant;

use super::SandboxedExecutor;
use super::aftermath::Aftermath;
use super::audited::AuditedRun;
use super::child::SandboxChild;
use super::config::TraceChoice;
use super::evidence;
use super::host_state::unavailable;
use super::lookups::Lookups;
use super::outlet::Outlet;
use super::placeholders::Placeholders;
use super::plans::Given;
use super::report::{RunContext, RunFacts, Views};
use super::sessions;
use crate::environment::Variables;
use crate::executor::defaults::check_workdir;
use crate::executor::engine::Launched;
use crate::executor::program::{SHELL_NAME, shell_arguments};
use crate::executor::{CallPolicy, CommandLine, ExecError, ExecSpec, Stdin};
use crate::host::{HostSupport, Leaf, NamespaceRoute};
use crate::launcher::{Call, Event, RunChannel, SetupFailure, Stage, Terminal};
use crate::output::SPILL_PREFIX;
use crate::plan::{Backend, BackendChoice, HostWorld, PlanInput, Planned, plan, wants_cgroup};
use crate::policy::EffectivePolicy;

/// How long building a sandbox may take before it is given up. Generous: a loaded machine is not a broken one.
const BUILD_PATIENCE: Duration = Duration::from_secs(30);

/// Port of each sandbox's own loopback on which an allowlist's proxy listens: unassigned by IANA and below the ephemeral
/// range, so that programs are unlikely to want it; the same for all, so that plans stay the same.
const PROXY_PORT: u16 = 28_129;

/// Pipes of one command: the ends it gets, and ours.
struct Pipes {
    child: [OwnedFd; 3],
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl SandboxedExecutor {
    /// Starts a command and returns when its program is executing.
    pub(super) async fn launch(&self, spec: &ExecSpec) -> Result<(Launched<SandboxChild>, RunContext), ExecError> {
        let pipes = Pipes::make(spec)?;
        let began = Instant::now();
        let (child, context) =
            self.launch_with([&pipes.child[0], &pipes.child[1], &pipes.child[2]], spec, None).await?;
        drop(pipes.child);
        Ok((Launched { child, stdout: pipes.stdout, stderr: pipes.stderr, stdin: pipes.stdin, began }, context))
    }

    /// Starts a command on the given descriptors, or on a terminal of its own, which the context then holds.
    pub(super) async fn launch_with(
        &self,
        stdio: [&OwnedFd; 3],
        spec: &ExecSpec,
        terminal: Option<Terminal>,
    ) -> Result<(SandboxChild, RunContext), ExecError> {
        check_workdir(&spec.workdir)?;
        let call = spec.policy.clone().unwrap_or_else(|| self.config.policy.standing());
        if call.mode.confines() {
            super::stdio::check(stdio)?;
        }
        let approved = if call.mode.confines() { call.extra.write.as_slice() } else { &[] };
        let mut placeholders = Placeholders::make(approved);
        let policy = self.config.policy.shared(&call)?;
        let mut leaf = self.leaf(&policy);
        // Each refusal that teaches something weakens the host by one step, so this ends.
        loop {
            let support = self.host.support();
            let mut context = self.plan(&policy, &support, &call, spec, leaf.take())?;
            match self.attempt(&mut context, stdio, spec, terminal).await? {
                Ok(child) => {
                    context.placeholders = std::mem::take(&mut placeholders);
                    context.forget_plan();
                    self.engine.sweep_once(&[SPILL_PREFIX, sessions::PREFIX]);
                    return Ok((child, context));
                }
                Err(failure) if self.untraceable(&failure) => self.host.cannot_trace(),
                Err(failure) if context.leaf.is_some() && failure.stage == Stage::Rlimits => {
                    tracing::info!(%failure, "planning again without a control group");
                    continue;
                }
                Err(failure) if self.host.learn(&support, &failure) => {}
                Err(failure) => return Err(explain(failure, spec)),
            }
            leaf = context.leaf.take();
        }
    }

    /// The control group of a command whose limits ask for one, where it can be had.
    fn leaf(&self, policy: &EffectivePolicy) -> Option<Leaf> {
        if !wants_cgroup(policy, &self.host.support(), self.config.backend) {
            return None;
        }
        match Leaf::make(policy.limits.memory, policy.limits.processes) {
            Ok(leaf) => Some(leaf),
            Err(error) => {
                tracing::info!(%error, "no control group of the command's own");
                None
            }
        }
    }

    /// A listener is installed around us already (we run inside a traced sandbox), or the kernel has none.
    fn untraceable(&self, failure: &SetupFailure) -> bool {
        let without = [Errno::EBUSY, Errno::EINVAL, Errno::EPERM, Errno::ENOSYS];
        failure.stage == Stage::Trace
            && self.config.trace == TraceChoice::Auto
            && self.host.traceable()
            && without.contains(&Errno::from_raw(failure.errno))
    }

    fn plan(
        &self,
        policy: &Arc<EffectivePolicy>,
        host: &Arc<HostSupport>,
        call: &CallPolicy,
        spec: &ExecSpec,
        leaf: Option<Leaf>,
    ) -> Result<RunContext, ExecError> {
        let session = call.session.as_deref();
        let traced = policy.mode.confines() && self.traces()?;
        let mounts = host.namespaces != NamespaceRoute::Refused && self.config.backend != BackendChoice::Landlock;
        let wants_directory = policy.mode.confines() && (session.is_some() || !mounts);
        let tmp = if wants_directory {
            let made = self.sessions.tmp(session);
            Some(made.map_err(|error| ExecError::io("making the session's private /tmp", error))?)
        } else {
            None
        };
        let given = Given {
            policy: Arc::clone(policy),
            host: Arc::clone(host),
            traced,
            audited: policy.mode.confines() && self.audit.is_likely()?,
            cgroup: leaf.is_some(),
            session_tmp: tmp.as_ref().map(|tmp| tmp.path().to_path_buf()),
        };
        let mut planned = self.plans.of(given, |given| self.plan_anew(given))?;
        self.networks.assign(&mut planned.plan, call, policy);
        let views = Views { source: Arc::clone(&self.config.policy), call: call.clone() };
        let started = RunFacts::of(spec, self.environment.get(OsStr::new("HOME")));
        let outlet = Outlet::of(policy, PROXY_PORT)?;
        let began = std::time::Instant::now();
        let untraced = self.config.trace == TraceChoice::Auto && !self.host.traceable();
        Ok(RunContext {
            policy: Arc::clone(policy),
            aftermath: Aftermath::of(Arc::clone(policy)),
            planned,
            trace: None,
            audit_log: None,
            audited: None,
            outlet,
            began,
            lookups: Lookups::since(began),
            terminal: None,
            leaf,
            untraced,
            views,
            facts: started,
            placeholders: Placeholders::default(),
            _tmp: tmp,
        })
    }

    fn plan_anew(&self, given: &Given) -> Result<Planned, ExecError> {
        let input = PlanInput {
            policy: &given.policy,
            host: &given.host,
            world: &HostWorld,
            backend: self.config.backend,
            require_full: self.config.require_full,
            cgroup: given.cgroup,
            trace: given.traced,
            proxy_port: PROXY_PORT,
            session_tmp: given.session_tmp.clone(),
        };
        let mut planned = plan(&input).map_err(|error| ExecError::SandboxUnavailable { reason: error.to_string() })?;
        planned.plan.fault = self.config.fault;
        if given.traced {
            planned.plan.trace = Some(evidence::trace_filter(given.policy.mode, &planned.reported_calls));
        }
        if let Some(landlock) = &mut planned.plan.landlock {
            landlock.audit = given.audited;
        }
        Ok(planned)
    }

    /// Whether this command is traced. The supervisor's thread then starts while the sandbox is built.
    fn traces(&self) -> Result<bool, ExecError> {
        let wanted = match self.config.trace {
            TraceChoice::On => true,
            TraceChoice::Auto => self.host.traceable(),
            TraceChoice::Off => false,
        };
        if !wanted {
            return Ok(false);
        }
        match self.host.supervisor() {
            Ok(_) => Ok(true),
            Err(error) if self.config.trace == TraceChoice::Auto => {
                tracing::info!(%error, "commands are not traced here");
                self.host.cannot_trace();
                Ok(false)
            }
            Err(error) => Err(ExecError::io("starting the trace supervisor", error)),
        }
    }

    /// One attempt to start; the inner failure is the sandbox's own.
    async fn attempt(
        &self,
        context: &mut RunContext,
        stdio: [&OwnedFd; 3],
        spec: &ExecSpec,
        terminal: Option<Terminal>,
    ) -> Result<Result<SandboxChild, SetupFailure>, ExecError> {
        let mut call = self.call(context, spec)?;
        call.terminal = terminal;
        let entrance = context.leaf.as_ref().map(Leaf::entrance);
        let mut launcher = self.host.launcher()?;
        let channel = match launcher.spawn(&context.planned.plan, call.clone(), stdio, entrance) {
            Ok(channel) => channel,
            Err(error) => {
                // It died since the last call, by whatever hand; one fresh launcher is worth a try.
                tracing::warn!(%error, "starting another launcher");
                self.host.discard(&launcher);
                launcher = self.host.launcher()?;
                launcher.spawn(&context.planned.plan, call, stdio, entrance).map_err(unavailable)?
            }
        };
        if context.planned.plan.landlock.as_ref().is_some_and(|landlock| landlock.audit) {
            // Here, where there is nothing to do but to wait for the sandbox.
            context.audit_log = self.audit.log()?;
        }
        match tokio::time::timeout(BUILD_PATIENCE, self.first_word(&channel, context)).await {
            Ok(Ok(())) => {
                let (aftermath, lookups) = (Arc::clone(&context.aftermath), context.lookups.clone());
                Ok(Ok(SandboxChild::new(channel, launcher, aftermath, lookups)))
            }
            Ok(Err(Lost::Proxy(error))) => Err(ExecError::io("starting the network proxy", error)),
            Ok(Err(Lost::Trace(error))) => Err(ExecError::io("attaching the trace supervisor", error)),
            Ok(Err(Lost::Setup(failure))) => Ok(Err(failure)),
            Ok(Err(Lost::Gone(reason))) => Err(ExecError::SandboxUnavailable { reason }),
            Ok(Err(Lost::MayHaveRun(reason))) => Err(ExecError::SandboxLost { reason }),
            Err(_) => {
                if let Err(error) = launcher.kill(channel.run()) {
                    tracing::debug!(%error, "the launcher is gone");
                }
                let reason = format!("the sandbox was not ready after {} s", BUILD_PATIENCE.as_secs());
                Err(ExecError::SandboxUnavailable { reason })
            }
        }
    }

    /// Waits until the program is executing, and attaches the supervisor as soon as there is a listener.
    async fn first_word(&self, channel: &RunChannel, context: &mut RunContext) -> Result<(), Lost> {
        let mut executing = false;
        loop {
            match channel.next().await {
                Ok((Event::Started, _)) => return Ok(()),
                Ok((Event::Executing, _)) => executing = true,
                Ok((Event::Failed(failure), _)) => return Err(Lost::Setup(failure)),
                Ok((Event::Listener, mut fds)) => {
                    executing = true;
                    let missing = || Lost::MayHaveRun("its trace listener did not arrive".to_owned());
                    let listener = fds.pop().ok_or_else(missing)?;
                    let supervisor = self.host.supervisor().map_err(Lost::Trace)?;
                    let watch = evidence::watch(&context.policy, &context.planned, &self.shared, context.began);
                    context.trace = Some(supervisor.attach(listener, watch).map_err(Lost::Trace)?);
                }
                Ok((Event::Confining, fds)) => {
                    let log = context.audit_log.take();
                    context.audited = log.zip(fds.first()).and_then(|(log, process)| AuditedRun::enter(log, process));
                }
                Ok((Event::ProxySocket, mut fds)) => {
                    let socket = fds.pop().ok_or_else(|| Lost::Gone("its proxy socket did not arrive".to_owned()))?;
                    if let Some(outlet) = &mut context.outlet {
                        outlet.open(socket).map_err(Lost::Proxy)?;
                    }
                }
                Ok((Event::Terminal, mut fds)) => {
                    let terminal = fds.pop().ok_or_else(|| Lost::Gone("its terminal did not arrive".to_owned()))?;
                    context.terminal = Some(terminal);
                }
                Ok((Event::Exited(_) | Event::Lookup(_), _)) => {}
                Err(error) if executing => {
                    return Err(Lost::MayHaveRun(format!("it ended just when its program was executed: {error}")));
                }
                Err(error) => {
                    return Err(Lost::Gone(format!(
                        "the launcher or the sandbox ended while the sandbox was being built: {error}"
                    )));
                }
            }
        }
    }

    fn call(&self, context: &RunContext, spec: &ExecSpec) -> Result<Call, ExecError> {
        let (program, arguments): (OsString, Vec<OsString>) = match &spec.command {
            CommandLine::Shell(command) => {
                let shell = self.shell.clone().map_err(|searched| ExecError::NoShell { searched })?;
                (shell.into_os_string(), shell_arguments(command).map(OsString::from).to_vec())
            }
            CommandLine::Program(argv) => {
                let (program, arguments) = argv.split_first().ok_or(ExecError::EmptyCommand)?;
                (program.clone(), arguments.to_vec())
            }
        };
        let name = match &spec.command {
            CommandLine::Shell(_) => OsString::from(SHELL_NAME),
            CommandLine::Program(_) => program.clone(),
        };
        let argv = std::iter::once(name).chain(arguments).map(|argument| c_string(&argument, "an argument"));
        let environment = self.environment_of(context, spec);
        let entries = environment.iter().map(|(name, value)| {
            let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
            c_string(OsStr::from_bytes(&entry), "the environment")
        });
        Ok(Call {
            program: c_string(&program, "the program")?,
            arguments: argv.collect::<Result<_, _>>()?,
            environment: entries.collect::<Result<_, _>>()?,
            workdir: c_string(spec.workdir.as_os_str(), "the workdir")?,
            terminal: None,
        })
    }

    fn environment_of(&self, context: &RunContext, spec: &ExecSpec) -> Variables {
        let planned = &context.planned;
        let mut environment = self.environment.clone();
        if planned.plan.backend != Backend::Unconfined {
            // These lead to places of the host that are not there inside.
            for name in ["TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
                environment.remove(OsStr::new(name));
            }
        }
        if let Some(tmpdir) = &planned.tmpdir {
            environment.insert("TMPDIR".into(), tmpdir.into());
        }
        environment.extend(context.outlet.iter().flat_map(Outlet::environment));
        environment.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        environment.extend(spec.managed_env.iter().map(|(name, value)| (name.into(), value.into())));
        environment
    }
}

impl Pipes {
    fn make(spec: &ExecSpec) -> Result<Self, ExecError> {
        let pipe = || std::io::pipe().map_err(|source| ExecError::io("making a pipe for the command", source));
        let ((stdout, child_stdout), (stderr, child_stderr)) = (pipe()?, pipe()?);
        let (child_stdin, stdin) = match spec.stdin {
            Stdin::Inherit => {
                let own = std::io::stdin().as_fd().try_clone_to_owned();
                (own.map_err(|source| ExecError::io("passing standard input on", source))?, None)
            }
            Stdin::Empty => {
                let null = File::open("/dev/null").map_err(|source| ExecError::io("opening /dev/null", source))?;
                (OwnedFd::from(null), None)
            }
            Stdin::Bytes(_) | Stdin::Open => {
                let (reader, writer) = pipe()?;
                (OwnedFd::from(reader), Some(OwnedFd::from(writer)))
            }
        };
        let child = [child_stdin, child_stdout.into(), child_stderr.into()];
        Ok(Self { child, stdin, stdout: stdout.into(), stderr: stderr.into() })
    }
}

enum Lost {
    Setup(SetupFailure),
    Trace(std::io::Error),
    Proxy(std::io::Error),
    Gone(String),
    /// It is gone, and nobody can say whether the program ran.
    MayHaveRun(String),
}

/// Failures that are the request's own have errors of their own.
fn explain(failure: SetupFailure, spec: &ExecSpec) -> ExecError {
    let source = || std::io::Error::from_raw_os_error(failure.errno);
    let program = || match &spec.command {
        CommandLine::Program(argv) => argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        CommandLine::Shell(_) => SHELL_NAME.to_owned(),
    };
    match (failure.stage, Errno::from_raw(failure.errno)) {
        (Stage::Exec, Errno::ENOENT | Errno::ENOTDIR) => ExecError::NotFound { program: program() },
        (Stage::Exec, Errno::E2BIG) => ExecError::Setup(failure),
        (Stage::Exec, _) => ExecError::NotExecutable { program: program(), source: source() },
        (Stage::Namespaces, Errno::ENOSPC) => {
            let reason = format!(
                "{failure}: the quota of namespaces is used up, here or in a sandbox around this one; raise it (sysctl \
                 user.max_user_namespaces), or ask for --backend landlock, which needs none and leaves gaps"
            );
            ExecError::SandboxUnavailable { reason }
        }
        (Stage::Workdir, _) => ExecError::Workdir { path: spec.workdir.clone(), source: source() },
        _ => ExecError::Setup(failure),
    }
}

fn c_string(text: &OsStr, what: &str) -> Result<CString, ExecError> {
    CString::new(text.as_bytes()).map_err(|_| ExecError::NulByte { what: what.to_owned() })
}
