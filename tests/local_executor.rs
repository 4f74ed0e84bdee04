//! The unconfined executor and the run loop it shares, seen from outside: disk, process table, results.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[path = "local_executor/background.rs"]
mod background;
#[path = "local_executor/ending.rs"]
mod ending;
#[path = "local_executor/environment.rs"]
mod environment;
#[path = "local_executor/foreground.rs"]
mod foreground;
#[path = "local_executor/helper.rs"]
mod helper;
#[path = "local_executor/output.rs"]
mod output;
