//! A launcher that is started before anything else, for a program that runs one command and ends.
//!
//! Executing a launcher costs as much as executing the program itself did. A program that has only just started can fork
//! one instead, and while it reads its arguments and its policy, the fork already builds the sandbox.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use caps::{CapSet, Capability};
use nix::unistd::{Pid, getegid, geteuid};

use super::server::fork_launcher;
use crate::plan::{IdMap, Namespaces, Shape};

static EARLY: Mutex<Option<(OwnedFd, Pid)>> = Mutex::new(None);

/// Forks a launcher for the one command that this program is about to run. To be called first thing in `main`, while
/// there is one thread; a failure is not reported, because the executor starts another launcher where there is none.
pub fn start_early() {
    if let Ok(started) = fork_launcher(likely_shape) {
        *EARLY.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }
}

/// The launcher that was started early, once.
pub(super) fn take() -> Option<(OwnedFd, Pid)> {
    EARLY.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What most commands want: every namespace, by whichever route this process has.
fn likely_shape() -> Option<Shape> {
    let privileged = caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).ok()?;
    let user = (!privileged).then(|| IdMap { uid: geteuid().as_raw(), gid: getegid().as_raw() });
    Some(Shape { namespaces: Namespaces { user, network: true }, fresh_proc: true, private_dev: true })
}
