//! What untrusted bytes reach, as functions of bytes: each feeds one reader and checks what must hold of its answer.
//!
//! Compiled for `cargo fuzz` (`fuzz/`, with a build of its own) and for this crate's tests, which run every one of them
//! over the inputs in `tests/data/fuzz` and over mutations of these. Inputs that once failed stay there.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a failed check is to panic: that is how a fuzzer hears of it")]

mod journal;
mod mcp;
mod output;
mod policy;
mod proxy;
mod words;

pub use crate::denial::fuzz_trace as trace;
pub use crate::launcher::fuzz as launcher;
pub use journal::journal;
pub use mcp::mcp;
pub use output::output;
pub use policy::policy;
pub use proxy::proxy;
pub use words::{audit, stderr};

/// Takes whatever bytes there are.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 9] = [
    ("audit", audit),
    ("journal", journal),
    ("launcher", launcher),
    ("mcp", mcp),
    ("output", output),
    ("policy", policy),
    ("proxy", proxy),
    ("stderr", stderr),
    ("trace", trace),
];

#[cfg(test)]
mod tests;
