//! Proof on this very host: every operation of the denial matrix, and the ways out that can safely be tried, in a real
//! sandbox under each mode, against throw-away targets.
//!
//! Each cell has a control: the same operation without stockade. A refusal says most where its control lands. The host
//! is looked at from outside wherever it can tell; what only the command itself can see (that a call reaches the kernel,
//! that a device opens) is its own word. No cell can do harm: files, processes, sockets and queues are made for it, and
//! system calls that would administer the host are made with arguments that cannot succeed.

#![forbid(unsafe_code)]

mod cell;
mod facts;
mod judge;
mod options;
mod probe;
mod render;
mod report;
mod run;
mod scene;
mod table;
mod verifier;

pub use cell::{Group, Outcome};
pub use judge::Status;
pub use options::{Options, PolicyMaker, Progress, VerifyError};
pub use probe::probe;
pub use render::{html, text};
pub use report::{CellReport, CellResult, Counts, Evidence, ModeReport, NamedGap, PolicyReport, Report, meaning};
pub use verifier::verify;
