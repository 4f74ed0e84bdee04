//! The audit witness: the kernel's own records of what Landlock and seccomp refused, where they may be read.
//!
//! Auditing is a setting of the whole host. It is only ever read here; turning it on is for whoever takes an
//! [`AuditSwitch`] because the user asked for it, and it is undone at the end.

mod guard;
mod log;
pub mod parser;
mod reader;
mod status;

pub use log::AuditLog;
pub use reader::{AuditReader, AuditRecord, AuditState};
pub use status::AuditSwitch;
