//! `stockade run`.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use stockade::denial::Denial;
use stockade::environment::EnvironmentPolicy;
use stockade::executor::{BashExecutor, CommandLine, ExecError, ExecRequest, ExecSpec, RunResult, Stdin, Timeout};
use stockade::policy::{CliRule, HostPaths, PolicyError, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, PolicySource, SandboxedConfig, SandboxedExecutor};
use tokio::signal::unix::{SignalKind, signal};

use super::args::{PolicyArgs, Require, RunArgs};
use super::attach::{attachment, copy_of, outputs, relay_standard_input};
use super::exit::say;
use super::exit::{CANNOT_RUN, Failure};
use super::record;
use super::relay::{End, session};
use super::terminal::Saved;

/// What the connections of one sandbox may take, with room to spare.
const MOST_DESCRIPTORS: u64 = 4096;

/// The time limit ended the command.
pub(crate) const TIMED_OUT: u8 = 124;

/// Runs one command and turns how it went into an exit status.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let json = args.json;
    let runtime = runtime()?;
    let done = runtime.block_on(run_confined(args));
    std::mem::forget(runtime);
    if json { done.map_err(Failure::without_program_statuses) } else { done }
}

/// One thread is enough for one command, and costs the least to start.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    start(&mut tokio::runtime::Builder::new_current_thread(), 0)
}

/// Starts a runtime that begins with so many threads. What it would panic for want of is asked for first.
pub(crate) fn start(builder: &mut tokio::runtime::Builder, threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let started = room_for(threads).and_then(|()| builder.enable_all().build()).and_then(|runtime| {
        let _inside = runtime.enter();
        // A file that may not grow any further (RLIMIT_FSIZE) is then an error, and not the end of this process.
        drop(signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?);
        Ok(runtime)
    });
    started.map_err(|error| Failure::cannot(format!("the runtime cannot be started: {error}{}", remedy(&error))))
}

/// Whether so many threads, and the descriptors of a runtime, are to be had here.
fn room_for(threads: usize) -> std::io::Result<()> {
    /// Descriptors of a runtime: its poll and its wake-up, the socket pair of its signals and a copy; with one to spare.
    const PAIRS: usize = 4;
    let pipes: std::io::Result<Vec<_>> = (0..PAIRS).map(|_| std::io::pipe()).collect();
    pipes?;
    let held = Arc::new(std::sync::Barrier::new(threads + 1));
    let mut begun = Vec::new();
    for _ in 0..threads {
        let theirs = Arc::clone(&held);
        begun.push(std::thread::Builder::new().spawn(move || theirs.wait())?);
    }
    held.wait();
    begun.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

/// What helps against a limit.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => "; raise the limit of open files (`ulimit -n`) to 64 or more",
        Some(Errno::ENFILE) => "; the system's table of open files is full (sysctl fs.file-max)",
        Some(Errno::EAGAIN) => "; raise the limit of processes and threads (`ulimit -u`, pids.max of its cgroup)",
        Some(Errno::ENOMEM) => "; raise the limit of memory (`ulimit -v`, memory.max of its cgroup)",
        _ => "",
    }
}

async fn run_confined(args: RunArgs) -> Result<ExitCode, Failure> {
    if args.command.is_none() && args.program.is_empty() {
        return Err(Failure::usage("nothing to run: give `-- PROGRAM [ARG...]` or `-c 'SHELL COMMAND'`"));
    }
    let policy = layered_policy(&args.policy)?;
    let executor = executor(&args.policy, &policy, args.json)?;
    let spec = spec(&executor, &args)?;
    if policy.standing().mode.confines() {
        relay_standard_input()?;
        allow_many_connections();
    }
    let recorded = record::begin(&args.policy, &policy, &spec)?;
    let (result, status) = if args.json {
        let result = executor.run(spec).await.map_err(Failure::from);
        let status = result.as_ref().map_or_else(|failure| Err(failure.clone()), print_json);
        (result, status)
    } else {
        attached(&executor, spec, &args, policy.standing().mode).await
    };
    let recording = recorded.map_or(Ok(()), |recorded| recorded.end(result.as_ref()));
    executor.release().await;
    // This process is about to end; taking the executor apart first would only delay that.
    std::mem::forget(executor);
    recording.and(status)
}

/// A tunnel takes two descriptors of ours. The launcher was forked before this, so commands keep the limit they were given.
fn allow_many_connections() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(MOST_DESCRIPTORS)), hard));
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

type Done = (Result<RunResult, Failure>, Result<ExitCode, Failure>);

/// Runs on our own standard input and output. A terminal among them is not handed over: what a command could do to it
/// (size, flow control, exclusive use, reading on after its end) no filter tells apart from what programs do to their own.
async fn attached(executor: &SandboxedExecutor, spec: ExecSpec, args: &RunArgs, mode: SandboxMode) -> Done {
    let (result, how) = if mode.confines() && any_terminal() {
        match on_terminal(executor, spec, args.policy.timeout_ms).await {
            Ok((result, how)) => (Ok(result), Some(how)),
            Err(failure) => (Err(failure), None),
        }
    } else {
        (on_descriptors(executor, spec).await, None)
    };
    match result {
        Ok(result) => {
            report_denials(&result);
            let status = how.map_or_else(|| status_of(&result), |how| how.status(&result));
            (Ok(result), Ok(status))
        }
        Err(failure) => (Err(failure.clone()), Err(failure)),
    }
}

fn any_terminal() -> bool {
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

async fn on_terminal(
    executor: &SandboxedExecutor,
    spec: ExecSpec,
    timeout_ms: Option<u64>,
) -> Result<(RunResult, End), Failure> {
    let (outputs, forwarders) = outputs()?;
    let keep = |terminal: bool, fd: &dyn AsFd| if terminal { Ok(None) } else { copy_of(fd).map(Some) };
    let stdin = keep(std::io::stdin().is_terminal(), &std::io::stdin())?;
    let stdout = match outputs.stdout {
        None => keep(std::io::stdout().is_terminal(), &std::io::stdout())?,
        piped => piped,
    };
    let stderr = match outputs.stderr {
        None => keep(std::io::stderr().is_terminal(), &std::io::stderr())?,
        piped => piped,
    };
    let stdio = [stdin, stdout, stderr];
    drop(outputs.stderr_copy);
    let done = session(executor, spec, stdio, timeout_ms).await;
    forwarders.finish();
    let (mut result, how) = done?;
    result.timed_out = matches!(how, End::Timeout);
    Ok((result, how))
}

async fn on_descriptors(executor: &SandboxedExecutor, spec: ExecSpec) -> Result<RunResult, Failure> {
    let saved = Saved::take();
    let (attachment, forwarders) = attachment()?;
    let result = executor.run_attached(spec, attachment).await;
    forwarders.finish();
    saved.restore();
    Ok(result?)
}

/// The directories that policies speak of.
pub(crate) fn host_paths() -> Result<HostPaths, Failure> {
    HostPaths::of_process()
        .map_err(|error| Failure::cannot(format!("the current directory cannot be used: {error}; change to another")))
}

/// The policies that the options describe.
pub(crate) fn layered_policy(args: &PolicyArgs) -> Result<LayeredPolicy, Failure> {
    let host = host_paths()?;
    LayeredPolicy::new(policy_request(args, &host), host).map_err(policy_failure)
}

/// The executor that the options describe.
pub(crate) fn executor(
    args: &PolicyArgs,
    policy: &LayeredPolicy,
    keep_spills: bool,
) -> Result<SandboxedExecutor, Failure> {
    let mut config = config(args, policy);
    config.keep_spills = keep_spills;
    config.default_timeout = None;
    config.max_timeout = None;
    Ok(SandboxedExecutor::new(config)?)
}

/// An executor's configuration as the options describe it, with the tools' time limits.
pub(crate) fn config(args: &PolicyArgs, policy: &LayeredPolicy) -> SandboxedConfig {
    let mut config = SandboxedConfig::new(Arc::new(policy.clone()));
    config.workdir.clone_from(&args.workdir);
    config.require_full = args.require == Require::Full;
    config.backend = args.backend.into();
    config.trace = args.trace.into();
    config.audit = args.audit.into();
    config.environment = environment(args);
    config
}

/// What of the environment reaches commands, as the options say.
pub(crate) fn environment(args: &PolicyArgs) -> EnvironmentPolicy {
    EnvironmentPolicy {
        set: args.env.iter().cloned().collect(),
        pass: args.pass_env.iter().cloned().collect(),
        terminal_defaults: false,
    }
}

/// Options that contradict each other are bad usage; a policy that is wrong, or wrong for this host, is not.
pub(crate) fn policy_failure(error: PolicyError) -> Failure {
    match error {
        PolicyError::Conflict { .. } | PolicyError::NoSuchPolicy { .. } => Failure::usage(error.to_string()),
        _ => Failure::cannot(format!("policy: {error}")),
    }
}

/// The policy that the options describe.
pub(crate) fn policy_request(args: &PolicyArgs, host: &HostPaths) -> PolicyRequest {
    let workspace = args.workspace.clone().unwrap_or_else(|| host.cwd.clone());
    let mut request = PolicyRequest::new(args.mode, workspace);
    if let Some(policy) = &args.policy {
        request = request.policy(policy);
    }
    let rules =
        [(CliRule::Write, &args.write), (CliRule::DenyWrite, &args.deny_write), (CliRule::DenyRead, &args.deny_read)];
    for (rule, paths) in rules {
        for path in paths {
            request = request.cli_rule(rule, path);
        }
    }
    request.network(args.network.map(Into::into), args.allow_host.iter().cloned())
}

fn spec(executor: &SandboxedExecutor, args: &RunArgs) -> Result<ExecSpec, Failure> {
    let command = match &args.command {
        Some(text) => match text.to_str() {
            Some(text) => CommandLine::Shell(text.to_owned()),
            // Not UTF-8: the same command through the same shell, as an argument vector.
            None => CommandLine::Program(vec!["bash".into(), "-c".into(), text.clone()]),
        },
        None => CommandLine::Program(args.program.clone()),
    };
    let mut request = ExecRequest::new(command);
    request.stdin = Stdin::Inherit;
    request.timeout = match args.policy.timeout_ms {
        None | Some(0) => Timeout::None,
        Some(ms) => Timeout::After(std::time::Duration::from_millis(ms)),
    };
    executor.resolve(request).map_err(|error: ExecError| error.into())
}

fn print_json(result: &RunResult) -> Result<ExitCode, Failure> {
    let line = serde_json::to_string(result)
        .map_err(|error| Failure::cannot(format!("the result cannot be written as JSON: {error}")))?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::cannot(format!("the result cannot be written: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each refusal that mattered.
fn report_denials(result: &RunResult) {
    let denials = result.sandbox.iter().flat_map(|sandbox| &sandbox.denials);
    for denial in denials.filter(|denial| denial.blocking) {
        say!("{}", denial_line(denial));
    }
}

/// One refusal on one line.
pub(crate) fn denial_line(denial: &Denial) -> String {
    let mut line = format!("stockade: denied {} {}", denial.kind, denial.target().escape_debug());
    if let Some(process) = &denial.process {
        line.push_str(&format!(" by {}", process.comm.escape_debug()));
    }
    if let Some(mode) = denial.widen_to {
        line.push_str(&format!(" (would succeed under --mode {mode})"));
    }
    line
}

pub(crate) fn status_of(result: &RunResult) -> ExitCode {
    if result.timed_out {
        return ExitCode::from(TIMED_OUT);
    }
    let status = match (&result.exit_code, &result.signal) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(CANNOT_RUN),
        (None, Some(name)) => {
            name.parse::<Signal>().map_or(CANNOT_RUN, |signal| u8::try_from(128 + signal as i32).unwrap_or(CANNOT_RUN))
        }
        (None, None) => CANNOT_RUN,
    };
    ExitCode::from(status)
}
