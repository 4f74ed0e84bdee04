//! Every day's work in workspace-write with the network off: as root, as root in somebody else's workspace, as a user, as
//! a user with supplementary groups. After each command the disk is looked at, and the result must tell of no refusal.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "support/kernel.rs"]
mod kernel;
#[path = "everyday/worker.rs"]
mod worker;

#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

#[path = "everyday/build.rs"]
mod build;
#[path = "everyday/files.rs"]
mod files;
#[path = "everyday/git.rs"]
mod git;
#[path = "everyday/languages.rs"]
mod languages;
#[path = "everyday/tools.rs"]
mod tools;
