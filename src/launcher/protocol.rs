//! What is said between host, launcher and sandbox.
//!
//! Two sockets: the host's to the launcher, on which requests go out and nothing comes back, and one for each run,
//! between the host and the sandbox itself, on which events come back and signals go out. The launcher answers a request
//! it cannot carry out on the run's own socket, so that every fact about a run arrives in one place.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use super::SetupFailure;
use super::wire::Message;
use crate::plan::{SandboxPlan, Shape};

/// Most bytes of a request: more than the largest plan, and more arguments and environment than any kernel takes.
const MOST: usize = 256 << 20;

impl Message for Request {
    const MOST: usize = MOST;
}

impl Message for Order {
    const MOST: usize = MOST;
}

/// Arguments and environment may be as large as the kernel takes.
impl Message for Call {
    const MOST: usize = Order::MOST;
}

impl Message for Event {}
impl Message for Control {}

/// From the host to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Keep a plan under a number.
    Define {
        /// The number; never used twice.
        plan: u64,
        /// The plan.
        data: Box<SandboxPlan>,
    },
    /// Forget a plan.
    Forget {
        /// Its number.
        plan: u64,
    },
    /// From now on have the foundation of one sandbox built ahead of time; `None` for no longer.
    Prepare {
        /// Its shape.
        shape: Option<Shape>,
    },
    /// Run one command in one new sandbox. Descriptors: the run's socket, then standard input, output and error.
    Spawn {
        /// Number of the run; never used twice.
        run: u64,
        /// Number of a plan defined before.
        plan: u64,
        /// The per-call part.
        call: Call,
    },
    /// Build one sandbox up to the point where only the call is missing, which the host sends to it directly: a [`Call`]
    /// with standard input, output and error. Descriptor: the run's socket.
    Warm {
        /// Number of the run; never used twice.
        run: u64,
        /// Number of a plan defined before.
        plan: u64,
    },
    /// Kill the sandbox of a run, if it is still there.
    Kill {
        /// Number of the run.
        run: u64,
    },
}

/// To a sandbox whose foundation was built ahead of time. Descriptors as with [`Request::Spawn`] or [`Request::Warm`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The plan.
    pub(crate) plan: SandboxPlan,
    /// The per-call part; `None` when it is to be waited for.
    pub(crate) call: Option<Call>,
}

/// The per-call part of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Call {
    /// The program, looked up on the PATH of `environment` when it has no slash.
    pub(crate) program: CString,
    /// Arguments, the name that the program sees itself under first.
    pub(crate) arguments: Vec<CString>,
    /// `NAME=VALUE` entries.
    pub(crate) environment: Vec<CString>,
    /// Absolute directory to start in.
    pub(crate) workdir: CString,
    /// Give the command a pseudo-terminal and make it its controlling terminal.
    pub(crate) terminal: Option<Terminal>,
}

/// A pseudo-terminal to make.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terminal {
    /// Width, characters.
    pub(crate) columns: u16,
    /// Height, lines.
    pub(crate) rows: u16,
    /// Which of standard input, output and error it stands for; the others are the descriptors that came along.
    pub(crate) stands_for: [bool; 3],
}

/// From the sandbox to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A step failed; the command did not and will not run.
    Failed(SetupFailure),
    /// The program is executing.
    Started,
    /// The command's process is about to enter its Landlock domain, whose refusals are to be found in the audit log; a
    /// pidfd of it comes as a descriptor.
    Confining,
    /// The program is about to be executed: whatever is heard after this, it may have run. Only where there is no
    /// [`Self::Listener`], which says the same.
    Executing,
    /// The trace filter is installed, and the program executed next; its listener comes as a descriptor.
    Listener,
    /// The proxy's socket listens; it comes as a descriptor.
    ProxySocket,
    /// A name was looked up, which is refused: the question as it was asked (RFC 1035, header first).
    Lookup(Vec<u8>),
    /// The command has a pseudo-terminal; the side that a person sits at comes as a descriptor.
    Terminal,
    /// The command has ended and nothing of it is left.
    Exited(Exit),
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// Exit code, when it ended by itself.
    pub(crate) code: Option<i32>,
    /// Signal number, when one ended it.
    pub(crate) signal: Option<i32>,
    /// Processor time of everything in the sandbox, microseconds: user, system.
    pub(crate) cpu_micros: (u64, u64),
    /// Largest resident size of any one process, KiB.
    pub(crate) max_rss_kib: u64,
}

/// From the host to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Kill everything and report.
    KillAll,
    /// Where the command's process enters its control group, as a descriptor: the first word, when the plan has one.
    Cgroup,
}
