//! Denial facts: what was refused, by whom, why it mattered, and what would cure it.

mod fact;
mod observe;
pub mod trace;

pub use fact::{AccessWord, Denial, DenialClass, DenialKind, DeniedProcess, Grant, Witness};
pub use observe::{Aftermath, Observation, Target, TraceCoverage};
