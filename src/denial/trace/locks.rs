//! The locks and channels of [`line`](super::line) by one name, so that `tests/interleavings.rs` can put others in their
//! place.
#![forbid(unsafe_code)]

pub(super) use std::sync::Mutex;
pub(super) use std::sync::mpsc::{Receiver, Sender, channel};
