//! The launcher: one small single-threaded process per executor that does exactly what a plan says.
//!
//! [`enter`] turns the calling process into a launcher when it was started as one; its `client` is the host's side.

mod client;
mod command;
mod dev;
mod domain;
mod early;
mod init;
mod lookups;
mod mount_point;
mod mounts;
mod probe;
mod protocol;
mod ready;
mod reap;
mod server;
mod stage;
mod step;
mod wire;

pub(crate) use client::{LauncherClient, RunChannel};
pub use client::{LauncherError, LauncherPath};
pub use early::start_early;
pub use probe::Probe;
pub(crate) use protocol::{Call, Control, Event, Exit, Terminal};
pub use server::enter;
pub use stage::{SetupFailure, Stage};
pub(crate) use wire::WireError;
