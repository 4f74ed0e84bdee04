//! The run loop that every executor shares: output, standard input, time-out, cancellation, ending.
//!
//! Why here: what a command may do to its caller (ignore SIGTERM, leave a child that holds the pipes, never read its
//! input, flood its output) is the same confined or not. Knobs are in [`Settings`]. Fails closed: whatever drops the
//! loop, the command is killed.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::child::{Child, ExitReport, ResourceUse, signal_name};
use super::guard::{Attended, Guard};
use super::process::ProcessHandle;
use super::reading::{Reading, feed};
use super::registry::{Registry, Ticket};
use super::stop::{Cause, Stops, at};
use super::{BoxFuture, ExecError, ExecSpec, RunResult, Stdin};
use crate::output::{Capture, SpillStore, readable_end, sweep_in_background};

/// How long what was killed may take to disappear before the result is given without waiting for it.
const VANISHING: Duration = Duration::from_secs(2);

/// How often the survivors of a command are looked for; nobody tells us of other people's children.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The knobs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    /// How long output is still collected after the command ended while something holds its pipes.
    pub(crate) drain: Duration,
    /// In-memory budget of standard error, bytes.
    pub(crate) stderr_bytes: usize,
    /// Where spill directories are made.
    pub(crate) spill_root: PathBuf,
    /// Largest spill of one stream, bytes.
    pub(crate) spill_cap: u64,
    /// Spills outlive the executor.
    pub(crate) keep_spills: bool,
}

/// A command that has been started, and our ends of its pipes.
#[derive(Debug)]
pub(crate) struct Launched<C> {
    pub(crate) child: C,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Present when the request brought bytes.
    pub(crate) stdin: Option<OwnedFd>,
    /// When starting it began.
    pub(crate) began: Instant,
}

/// What a run came to, with what only a confining executor needs.
#[derive(Debug)]
#[expect(dead_code, reason = "the confined executor reads the raw ends and the use of resources")]
pub(crate) struct Outcome {
    /// `sandbox` is `None`.
    pub(crate) result: RunResult,
    /// The kept end of standard output as it came.
    pub(crate) stdout_tail: Vec<u8>,
    /// The kept end of standard error as it came.
    pub(crate) stderr_tail: Vec<u8>,
    /// What the command used.
    pub(crate) resources: Option<ResourceUse>,
}

/// Turns the outcome of a background command into its result.
pub(crate) type Finish = Box<dyn FnOnce(Outcome) -> BoxFuture<'static, RunResult> + Send>;

/// Both streams, shared between the loop and whoever reads while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) stdout: Arc<Mutex<Capture>>,
    pub(crate) stderr: Arc<Mutex<Capture>>,
}

/// The shared machinery of one executor.
#[derive(Debug)]
pub(crate) struct Engine {
    settings: Settings,
    registry: Registry,
    spills: Arc<SpillStore>,
    swept: Once,
}

impl Engine {
    /// Stands ready.
    pub(crate) fn new(settings: Settings) -> Self {
        let spills = SpillStore::new(settings.spill_root.clone(), settings.spill_cap, settings.keep_spills);
        Self { settings, registry: Registry::default(), spills: Arc::new(spills), swept: Once::new() }
    }

    /// Removes, once and in the background, what dead executors left under any of `prefixes` in the spill root.
    pub(crate) fn sweep_once(&self, prefixes: &'static [&'static str]) {
        self.swept.call_once(|| sweep_in_background(self.settings.spill_root.clone(), prefixes));
    }

    /// Leave to start a command: to be asked for before it is started, and handed to [`Self::run`] or [`Self::start`].
    pub(crate) fn admit(&self, spec: &ExecSpec) -> Result<Ticket, ExecError> {
        let ticket = self.registry.admit()?;
        match &spec.cancel {
            Some(cancel) if cancel.is_cancelled() => Err(ExecError::AlreadyCancelled),
            _ => Ok(ticket),
        }
    }

    /// Follows a foreground command to its end. Dropping the future kills the command.
    pub(crate) fn run<C: Child>(
        &self,
        ticket: Ticket,
        launched: Launched<C>,
        spec: ExecSpec,
    ) -> impl Future<Output = Result<Outcome, ExecError>> + Send + use<C> {
        let now = ticket.now.clone();
        let streams = self.streams(&spec);
        let timeout = spec.timeout;
        let followed = self.follow(ticket, launched, spec, streams, timeout, CancellationToken::new());
        Attended::new(Box::pin(followed), now)
    }

    /// Follows a background command in a task of its own. No timeout applies.
    pub(crate) fn start<C: Child>(
        &self,
        ticket: Ticket,
        mut launched: Launched<C>,
        spec: ExecSpec,
        finish: Finish,
    ) -> Arc<ProcessHandle> {
        let input = if spec.stdin == Stdin::Open { launched.stdin.take() } else { None };
        let streams = self.streams(&spec);
        let ask = CancellationToken::new();
        let owner = spec.owner.clone();
        let followed = self.follow(ticket, launched, spec, streams.clone(), None, ask.clone());
        let settled = async move {
            match followed.await {
                Ok(outcome) => Ok(finish(outcome).await),
                Err(error) => Err(error),
            }
        };
        Arc::new(ProcessHandle::spawn(settled, streams, ask, owner, input))
    }

    /// Kills everything that runs, waits until it is gone, and removes the spill files.
    pub(crate) async fn dispose(&self) {
        self.registry.end();
        self.registry.wait().await;
        self.spills.close();
    }

    fn streams(&self, spec: &ExecSpec) -> Streams {
        let capture = |limit, label| Arc::new(Mutex::new(Capture::new(limit, Arc::clone(&self.spills), label)));
        Streams {
            stdout: capture(spec.stdout_max_bytes, "stdout"),
            stderr: capture(self.settings.stderr_bytes, "stderr"),
        }
    }

    fn follow<C: Child>(
        &self,
        ticket: Ticket,
        launched: Launched<C>,
        spec: ExecSpec,
        streams: Streams,
        timeout: Option<Duration>,
        ask: CancellationToken,
    ) -> impl Future<Output = Result<Outcome, ExecError>> + Send + use<C> {
        let child = Guard::new(launched.child);
        let stops = Stops {
            // A limit too far away to be expressed is none.
            deadline: timeout.and_then(|limit| launched.began.checked_add(limit)),
            cancel: spec.cancel,
            ask,
            now: ticket.now.clone(),
        };
        let (grace, drain) = (self.settings.grace, self.settings.drain);
        async move {
            let _ticket = ticket;
            let stdout = readable_end(launched.stdout).map_err(|e| ExecError::io("preparing the output pipe", e))?;
            let stderr = readable_end(launched.stderr).map_err(|e| ExecError::io("preparing the error pipe", e))?;
            let feeding = match (launched.stdin, spec.stdin) {
                (Some(fd), Stdin::Bytes(bytes)) => Some(feed(fd, bytes)),
                _ => None,
            };
            let mut reading = Reading::new(stdout, stderr, streams.clone());
            let (end, cause, kill_at) = reading.during(until_exit(&*child, &stops, feeding, grace)).await?;
            let took = launched.began.elapsed();
            reading.drain(drain, &stops).await;
            end_survivors(&*child, &stops, kill_at, &mut reading).await;
            child.disarm();
            drop(reading);
            Ok(outcome(end, cause, timeout, took, &streams))
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.registry.end();
        self.spills.close();
    }
}

/// Waits for the command to end, and sees to it that it does: SIGTERM at the first cause, SIGKILL after the grace.
async fn until_exit<C: Child>(
    child: &C,
    stops: &Stops,
    feeding: Option<impl Future<Output = ()>>,
    grace: Duration,
) -> Result<(ExitReport, Option<Cause>, Option<Instant>), ExecError> {
    let mut exit = child.wait();
    let mut fed = feeding.is_none();
    let feeding = async {
        match feeding {
            Some(feeding) => feeding.await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(feeding);
    let (mut cause, mut kill_at, mut killed) = (None, None, false);
    loop {
        tokio::select! {
            biased;
            report = &mut exit => return Ok((report?, cause, kill_at)),
            () = stops.now.cancelled(), if !killed => {
                cause.get_or_insert(Cause::Abort);
                kill_at = Some(Instant::now());
                killed = true;
                child.kill();
            }
            first = stops.first(), if cause.is_none() => {
                cause = Some(first);
                kill_at = Some(Instant::now() + grace);
                child.terminate();
            }
            () = at(kill_at), if !killed => {
                killed = true;
                child.kill();
            }
            () = &mut feeding, if !fed => fed = true,
        }
    }
}

/// Ends what the command left running in its group: after a stop it has the rest of the grace, else it has had the time
/// of the drain. A background child that is to live on is started as a background process.
async fn end_survivors<C: Child>(child: &C, stops: &Stops, kill_at: Option<Instant>, reading: &mut Reading) {
    if !child.survivors() {
        return;
    }
    let gone = async {
        while child.survivors() {
            sleep(LOOK_AGAIN).await;
        }
    };
    tokio::pin!(gone);
    if let Some(kill_at) = kill_at {
        let polite = async {
            tokio::select! {
                () = &mut gone => true,
                () = sleep_until(kill_at) => false,
                () = stops.now.cancelled() => false,
            }
        };
        if reading.during(polite).await {
            return;
        }
    }
    child.kill();
    if reading.during(tokio::time::timeout(VANISHING, gone)).await.is_err() {
        tracing::warn!("processes that a command left behind could not be killed");
    }
}

fn outcome(
    end: ExitReport,
    cause: Option<Cause>,
    timeout: Option<Duration>,
    took: Duration,
    streams: &Streams,
) -> Outcome {
    let mut stdout = streams.stdout.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stderr = streams.stderr.lock().unwrap_or_else(PoisonError::into_inner);
    let result = RunResult {
        exit_code: end.exit_code,
        signal: end.signal.map(signal_name),
        timed_out: cause == Some(Cause::Timeout),
        aborted: cause == Some(Cause::Abort),
        timeout_ms: timeout.map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        duration_ms: took.as_secs_f64() * 1000.0,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        sandbox: None,
    };
    Outcome { result, stdout_tail: stdout.raw(), stderr_tail: stderr.raw(), resources: end.resources }
}
