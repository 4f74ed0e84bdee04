//! stockade runs the shell commands of AI agents on Linux, confined by a mode, and says what it refused.

pub mod acp;
pub mod approval;
pub mod denial;
pub mod environment;
pub mod executor;
pub mod host;
pub mod journal;
mod kernel;
pub mod launcher;
pub mod local;
pub mod mcp;
pub mod network;
pub mod output;
pub mod plan;
pub mod policy;
pub mod sandboxed;
pub mod session;
pub mod tool;
