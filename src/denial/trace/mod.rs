//! The trace witness: a second seccomp filter sends calls with write intent to a supervisor, which notes the refused
//! ones.
//!
//! It never grants and never decides: an allowed call is answered "continue", and the other layers enforce. The
//! kernel reads the arguments again after that answer, so a process whose threads change them meanwhile can mislead
//! the record, never the enforcement. The one thing answered here is a call that the policy refuses by rule, with
//! that rule's errno. When the supervisor is gone the kernel answers `ENOSYS` to every traced call.
//!
//! Not seen: reading (a masked file reads as missing; trapping every open for reading costs more than it tells),
//! calls on a descriptor that is already open for writing, and metadata by descriptor unless
//! [`filter::FilterOptions`] asks for it.

pub mod address;
mod arguments;
mod cache;
mod calls;
pub mod dns;
mod examine;
mod examine_peer;
mod files;
pub mod filter;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod line;
mod locks;
mod peers;
mod privilege;
mod process;
mod record;
mod resolve;
mod run;
mod supervisor;
mod walk;
mod watch;

#[cfg(any(test, fuzzing))]
pub use fuzzing::trace as fuzz;

pub use super::{FileBackend, NetBackend};
pub use record::{MAX_OBSERVATIONS, TraceRecord};
pub use supervisor::{Supervisor, TraceHandle, receive_listener};
pub use watch::{SignalBackend, Watch};
