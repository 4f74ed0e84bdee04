//! The launcher: one small single-threaded process per executor that does exactly what a plan says.
//!
//! [`enter`] turns the calling process into a launcher when it was started as one; its `client` is the host's side.

mod channel;
mod client;
mod command;
mod connection;
mod dev;
mod domain;
mod early;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod idle;
mod init;
mod locate;
mod lookups;
mod mount_point;
mod mounts;
mod network;
mod probe;
mod protocol;
mod ready;
mod reap;
mod server;
mod stage;
mod step;
mod warm;
mod wire;

pub(crate) use channel::RunChannel;
pub(crate) use client::LauncherClient;
pub use early::start_early;
#[cfg(any(test, fuzzing))]
pub use fuzzing::launcher as fuzz;
pub use locate::{LauncherError, LauncherPath};
pub use probe::Probe;
pub(crate) use protocol::{Call, Control, Event, Exit, Terminal};
pub use server::enter;
pub use stage::{SetupFailure, Stage};
pub(crate) use wire::WireError;
