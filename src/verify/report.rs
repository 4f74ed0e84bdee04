//! The report: what was tried, what was seen, what it comes to.

#![forbid(unsafe_code)]

use serde::Serialize;

use super::cell::{Group, Outcome};
use super::judge::Status;
use crate::doctor;
use crate::executor::{Enforcement, Gap};
use crate::policy::{ExplainedRule, Limits, NetworkMode, SandboxMode};

/// Everything that was found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of the form of this report.
    pub schema: u32,
    /// Version of stockade.
    pub version: &'static str,
    /// When it was begun, in UTC.
    pub began: String,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// Every promise is kept, or a named gap covers it, and every mode asked for could be tried.
    pub kept: bool,
    /// The host, as `doctor` sees it.
    pub host: doctor::Report,
    /// The modes tried.
    pub modes: Vec<ModeReport>,
    /// Every cell, in the order of the table.
    pub cells: Vec<CellReport>,
}

/// One mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeReport {
    /// The mode.
    pub mode: SandboxMode,
    /// `namespaces`, `landlock` or `none`.
    pub backend: &'static str,
    /// What was enforced; absent when no command could run.
    pub enforcement: Option<Enforcement>,
    /// Promises that this host does not let be kept.
    pub gaps: Vec<NamedGap>,
    /// Why no command could run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// How many cells came to what.
    pub counts: Counts,
    /// The policy that was in force.
    pub policy: PolicyReport,
}

/// A gap, in plain words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedGap {
    /// Its name in results.
    pub name: Gap,
    /// What it means.
    pub meaning: &'static str,
}

/// How many cells came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each is described by its status")]
pub struct Counts {
    pub kept: usize,
    pub gap: usize,
    pub broken: usize,
    pub not_promised: usize,
    pub not_here: usize,
}

/// The policy in force, its paths shortened: `${WORKSPACE}` and `~` are throw-away directories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReport {
    /// Every rule about paths.
    pub rules: Vec<ExplainedRule>,
    /// The network.
    pub network: NetworkMode,
    /// Hosts let through.
    pub hosts: Vec<String>,
    /// Limits.
    pub limits: Limits,
}

/// One cell under every mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CellReport {
    /// A name that stays.
    pub id: String,
    /// What it belongs to.
    pub group: Group,
    /// What was tried.
    pub operation: &'static str,
    /// Where; empty when the operation says it.
    pub place: &'static str,
    /// The same without stockade.
    pub control: Evidence,
    /// Under each mode, in the order of [`Report::modes`].
    pub results: Vec<CellResult>,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What became of it.
    pub outcome: Outcome,
    /// What the command saw.
    pub inside: String,
    /// What the host showed afterwards; empty where only the command can tell.
    pub host: &'static str,
}

/// One cell under one mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CellResult {
    /// The mode.
    pub mode: SandboxMode,
    /// What the mode promises.
    pub expected: Outcome,
    /// What it comes to.
    pub status: Status,
    /// What was seen.
    pub evidence: Evidence,
    /// The gap that covers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Denials of the run's result that are about it: the kind, and who saw it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<String>,
    /// The rule of the policy that lets through what the mode does not promise to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl CellReport {
    /// The refusal is worth most where the same operation lands without stockade.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.control.outcome == Outcome::Lands
    }
}

impl Counts {
    pub(super) const fn add(&mut self, status: Status) {
        let count = match status {
            Status::Kept => &mut self.kept,
            Status::Gap => &mut self.gap,
            Status::Broken => &mut self.broken,
            Status::NotPromised => &mut self.not_promised,
            Status::NotHere => &mut self.not_here,
        };
        *count += 1;
    }
}

/// A gap in plain words.
#[must_use]
pub const fn meaning(gap: Gap) -> &'static str {
    match gap {
        Gap::Metadata => {
            "A command can change the mode, owner, times and attributes of any file that the user owns, though not its content."
        }
        Gap::ProtectedPaths => {
            "A command can change git hooks and the settings of editors and agents in the workspace, which other programs obey later."
        }
        Gap::DenyRead => {
            "A command can read the keys, tokens and other secrets that the policy masks, and as root what the kernel shows of the whole host."
        }
        Gap::NetworkUdp => "A command can send datagrams.",
        Gap::NetworkIsolation => {
            "A command has no network of its own: it cannot serve and connect to itself, or it can reach servers on this machine."
        }
        Gap::UnixSockets => "A command can connect to Unix sockets of services on this machine.",
        Gap::ProcessIsolation => {
            "A command can see other processes and their arguments, or leave one running when it ends."
        }
        Gap::Truncate => "A command can empty files that it may not write.",
        Gap::Ioctl => "Requests to devices that a command was handed are not filtered.",
        Gap::Limits => "A limit that the policy sets (processes, memory) is not enforced.",
    }
}
