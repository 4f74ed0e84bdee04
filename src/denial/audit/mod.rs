//! The audit witness: the kernel's own records of what Landlock and seccomp refused, where they may be read.
//!
//! Auditing is a setting of the whole host. It is only ever read here; turning it on is for whoever asks for it by name.

pub mod parser;
mod reader;

pub use reader::{AuditReader, AuditRecord, AuditState, available};
