//! Denial facts: what was refused, by whom, why it mattered, and what would cure it.

mod fact;

pub use fact::{AccessWord, Denial, DenialClass, DenialKind, DeniedProcess, Grant, Witness};
