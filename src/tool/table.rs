//! The table of background tasks: ids, owners, and what is left of a task once it has ended.
//!
//! Ids are `bash-N`, unique for the life of the host and predictable, so the owner token, stamped on the process by the
//! executor, is what keeps sessions apart. Memory is bounded per session: a finished task whose output has been read
//! keeps a summary only, and unread output of finished tasks is kept for the latest few.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::locks::{AtomicU64, Mutex, MutexGuard};
use super::marker::exit_status;
use super::{TaskRead, TaskStatus};
use crate::executor::{BashProcess, OutputRead, ProcessStatus, RunResult, SandboxReport};
use crate::session::ExitStatus;

/// Finished tasks of one owner that keep output nobody has read yet.
const UNREAD_MAX: usize = 32;
/// Finished tasks of one owner that are remembered at all.
const ENDED_MAX: usize = 256;
/// Denials kept with a finished task.
pub(super) const DENIALS_KEPT: usize = 20;

#[derive(Default)]
pub(super) struct TaskTable {
    last: AtomicU64,
    tasks: Mutex<BTreeMap<u64, Task>>,
}

struct Task {
    command: Arc<str>,
    process: State,
}

enum State {
    /// Running, or ended with output to read.
    Held { process: Arc<dyn BashProcess>, finished: bool },
    /// Ended and read to its end.
    Ended(Box<Summary>),
}

#[derive(Clone)]
struct Summary {
    owner: Option<String>,
    status: TaskStatus,
    sandbox: Option<SandboxReport>,
    lost: Option<Lost>,
}

/// Output that was dropped unread to bound memory, until it has been said.
#[derive(Clone)]
struct Lost {
    stdout_spill: Option<PathBuf>,
    stderr_spill: Option<PathBuf>,
}

/// Why a task cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTask {
    Unknown,
    Foreign,
}

impl TaskTable {
    /// Gives a started process its id.
    pub(super) fn insert(&self, command: &str, process: Arc<dyn BashProcess>) -> String {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let task = Task { command: command.into(), process: State::Held { process, finished: false } };
        self.lock().insert(number, task);
        format!("bash-{number}")
    }

    /// Never gives out ids up to this number again: a resumed session still has them in its context.
    pub(super) fn reserve(&self, number: u64) {
        // A log is data: a number near the end of the range must not make ids wrap round.
        self.last.fetch_max(number.min(u64::MAX / 2), Ordering::Relaxed);
    }

    /// The owner token of a task; the outer `None` means that there is no such task.
    pub(super) fn owner_of(&self, id: &str) -> Option<Option<String>> {
        let tasks = self.lock();
        tasks.get(&number(id)?).map(|task| task.owner().map(str::to_owned))
    }

    /// Fails unless `caller` may use the task: an owned one is its owner's, an unowned one anybody's.
    pub(super) fn check(&self, id: &str, caller: Option<&str>) -> Result<(), NoTask> {
        match self.owner_of(id) {
            None => Err(NoTask::Unknown),
            Some(Some(owner)) if caller != Some(owner.as_str()) => Err(NoTask::Foreign),
            Some(_) => Ok(()),
        }
    }

    /// New output and status of a task, with the command it runs.
    pub(super) fn read(&self, id: &str) -> Result<(TaskRead, Arc<str>), NoTask> {
        let number = number(id).ok_or(NoTask::Unknown)?;
        let mut tasks = self.lock();
        let task = tasks.get_mut(&number).ok_or(NoTask::Unknown)?;
        let command = Arc::clone(&task.command);
        let read = match &mut task.process {
            State::Held { process, .. } => {
                // Status before output: what is read after the end is everything.
                let status = process.status();
                let output = process.read_output();
                let ended = summary(process.owner(), &status);
                let read = delivered(id, &ended, output);
                if !matches!(ended.status, TaskStatus::Running) {
                    task.process = State::Ended(Box::new(ended));
                }
                read
            }
            State::Ended(ended) => {
                let lost = ended.lost.take();
                let output = lost.map_or_else(OutputRead::default, |lost| OutputRead {
                    lossy: true,
                    stdout_spill: lost.stdout_spill,
                    stderr_spill: lost.stderr_spill,
                    ..OutputRead::default()
                });
                delivered(id, ended, output)
            }
        };
        Ok((read, command))
    }

    /// The process of a task, when it may still run.
    pub(super) fn process(&self, id: &str) -> Option<Arc<dyn BashProcess>> {
        match &self.lock().get(&number(id)?)?.process {
            State::Held { process, .. } => Some(Arc::clone(process)),
            State::Ended(_) => None,
        }
    }

    /// Notes that a task has ended, and lets go of what is beyond the bounds. Returns its final status.
    pub(super) fn finished(&self, id: &str, end: &ProcessStatus) -> Option<TaskStatus> {
        let number = number(id)?;
        let mut tasks = self.lock();
        let task = tasks.get_mut(&number)?;
        let status = match &mut task.process {
            State::Held { process, finished } => {
                *finished = true;
                summary(process.owner(), end).status
            }
            State::Ended(ended) => ended.status.clone(),
        };
        let owner = task.owner().map(str::to_owned);
        trim(&mut tasks, owner.as_deref());
        Some(status)
    }

    /// Every process that may still run, of one owner or of all.
    pub(super) fn processes(&self, owner: Option<&str>) -> Vec<Arc<dyn BashProcess>> {
        let tasks = self.lock();
        let held = tasks.values().filter(|task| owner.is_none() || task.owner() == owner);
        held.filter_map(|task| match &task.process {
            State::Held { process, .. } => Some(Arc::clone(process)),
            State::Ended(_) => None,
        })
        .collect()
    }

    /// Forgets every task of an owner.
    pub(super) fn forget(&self, owner: &str) {
        self.lock().retain(|_, task| task.owner() != Some(owner));
    }

    /// How many tasks are known, and how many of them hold a process.
    pub(super) fn counts(&self) -> (usize, usize) {
        let tasks = self.lock();
        let held = tasks.values().filter(|task| matches!(task.process, State::Held { .. })).count();
        (tasks.len(), held)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    fn owner(&self) -> Option<&str> {
        match &self.process {
            State::Held { process, .. } => process.owner(),
            State::Ended(ended) => ended.owner.as_deref(),
        }
    }
}

/// Drops the oldest unread output, and the oldest summaries, of one owner.
fn trim(tasks: &mut BTreeMap<u64, Task>, owner: Option<&str>) {
    let mine = |tasks: &BTreeMap<u64, Task>, wanted: fn(&State) -> bool| -> Vec<u64> {
        tasks.iter().filter(|(_, task)| task.owner() == owner && wanted(&task.process)).map(|(n, _)| *n).collect()
    };
    let unread = mine(tasks, |state| matches!(state, State::Held { finished: true, .. }));
    for number in &unread[..unread.len().saturating_sub(UNREAD_MAX)] {
        let Some(task) = tasks.get_mut(number) else { continue };
        if let State::Held { process, .. } = &task.process {
            let mut ended = summary(process.owner(), &process.status());
            let left = process.read_output();
            if left.lossy || !left.stdout.is_empty() || !left.stderr.is_empty() {
                ended.lost = Some(Lost { stdout_spill: left.stdout_spill, stderr_spill: left.stderr_spill });
            }
            task.process = State::Ended(Box::new(ended));
        }
    }
    let ended = mine(tasks, |state| matches!(state, State::Ended(_)));
    for number in &ended[..ended.len().saturating_sub(ENDED_MAX)] {
        tasks.remove(number);
    }
}

fn delivered(id: &str, ended: &Summary, output: OutputRead) -> TaskRead {
    TaskRead {
        task_id: id.to_owned(),
        status: ended.status.clone(),
        stdout: output.stdout,
        stderr: output.stderr,
        lossy: output.lossy,
        stdout_spill: output.stdout_spill,
        stderr_spill: output.stderr_spill,
        sandbox: ended.sandbox.clone(),
    }
}

fn summary(owner: Option<&str>, status: &ProcessStatus) -> Summary {
    let (status, sandbox) = match status {
        ProcessStatus::Running => (TaskStatus::Running, None),
        ProcessStatus::Failed(reason) => (TaskStatus::Failed { reason: reason.clone() }, None),
        ProcessStatus::Settled(result) => (settled(result), result.sandbox.clone().map(bounded)),
    };
    Summary { owner: owner.map(str::to_owned), status, sandbox, lost: None }
}

fn settled(result: &RunResult) -> TaskStatus {
    match exit_status(result) {
        Some(ExitStatus::ExitCode(exit_code)) => TaskStatus::Completed { exit_code },
        Some(ExitStatus::Signal(name)) => TaskStatus::Killed { signal: Some(name) },
        None => TaskStatus::Killed { signal: None },
    }
}

/// The report with its first denials only, blocking ones before the others.
fn bounded(mut report: SandboxReport) -> SandboxReport {
    report.denials.sort_by_key(|denial| !denial.blocking);
    let beyond = report.denials.len().saturating_sub(DENIALS_KEPT);
    report.denials.truncate(DENIALS_KEPT);
    report.denials_omitted = report.denials_omitted.saturating_add(beyond as u64);
    report
}

/// The number in an id spelled exactly as it was given out.
fn number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("bash-")?;
    let number = digits.parse::<u64>().ok()?;
    (number.to_string() == digits).then_some(number)
}
