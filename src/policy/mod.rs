//! What a command may do: modes, files, rules, and what follows from them on this host.

mod appeared;
mod canon;
mod effective;
mod error;
mod explain;
mod explain_network;
mod file;
mod git;
mod git_config;
mod hold;
mod layers;
mod lines;
pub(crate) mod look;
mod mode;
mod network;
pub(crate) mod path_text;
mod pattern;
mod protect;
mod refuse;
mod request;
mod resolve;
mod rule;
mod scan;
mod shipped;
mod size;
mod syscall;
mod variable;

pub use effective::{Decision, EffectivePolicy, Limits};
pub use error::{Origination, Place, PolicyError};
pub use explain::{ExplainedPath, ExplainedRule, explain_path, explain_rules, render_origin};
pub use explain_network::{ExplainedHost, ExplainedNetwork, explain_network};
pub use file::{MAX_FILE_BYTES, PolicyFile};
#[cfg(any(test, fuzzing))]
pub(crate) use git_config::fuzz as fuzz_git_config;
pub use mode::{SandboxMode, UnknownMode};
pub use network::{NetworkMode, NetworkPolicy};
pub use protect::{OnAppear, ScanBounds, Watched};
pub use request::{CliRule, HostPaths, PolicyRequest};
pub use rule::{Origin, PathAccess, PathRule};
pub use shipped::{named, names};
pub use syscall::{ArgMatch, ArgOp, RefusalErrno, SyscallRule};
