//! stockade runs the shell commands of AI agents on Linux, confined by a mode, and says what it refused.

pub mod approval;
pub mod denial;
pub mod executor;
pub mod launcher;
pub mod policy;
pub mod session;
pub mod tool;
