//! Waiting in a sandbox that was built ahead of time, for what it is to run.
//!
//! Nobody keeps count of such sandboxes: each ends by itself when nothing has come for a while or memory grows short.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use procfs::{Current, Meminfo};
use serde::de::DeserializeOwned;

use super::wire::{self, Message};

/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often memory is looked at meanwhile, milliseconds.
const INTERVAL_MS: u16 = 5_000;

/// Less of the machine's memory than this part is short.
const SHORT: u64 = 20;

/// The order, with its descriptors; `None` when the host is gone or says nothing that can be understood, and when the
/// time is over. In that last case the socket is closed for writing first, so that an order sent at that very moment is
/// either taken here or refused to its sender.
pub(super) fn wait<T: Message + DeserializeOwned>(socket: &OwnedFd) -> Option<(T, Vec<OwnedFd>)> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut readable = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut readable, PollTimeout::from(INTERVAL_MS)) {
            Ok(0) if Instant::now() < end && !memory_is_short() => {}
            Ok(0) => {
                shutdown(socket.as_raw_fd(), Shutdown::Read).ok()?;
                return wire::receive(socket).ok();
            }
            Ok(_) => return wire::receive(socket).ok(),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// False where the kernel does not say.
fn memory_is_short() -> bool {
    Meminfo::current().is_ok_and(|memory| memory.mem_available.is_some_and(|left| left < memory.mem_total / SHORT))
}
