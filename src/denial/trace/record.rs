//! What one run's refusals come to: bounded, one entry for each refused access, with what the process did next.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::denial::{
    AccessWord, Aftermath, DenialKind, DeniedProcess, Observation, Remedy, Target, TraceCoverage, Witness,
};
use crate::kernel::notify;

/// Observations kept of one run.
pub const MAX_OBSERVATIONS: usize = 1000;
/// Processes whose end is waited for; each costs a descriptor.
const MAX_FOLLOWED: usize = 128;

/// What the trace witness says of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceRecord {
    /// The refusals, in the order in which they were tried.
    pub observations: Vec<Observation>,
    /// Refusals beyond [`MAX_OBSERVATIONS`] that were counted and not kept.
    pub omitted: u64,
    /// Refusals that repeated one that was kept: same process, kind and object.
    pub repeated: u64,
    /// Calls whose arguments could not be read while the call was waiting.
    pub unreadable: u64,
    /// Calls that were looked at.
    pub calls: u64,
    /// Whether silence about an access means that it was not refused.
    pub coverage: TraceCoverage,
}

/// A refusal on its way into the record.
pub(crate) struct Entry {
    pub(crate) kind: DenialKind,
    pub(crate) target: Target,
    pub(crate) syscall: String,
    pub(crate) errno: String,
    pub(crate) process: Option<DeniedProcess>,
    pub(crate) at: Duration,
    pub(crate) remedy: Remedy,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    tid: u32,
    kind: DenialKind,
    target: Target,
    syscall: Option<String>,
}

/// A process that was refused something and has not been seen to go on.
#[derive(Debug)]
struct Followed {
    pidfd: Option<OwnedFd>,
    entries: Vec<usize>,
    target: Target,
}

/// The record while the run lasts.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    record: TraceRecord,
    seen: HashSet<Key>,
    followed: HashMap<u32, Followed>,
    ended: Vec<Followed>,
    pidfds: usize,
}

impl Recorder {
    pub(crate) const fn count_call(&mut self) {
        self.record.calls += 1;
    }

    pub(crate) const fn count_unreadable(&mut self) {
        self.record.unreadable += 1;
    }

    /// True when the entry would add nothing that has to be looked up first.
    pub(crate) fn repeats(&mut self, tid: u32, kind: DenialKind, target: &Target, syscall: &str) -> bool {
        // A call that is about no object is told apart by its name.
        let syscall = matches!(target, Target::Syscall | Target::None).then(|| syscall.to_owned());
        let key = Key { tid, kind, target: target.clone(), syscall };
        if self.seen.contains(&key) {
            self.record.repeated += 1;
            return true;
        }
        if self.record.observations.len() >= MAX_OBSERVATIONS {
            self.record.omitted += 1;
            return true;
        }
        self.seen.insert(key);
        false
    }

    /// Keeps a refusal of thread `tid` of process `tgid`.
    pub(crate) fn keep(&mut self, tid: u32, tgid: Option<u32>, entry: Entry) {
        self.went_on(tid, Some(&entry.target));
        let index = self.record.observations.len();
        let followed = self.followed.entry(tid).or_insert_with(|| {
            let room = self.pidfds < MAX_FOLLOWED;
            let pidfd = tgid.filter(|_| room).and_then(|tgid| notify::pidfd_open(tgid).ok());
            self.pidfds += usize::from(pidfd.is_some());
            Followed { pidfd, entries: Vec::new(), target: entry.target.clone() }
        });
        followed.entries.push(index);
        self.record.observations.push(Observation {
            kind: entry.kind,
            target: entry.target,
            access: vec![AccessWord::Write],
            syscall: Some(entry.syscall),
            errno: Some(entry.errno),
            process: entry.process,
            witness: Witness::Trace,
            at: Some(entry.at),
            seq: u64::try_from(index).unwrap_or(u64::MAX),
            aftermath: Aftermath::Unknown,
            remedy: entry.remedy,
        });
    }

    /// Notes another traced call of a thread. One more refusal about the same object is no going on.
    pub(crate) fn went_on(&mut self, tid: u32, refused: Option<&Target>) {
        if self.followed.is_empty() {
            return;
        }
        let Some(followed) = self.followed.get(&tid) else { return };
        // A number that came round again belongs to someone else.
        let ended = followed.pidfd.as_ref().is_some_and(|fd| notify::pidfd_exit(fd.as_fd()).is_some());
        if !ended && refused == Some(&followed.target) {
            return;
        }
        let Some(followed) = self.followed.remove(&tid) else { return };
        if ended {
            self.ended.push(followed);
            return;
        }
        self.pidfds -= usize::from(followed.pidfd.is_some());
        for index in followed.entries {
            self.record.observations[index].aftermath = Aftermath::Continued;
        }
    }

    /// Closes the record: whoever has ended by now gets its status.
    pub(crate) fn finish(mut self, broken: bool) -> TraceRecord {
        for followed in self.ended.into_iter().chain(self.followed.into_values()) {
            let code = followed.pidfd.as_ref().and_then(|fd| notify::pidfd_exit(fd.as_fd())).map(shell_code);
            let Some(code) = code else { continue };
            for index in followed.entries {
                self.record.observations[index].aftermath = Aftermath::ProcessExited { code };
            }
        }
        let lost = broken || self.record.omitted > 0 || self.record.unreadable > 0;
        self.record.coverage = if lost { TraceCoverage::Partial } else { TraceCoverage::Complete };
        self.record
    }
}

/// A wait status as a shell counts it.
const fn shell_code(status: i32) -> i32 {
    let signal = status & 0x7F;
    if signal == 0 { (status >> 8) & 0xFF } else { 128 + signal }
}
