//! Messages of real programs against their right answers, and hostile text against the reader.
//!
//! The cases are in `tests/data/denials/*.toml`: what a command printed under a refusal (or an ordinary failure that looks
//! like one) and the denials that are true of it. The host is made up, so the answers do not depend on this machine.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod corpus;
mod hostile;
mod witnesses;
mod world;
