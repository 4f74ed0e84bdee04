//! What one witness saw of one refusal: the common form in which trace, audit, proxy and text hand in their evidence.
//!
//! An observation is not yet a denial. Several may tell of the same access (the kernel's witness and the program's own
//! message); `classify` joins them and decides whether the refusal mattered.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use super::{AccessWord, DenialKind, DeniedProcess, Witness};

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A path, absolute and resolved as the process named it. An abstract Unix socket is written `@name`.
    Path(PathBuf),
    /// A network peer, local address or name.
    Net {
        /// Name or address, as the process gave it.
        host: String,
        /// Port; `None` for a name look-up.
        port: Option<u16>,
    },
    /// The system call itself; its name is in [`Observation::syscall`].
    Syscall,
    /// Nothing that can be named.
    None,
}

/// What the refused process did after the refusal, as far as the witness could follow it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Aftermath {
    /// The witness cannot tell.
    #[default]
    Unknown,
    /// It ended without further traced work. `code` as a shell counts it: the status, or 128+N for signal N.
    ProcessExited {
        /// Exit status.
        code: i32,
    },
    /// It went on with other work (a later traced call, or still running when the command ended).
    Continued,
}

/// What a witness knows of the cure that neither the policies nor the host can tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: they are asked.
    #[default]
    Ask,
    /// Exactly this network entry, as the proxy's rules reckon it.
    NetworkEntry(String),
    /// No single grant reaches it; a wider mode may.
    NoGrant,
    /// A rule about the call itself, which holds in every confining mode.
    Unconfined,
    /// The kernel itself asks for the privilege of an administrator.
    Privileged,
    /// Neither mode nor grant: the request was wrong in itself.
    Nothing,
}

/// One refusal as one witness saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// What was refused.
    pub kind: DenialKind,
    /// The object.
    pub target: Target,
    /// Direction of the access.
    pub access: Vec<AccessWord>,
    /// The system call, where known.
    pub syscall: Option<String>,
    /// Symbolic errno (`EROFS`), where known.
    pub errno: Option<String>,
    /// The refused process, where known.
    pub process: Option<DeniedProcess>,
    /// Who saw it.
    pub witness: Witness,
    /// Time since the command started, where known.
    pub at: Option<Duration>,
    /// Order among the observations of this witness; orders those without a time.
    pub seq: u64,
    /// What the process did next.
    pub aftermath: Aftermath,
    /// What it knows of the cure.
    pub remedy: Remedy,
}

/// How much of the run the trace witness covered: what it can say about an access it did not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TraceCoverage {
    /// No trace. Text that names a path which the policy refuses is then evidence enough.
    #[default]
    None,
    /// It ran, but lost records or started late: it proves what it reports and nothing about the rest.
    Partial,
    /// Every traced call from exec to exit was seen. A message about a write that was never tried is then only text.
    Complete,
}
