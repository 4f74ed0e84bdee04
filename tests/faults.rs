//! Faults made to order: SIGKILL at random moments, full disks, no descriptors, no memory, no processes, storms of signals,
//! slow disks, another clock. Whatever happens, nothing survives, nothing is half done, and the caller gets a typed error
//! that is true: a command that is said not to have run has not.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/traces.rs"]
mod traces;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

#[path = "faults/disks.rs"]
mod disks;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/pids.rs"]
mod pids;
#[path = "faults/shortage.rs"]
mod shortage;
#[path = "faults/storms.rs"]
mod storms;

use stockade::executor::ExecError;
use stockade::plan::BackendChoice;

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Namespaces, BackendChoice::Landlock];

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

/// Random enough to spread moments.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0) % below
}

/// What an outcome says of whether the command ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Ran,
    DidNot,
    /// The sandbox was lost under it.
    Unknown,
}

impl Claim {
    /// Every error that a fault may bring is one of these.
    fn of<T>(title: &str, outcome: &Result<T, ExecError>) -> Self {
        match outcome {
            Ok(_) => Self::Ran,
            Err(ExecError::SandboxLost { .. }) => Self::Unknown,
            Err(ExecError::SandboxUnavailable { .. } | ExecError::Setup(_) | ExecError::Io { .. }) => Self::DidNot,
            Err(error) => panic!("{title}: {error:?}"),
        }
    }
}
