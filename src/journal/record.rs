//! What one line of the journal holds, and how it is chained.

use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::mask::Masker;
use crate::denial::Denial;
use crate::executor::{CommandLine, Enforcement, ExecSpec, Gap, RunResult};
use crate::policy::SandboxMode;

/// `prev` of the first record of all.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number of the record, from 1, without gaps, across rotated files.
    pub seq: u64,
    /// When it was written, UTC.
    pub time: Timestamp,
    /// The session it belongs to, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
    /// Hash of the record before.
    pub prev: String,
    /// SHA-256, hexadecimal, of this line without this field.
    #[serde(default)]
    pub hash: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// A command is about to start. Written first, so that nothing runs unrecorded.
    Started(Run),
    /// It has ended; or, with no `started`, it began and ended.
    Ended(Box<Ended>),
    /// Somebody is about to be asked whether a command may go further than its mode allows. Written first, so that a
    /// question whose answer nobody lived to write down is on record.
    Asked(Box<Question>),
    /// What was answered.
    Approval(Box<Approval>),
    /// The journal itself was found damaged and was made fit for use again.
    Repaired(Repair),
}

/// What was run: as text for `bash -c`, or as a list for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// The text given to `bash -c`, secrets masked.
    Shell(String),
    /// Program and arguments, secrets masked.
    Program(Vec<String>),
}

/// One command and the rules it ran under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Secrets masked.
    pub command: Command,
    /// Where it started.
    pub workdir: PathBuf,
    /// The mode; absent where nothing confines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<SandboxMode>,
    /// [`EffectivePolicy::digest`](crate::policy::EffectivePolicy::digest).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_digest: Option<String>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// `seq` of the [`Entry::Started`] record.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<u64>,
    /// What ran.
    #[serde(flatten)]
    pub run: Run,
    /// Exit code; absent when a signal ended it or it did not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// Name of the ending signal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<String>,
    /// The time limit ended it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub timed_out: bool,
    /// It was cancelled.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub aborted: bool,
    /// Wall time, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<f64>,
    /// Why it could not be run or followed to its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// What was enforced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub enforcement: Option<Enforcement>,
    /// Promises that could not be kept.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gaps: Vec<Gap>,
    /// At least one refusal was why it failed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub denied: bool,
    /// What was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denials: Vec<Denial>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// What would run, secrets masked.
    pub command: Command,
    /// Under which mode otherwise.
    pub mode: SandboxMode,
    /// What was asked for, as the approver was asked.
    pub asks: serde_json::Value,
    /// Why, in the words of who asked, secrets masked.
    pub justification: String,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// `seq` of the [`Entry::Asked`] record.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<u64>,
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// What was answered.
    pub answer: Answer,
}

/// The answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case")]
pub enum Answer {
    /// Yes, for one call.
    AllowedOnce,
    /// No.
    Rejected {
        /// Why, when a reason was given.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// The question was withdrawn.
    Cancelled,
    /// Nobody could be asked.
    Unavailable {
        /// Why not.
        reason: String,
    },
}

/// What was found and done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// In words.
    pub found: String,
    /// Bytes of an unfinished last line that were cut off: a crash while writing.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub torn_bytes: u64,
    /// Finished records are missing: no crash does this.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub lost: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands skip_serializing_if a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Command {
    /// The command with its secrets masked.
    #[must_use]
    pub fn masked(command: &CommandLine, masker: &Masker) -> Self {
        match command {
            CommandLine::Shell(text) => Self::Shell(masker.text(text)),
            CommandLine::Program(argv) => Self::Program(masker.arguments(argv.iter().map(lossy))),
        }
    }
}

fn lossy(text: &OsString) -> String {
    text.to_string_lossy().into_owned()
}

impl Run {
    /// What is known before a command starts.
    #[must_use]
    pub fn of(spec: &ExecSpec, mode: Option<SandboxMode>, policy_digest: Option<String>, masker: &Masker) -> Self {
        Self { command: Command::masked(&spec.command, masker), workdir: spec.workdir.clone(), mode, policy_digest }
    }

    /// The record of how it ended.
    #[must_use]
    pub fn ended(self, started: Option<u64>, result: &RunResult) -> Entry {
        let sandbox = result.sandbox.as_ref();
        Entry::Ended(Box::new(Ended {
            started,
            run: self,
            exit_code: result.exit_code,
            signal: result.signal.clone(),
            timed_out: result.timed_out,
            aborted: result.aborted,
            duration_ms: Some(result.duration_ms),
            failure: None,
            enforcement: sandbox.map(|report| report.enforcement),
            gaps: sandbox.map(|report| report.gaps.clone()).unwrap_or_default(),
            denied: sandbox.is_some_and(|report| report.denied),
            denials: sandbox.map(|report| report.denials.clone()).unwrap_or_default(),
        }))
    }

    /// The record of a command that could not be run or followed.
    #[must_use]
    pub fn failed(self, started: Option<u64>, failure: impl Into<String>) -> Entry {
        Entry::Ended(Box::new(Ended {
            started,
            run: self,
            exit_code: None,
            signal: None,
            timed_out: false,
            aborted: false,
            duration_ms: None,
            failure: Some(failure.into()),
            enforcement: None,
            gaps: Vec::new(),
            denied: false,
            denials: Vec::new(),
        }))
    }
}

/// How the last field of every line begins.
const HASH_FIELD: &[u8] = b",\"hash\":\"";
/// Its length to the end of the line: the field, 64 digits, a quote and a brace.
const HASH_TAIL: usize = HASH_FIELD.len() + 64 + 2;

/// The line of a record, its hash filled in; without a newline.
pub(super) fn seal(record: &mut Record) -> Result<Vec<u8>, serde_json::Error> {
    record.hash = GENESIS.to_owned();
    let mut line = serde_json::to_vec(record)?;
    let body = line.len().saturating_sub(HASH_TAIL);
    record.hash = digest(&line[..body]);
    line.truncate(body + HASH_FIELD.len());
    line.extend_from_slice(record.hash.as_bytes());
    line.extend_from_slice(b"\"}");
    Ok(line)
}

/// The hash that a line must carry, by its bytes; `None` when it does not even end like a record.
pub(super) fn hash_of(line: &[u8]) -> Option<String> {
    let body = line.len().checked_sub(HASH_TAIL)?;
    line[body..].starts_with(HASH_FIELD).then(|| digest(&line[..body]))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            seq: 7,
            time: "2026-03-01T10:00:00.5Z".parse().unwrap(),
            session: Some("s".into()),
            entry: Entry::Repaired(Repair { found: "x".into(), torn_bytes: 3, lost: false }),
            prev: GENESIS.into(),
            hash: String::new(),
        }
    }

    #[test]
    fn a_sealed_line_carries_its_own_hash_and_reads_back() {
        let mut record = record();
        let line = seal(&mut record).unwrap();
        assert_eq!(hash_of(&line).as_deref(), Some(record.hash.as_str()));
        assert_eq!(serde_json::from_slice::<Record>(&line).unwrap(), record);
    }

    #[test]
    fn every_changed_byte_changes_the_hash_or_breaks_the_line() {
        let mut record = record();
        let line = seal(&mut record).unwrap();
        for at in 0..line.len() {
            let mut changed = line.clone();
            changed[at] ^= 1;
            let read = serde_json::from_slice::<Record>(&changed);
            let intact = read.is_ok_and(|read| Some(read.hash) == hash_of(&changed));
            assert!(!intact, "byte {at}");
        }
    }
}
