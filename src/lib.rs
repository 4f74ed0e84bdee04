//! stockade runs the shell commands of AI agents on Linux, confined by a mode, and says what it refused.

pub mod denial;
pub mod executor;
pub mod launcher;
pub mod network;
pub mod policy;
