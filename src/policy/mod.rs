//! What a command may do: modes, files, rules, and what follows from them on this host.

mod effective;
mod mode;
mod network;
mod rule;
mod syscall;

pub use effective::{Decision, EffectivePolicy, Limits};
pub use mode::{SandboxMode, UnknownMode};
pub use network::{NetworkMode, NetworkPolicy};
pub use rule::{Origin, PathAccess, PathRule};
pub use syscall::{ArgMatch, ArgOp, RefusalErrno, SyscallRule};
