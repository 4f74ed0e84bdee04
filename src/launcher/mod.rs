//! The launcher: one small single-threaded process per executor that does exactly what a plan says.

mod stage;

pub use stage::{SetupFailure, Stage};
