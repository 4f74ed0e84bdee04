//! From start to end and beyond: whatever dies, nothing is left, and nothing sticks to the host process.

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

#[path = "lifecycle/daemons.rs"]
mod daemons;
#[path = "lifecycle/ending.rs"]
mod ending;
#[path = "lifecycle/host_process.rs"]
mod host_process;
#[path = "lifecycle/killed.rs"]
mod killed;
#[path = "lifecycle/leaks.rs"]
mod leaks;
#[path = "lifecycle/sessions.rs"]
mod sessions;

use stockade::plan::BackendChoice;

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Namespaces, BackendChoice::Landlock];

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}
