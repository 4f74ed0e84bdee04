//! What `classify` is given: the run as it ended, and the three authorities it asks.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{FileBackend, HostView, NetBackend, Observation, TraceCoverage};
use crate::policy::{EffectivePolicy, SandboxMode};

/// One finished run.
#[derive(Debug, Clone)]
pub struct RunEvidence<'a> {
    /// What the witnesses saw; text is read by `classify` itself.
    pub observations: Vec<Observation>,
    /// How much the trace covered.
    pub coverage: TraceCoverage,
    /// Observations a witness had to drop, to be counted with those left out here.
    pub lost: u64,
    /// The kept tail of standard error.
    pub stderr: &'a [u8],
    /// The kept tail of standard output: a message lands here when the command merges the streams.
    pub stdout: &'a [u8],
    /// Exit status; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Signal number that ended it.
    pub signal: Option<i32>,
    /// The timeout ended it.
    pub timed_out: bool,
    /// The command as a shell would be given it.
    pub command: &'a str,
    /// Where it started, absolute.
    pub workdir: &'a Path,
    /// The command's `HOME`, for `cd ~`.
    pub home: Option<&'a Path>,
}

/// The authorities.
#[derive(Clone, Copy)]
pub struct PolicyViews<'a> {
    /// The policy the run was under.
    pub effective: &'a EffectivePolicy,
    /// The policy of a wider mode with the same workspace; `None` when that mode cannot be had.
    pub wider: &'a dyn Fn(SandboxMode) -> Option<EffectivePolicy>,
    /// The host's own permissions.
    pub host: &'a dyn HostView,
    /// What kept the files.
    pub files: FileBackend,
    /// What kept the network.
    pub network: NetBackend,
}
