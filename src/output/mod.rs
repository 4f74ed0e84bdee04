//! Output of a command: a bounded tail of each stream in memory, the whole of it on disk once the tail overflows.
//!
//! Memory stays flat whatever the command writes. Bytes reach the spill file exactly as they were written; only what is
//! shown is decoded, and no read ever cuts a character in two.

mod capture;
mod decode;
mod pump;
mod spill;
mod sweep;
mod tail;
mod terminal;

pub(crate) use capture::Capture;
pub use capture::StreamCapture;
pub(crate) use pump::{pump, readable_end};
pub(crate) use spill::SpillStore;
pub use spill::{SPILL_CAP, SPILL_PREFIX};
pub(crate) use sweep::{OwnedDir, sweep_in_background};
pub use terminal::TerminalFilter;

/// Bytes of each stream that stay in memory unless configured otherwise.
pub const DEFAULT_TAIL_BYTES: usize = 64_000;
