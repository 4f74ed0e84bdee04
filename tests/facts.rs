//! Denial facts end to end: the executor that users have, against answers that were written down first.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "facts/answer.rs"]
mod answer;
#[path = "facts/commands.rs"]
mod commands;
#[path = "facts/cures.rs"]
mod cures;
#[path = "support/executor.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod executor;
#[path = "facts/lots.rs"]
mod lots;
#[path = "facts/matrix.rs"]
mod matrix;
#[path = "facts/run.rs"]
mod run;
#[path = "facts/scene.rs"]
mod scene;
#[path = "facts/score.rs"]
mod score;
#[path = "facts/table.rs"]
mod table;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;
