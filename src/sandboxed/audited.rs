//! The audit witness of an executor: opened with its first run, where it can be had, and found out about only once.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use caps::{CapSet, Capability};

use super::config::AuditChoice;
use crate::denial::audit::{AuditLog, AuditRecord, AuditState, AuditSwitch};
use crate::denial::{DenialKind, Observation, Target};
use crate::executor::ExecError;
use crate::executor::blocking::blocking;
use crate::plan::{RuleSet, shipped_rules};
use crate::policy::RefusalErrno;

/// The log of an executor, and auditing turned on where that was asked for.
#[derive(Debug)]
pub(super) struct Audit {
    choice: AuditChoice,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    NotAsked,
    Unusable,
    Open {
        log: Arc<AuditLog>,
        /// Dropped after the log.
        _switch: Option<AuditSwitch>,
    },
}

/// One run whose refusals the log collects.
#[derive(Debug)]
pub(super) struct AuditedRun {
    log: Arc<AuditLog>,
    /// The process that entered the domain, as this process numbers it.
    entered: u32,
}

impl Audit {
    pub(super) fn new(choice: AuditChoice) -> Self {
        Self { choice, state: Mutex::new(State::NotAsked) }
    }

    /// Whether a run is to be built for the log: it can be read, or may be as far as is known without asking the kernel,
    /// which takes half a millisecond to answer.
    ///
    /// # Errors
    /// When auditing is to be turned on and cannot be.
    pub(super) fn is_likely(&self) -> Result<bool, ExecError> {
        if self.choice == AuditChoice::On {
            return Ok(self.log()?.is_some());
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match *state {
            _ if self.choice == AuditChoice::Off => false,
            State::NotAsked => caps::has_cap(None, CapSet::Effective, Capability::CAP_AUDIT_READ).unwrap_or(false),
            State::Unusable => false,
            State::Open { .. } => true,
        })
    }

    /// The log, where it can be read and auditing is on.
    ///
    /// # Errors
    /// When auditing is to be turned on and cannot be.
    pub(super) fn log(&self) -> Result<Option<Arc<AuditLog>>, ExecError> {
        if self.choice == AuditChoice::Off {
            return Ok(None);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::NotAsked) {
            *state = self.open()?;
        }
        match &*state {
            State::Open { log, .. } => Ok(Some(Arc::clone(log))),
            State::NotAsked | State::Unusable => Ok(None),
        }
    }

    fn open(&self) -> Result<State, ExecError> {
        let on = self.choice == AuditChoice::On;
        let switch = match AuditState::detect() {
            AuditState::Readable => None,
            AuditState::Disabled if on => {
                Some(AuditSwitch::on().map_err(|error| ExecError::io("turning auditing on", error))?)
            }
            AuditState::Disabled | AuditState::NoPermission | AuditState::NotCompiled if !on => {
                return Ok(State::Unusable);
            }
            state => {
                let reason = format!(
                    "auditing cannot be used here ({state}): run as root in the host's own namespaces, or leave --audit on \
                     away"
                );
                return Err(ExecError::SandboxUnavailable { reason });
            }
        };
        match AuditLog::open() {
            Ok(log) => Ok(State::Open { log: Arc::new(log), _switch: switch }),
            Err(error) if on => Err(ExecError::io("opening the audit log", error)),
            Err(error) => {
                tracing::info!(%error, "the audit log is not used");
                Ok(State::Unusable)
            }
        }
    }

    /// Closes the log and undoes what was changed.
    pub(super) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::Unusable;
    }
}

impl AuditedRun {
    /// From the descriptor by which the sandbox tells which process enters the domain.
    pub(super) fn enter(log: Arc<AuditLog>, process: &OwnedFd) -> Option<Self> {
        let entered = pid_of(process)?;
        log.enter(entered);
        Some(Self { log, entered })
    }

    /// What the log says of the run, and what has to be told of it besides. It waits for some milliseconds, off the
    /// runtime's threads.
    pub(super) async fn finish(self) -> (Vec<Observation>, Vec<String>) {
        let finished = blocking(move || self.log.finish(self.entered)).await;
        match finished {
            Ok(Ok(record)) => told(record),
            Ok(Err(error)) => (Vec::new(), vec![format!("the audit records of this run were lost: {error}")]),
            Err(error) => (Vec::new(), vec![format!("the audit records of this run were lost: {error}")]),
        }
    }
}

fn told(record: AuditRecord) -> (Vec<Observation>, Vec<String>) {
    let mut notes = Vec::new();
    if record.lost > 0 {
        notes
            .push(format!("audit: the kernel lost {} records during this run; what they said is unknown", record.lost));
    }
    if record.unplaced > 0 {
        notes.push(format!(
            "audit: {} records of refused calls name processes that had ended; whether they are this run's is unknown",
            record.unplaced
        ));
    }
    if record.off {
        notes.push("audit: auditing was turned off by someone during this run; later refusals have no record".into());
    }
    (record.observations.into_iter().filter_map(refined).collect(), notes)
}

/// A seccomp record names the call alone; the rule that refuses it says what kind of thing it is. Rules about metadata
/// need the object too, and calls answered as if the kernel had none are no refusals.
fn refined(mut seen: Observation) -> Option<Observation> {
    const EVERY_SET: [RuleSet; 5] =
        [RuleSet::Base, RuleSet::Root, RuleSet::Metadata, RuleSet::Processes, RuleSet::NoInet];
    if seen.kind != DenialKind::Syscall || seen.target != Target::Syscall {
        return Some(seen);
    }
    let rules = shipped_rules(&EVERY_SET).ok()?;
    let call = seen.syscall.as_deref()?;
    let mut of_call = rules.iter().filter(|rule| rule.syscall == call);
    let rule = of_call.next()?;
    let (kind, errno) = (rule.kind, rule.errno);
    if of_call.any(|other| other.kind != kind || other.errno != errno) {
        return None;
    }
    seen.kind = kind;
    // The record has the kind of answer and not its number.
    seen.errno = match errno {
        RefusalErrno::Eperm => Some("EPERM".to_owned()),
        RefusalErrno::Eafnosupport => Some("EAFNOSUPPORT".to_owned()),
        RefusalErrno::Enosys => return None,
    };
    (kind != DenialKind::FsMetadata).then_some(seen)
}

/// The process behind a pidfd, as this process's `/proc` numbers it.
fn pid_of(pidfd: &OwnedFd) -> Option<u32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}
