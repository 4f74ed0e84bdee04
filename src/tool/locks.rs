//! The locks of [`table`](super::table) by one name, so that `tests/interleavings.rs` can put others in their place.

#![forbid(unsafe_code)]

#[cfg(test)]
pub(super) use std::sync::atomic::AtomicBool;
pub(super) use std::sync::atomic::AtomicU64;
pub(super) use std::sync::{Mutex, MutexGuard};
