//! The launcher: one small single-threaded process per executor that does exactly what a plan says.
//!
//! [`enter`] turns the calling process into a launcher when it was started as one; [`client`] is the host's side.

mod client;
mod command;
mod dev;
mod domain;
mod init;
mod mounts;
mod protocol;
mod reap;
mod server;
mod stage;
mod step;
mod wire;

pub(crate) use client::{LauncherClient, RunChannel};
pub use client::{LauncherError, LauncherPath};
pub(crate) use protocol::{Call, Control, Event, Exit};
pub use server::enter;
pub use stage::{SetupFailure, Stage};
pub(crate) use wire::WireError;
