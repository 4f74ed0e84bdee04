//! Denial facts: what was refused, by whom, why it mattered, and what would cure it.

mod alike;
pub mod audit;
mod blocking;
mod classify;
mod cure;
mod evidence;
mod fact;
mod hints;
mod host_errors;
mod host_view;
mod limits;
mod locate;
mod mechanism;
mod merge;
mod observe;
mod proxied;
mod refusal;
pub mod stderr;
pub mod trace;

pub use classify::{MAX_DENIALS, classify};
pub use evidence::{PolicyViews, RunEvidence};
pub use fact::{AccessWord, Denial, DenialClass, DenialKind, DeniedProcess, Grant, Witness};
pub use host_errors::{Cause, HostErrors, translations};
pub use host_view::{FileState, HostAccess, HostView, ProcessHostView};
pub use limits::limits_hit;
pub use mechanism::{FileBackend, NetBackend};
pub use observe::{Aftermath, Observation, Remedy, Target, TraceCoverage};
#[cfg(any(test, fuzzing))]
pub use trace::fuzz as fuzz_trace;

/// Reads the peers that a command line names.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_peers(command: &str) {
    stderr::command_peers(command);
}
