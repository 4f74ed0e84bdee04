//! Hosts that lack something, each built here and worked on: what the result names as a gap is exactly what is missing,
//! what it does not name is still kept, and where nothing can be kept nothing runs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

#[path = "fallback/hosts.rs"]
mod hosts;
#[path = "fallback/network.rs"]
mod network;
#[path = "fallback/odd.rs"]
mod odd;
#[path = "fallback/scene.rs"]
mod scene;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;
