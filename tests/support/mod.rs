//! A confining executor without a kernel behind it: it understands a few commands that bash understands too (`touch P`,
//! `cat P`, `echo T`, `sleep N`, `exit N`, `true`, joined by ` && `), lets them act on the disk as far as the policy of
//! the call goes, and reports what it refused. Tests built on it hold for a real executor as well.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod approver;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade::denial::{AccessWord, Denial, DenialKind, DeniedProcess, Grant, Witness};
use stockade::executor::*;
use stockade::policy::SandboxMode;
use tokio_util::sync::CancellationToken;

pub struct FakeExecutor {
    default: Option<SandboxMode>,
    scripted: Mutex<HashMap<String, RunResult>>,
    ran: Mutex<Vec<ExecSpec>>,
    live: Arc<Mutex<Vec<Arc<FakeProcess>>>>,
    disposed: CancellationToken,
}

impl FakeExecutor {
    pub fn confining(default: SandboxMode) -> Arc<Self> {
        Self::with(Some(default))
    }

    pub fn unconfined() -> Arc<Self> {
        Self::with(None)
    }

    fn with(default: Option<SandboxMode>) -> Arc<Self> {
        Arc::new(Self {
            default,
            scripted: Mutex::default(),
            ran: Mutex::default(),
            live: Arc::default(),
            disposed: CancellationToken::new(),
        })
    }

    /// Answers this command with this result.
    pub fn script(&self, command: &str, result: RunResult) {
        self.scripted.lock().unwrap().insert(command.to_owned(), result);
    }

    /// Every spec that was run or started so far.
    pub fn ran(&self) -> Vec<ExecSpec> {
        self.ran.lock().unwrap().clone()
    }

    pub fn running(&self) -> usize {
        self.live.lock().unwrap().iter().filter(|process| process.status() == ProcessStatus::Running).count()
    }

    fn begin(&self, spec: &ExecSpec) -> Result<(), ExecError> {
        if self.disposed.is_cancelled() {
            return Err(ExecError::Disposed);
        }
        if spec.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(ExecError::AlreadyCancelled);
        }
        self.ran.lock().unwrap().push(spec.clone());
        Ok(())
    }
}

impl BashExecutor for FakeExecutor {
    fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        let CommandLine::Shell(command) = &request.command else { unreachable!("the tools run shell commands") };
        if command.contains('\0') {
            return Err(ExecError::NulByte { what: "the command".to_owned() });
        }
        Ok(ExecSpec {
            workdir: request.workdir.unwrap_or_else(|| PathBuf::from("/")),
            timeout: match request.timeout {
                Timeout::Default => Some(Duration::from_secs(120)),
                Timeout::After(limit) => Some(limit.min(Duration::from_secs(600))),
                Timeout::None => None,
            },
            command: request.command,
            stdout_max_bytes: request.stdout_max_bytes.unwrap_or(1 << 20),
            cancel: request.cancel,
            stdin: request.stdin,
            env: request.env,
            managed_env: request.managed_env,
            policy: request.policy,
            owner: request.owner,
        })
    }

    fn run(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(async move {
            self.begin(&spec)?;
            let stop = spec.cancel.clone().unwrap_or_default();
            if let Some(result) = self.scripted.lock().unwrap().get(shell(&spec)).cloned() {
                return Ok(result);
            }
            Ok(interpret(&spec, self.default, &stop).await)
        })
    }

    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<Arc<dyn BashProcess>, ExecError>> {
        Box::pin(async move {
            self.begin(&spec)?;
            let scripted = self.scripted.lock().unwrap().get(shell(&spec)).cloned();
            let process = Arc::new(FakeProcess {
                owner: spec.owner.clone(),
                stop: self.disposed.child_token(),
                state: Mutex::new((ProcessStatus::Running, false)),
                ended: CancellationToken::new(),
            });
            let (running, default) = (Arc::clone(&process), self.default);
            tokio::spawn(async move {
                let result = match scripted {
                    Some(result) => result,
                    None => interpret(&spec, default, &running.stop).await,
                };
                running.state.lock().unwrap().0 = ProcessStatus::Settled(Box::new(result));
                running.ended.cancel();
            });
            self.live.lock().unwrap().push(Arc::clone(&process));
            Ok(process as Arc<dyn BashProcess>)
        })
    }

    fn sandbox_mode(&self) -> Option<SandboxMode> {
        self.default
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.disposed.cancel();
            let live = self.live.lock().unwrap().clone();
            for process in live {
                process.ended.cancelled().await;
            }
        })
    }
}

pub struct FakeProcess {
    owner: Option<String>,
    stop: CancellationToken,
    /// Status, and whether the output was read.
    state: Mutex<(ProcessStatus, bool)>,
    ended: CancellationToken,
}

impl BashProcess for FakeProcess {
    fn status(&self) -> ProcessStatus {
        self.state.lock().unwrap().0.clone()
    }

    fn done(&self) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(async move {
            self.ended.cancelled().await;
            match self.status() {
                ProcessStatus::Settled(result) => Ok(*result),
                other => Err(ExecError::SandboxLost { reason: format!("{other:?}") }),
            }
        })
    }

    fn read_output(&self) -> OutputRead {
        let mut state = self.state.lock().unwrap();
        let (ProcessStatus::Settled(result), false) = &*state else { return OutputRead::default() };
        let read = OutputRead {
            stdout: result.stdout.text.clone(),
            stderr: result.stderr.text.clone(),
            lossy: result.stdout.truncated || result.stderr.truncated,
            stdout_spill: result.stdout.spill_path.clone(),
            stderr_spill: result.stderr.spill_path.clone(),
        };
        state.1 = true;
        read
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let ran = self.status() == ProcessStatus::Running;
            self.stop.cancel();
            self.ended.cancelled().await;
            ran
        })
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

fn shell(spec: &ExecSpec) -> &str {
    match &spec.command {
        CommandLine::Shell(command) => command,
        CommandLine::Program(_) => unreachable!("the tools run shell commands"),
    }
}

async fn interpret(spec: &ExecSpec, default: Option<SandboxMode>, stop: &CancellationToken) -> RunResult {
    let mode = spec.policy.as_ref().map(|policy| policy.mode).or(default);
    let mut result = result(0);
    result.sandbox = mode.map(|mode| report(mode, Vec::new()));
    for step in shell(spec).split(" && ") {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "echo" => result.stdout.text.push_str(&format!("{rest}\n")),
            "exit" => result.exit_code = rest.parse().ok(),
            "sleep" => {
                let time = Duration::from_secs_f64(rest.parse().unwrap());
                tokio::select! {
                    () = tokio::time::sleep(time) => {}
                    () = stop.cancelled() => {
                        (result.exit_code, result.signal) = (None, Some("SIGKILL".to_owned()));
                        result.aborted = true;
                    }
                }
            }
            "touch" => touch(&spec.workdir.join(rest), spec.policy.as_ref(), mode, &mut result),
            "cat" => result.stdout.text.push_str(&std::fs::read_to_string(spec.workdir.join(rest)).unwrap()),
            "true" => {}
            other => unreachable!("the fake executor does not know {other}"),
        }
        if result.exit_code != Some(0) {
            break;
        }
    }
    result
}

fn touch(path: &Path, policy: Option<&CallPolicy>, mode: Option<SandboxMode>, result: &mut RunResult) {
    let within = |root: &Path| path.starts_with(root);
    let allowed = match mode {
        None | Some(SandboxMode::DangerFullAccess) => true,
        Some(mode) => policy.is_some_and(|policy| {
            policy.extra.write.iter().any(|root| within(root))
                || (mode == SandboxMode::WorkspaceWrite && within(&policy.workspace))
        }),
    };
    if allowed {
        std::fs::write(path, "").unwrap();
        return;
    }
    let widen_to = match policy {
        Some(policy) if within(&policy.workspace) => SandboxMode::WorkspaceWrite,
        _ => SandboxMode::DangerFullAccess,
    };
    result.exit_code = Some(1);
    result.stderr.text.push_str(&format!("touch: cannot touch '{}': Read-only file system\n", path.display()));
    result.sandbox = mode.map(|mode| report(mode, vec![denial(path, Some(widen_to))]));
}

/// A blocked creation.
pub fn denial(path: &Path, widen_to: Option<SandboxMode>) -> Denial {
    Denial {
        kind: DenialKind::FsCreate,
        path: Some(path.to_owned()),
        host: None,
        port: None,
        access: vec![AccessWord::Write],
        syscall: Some("openat".to_owned()),
        errno: Some("EROFS".to_owned()),
        process: Some(DeniedProcess { pid: Some(3), comm: "touch".to_owned() }),
        sources: vec![Witness::Trace],
        blocking: true,
        widen_to,
        grant: widen_to.map(|_| Grant { write: vec![path.to_owned()], ..Grant::default() }),
    }
}

pub fn report(mode: SandboxMode, denials: Vec<Denial>) -> SandboxReport {
    SandboxReport {
        mode,
        enforcement: if mode.confines() { Enforcement::Full } else { Enforcement::None },
        gaps: Vec::new(),
        denied: denials.iter().any(|denial| denial.blocking),
        denials,
        denials_omitted: 0,
        notes: Vec::new(),
    }
}

/// A run that wrote nothing and exited with `code`.
pub fn result(code: i32) -> RunResult {
    RunResult {
        exit_code: Some(code),
        signal: None,
        timed_out: false,
        aborted: false,
        timeout_ms: 120_000,
        duration_ms: 1.0,
        stdout: StreamCapture::default(),
        stderr: StreamCapture::default(),
        sandbox: None,
    }
}
