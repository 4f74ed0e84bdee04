//! A sandbox begun before anything else, for a program that runs one command and ends.
//!
//! Executing a launcher costs as much as executing the program itself did. A program that has only just started can clone
//! the init of its one sandbox instead, and while it reads its arguments and its policy, that init already builds.

use std::sync::{Mutex, PoisonError};

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::prctl;
use nix::unistd::{Pid, getegid, geteuid};

use super::init::{self, Inherited};
use super::network::Network;
use super::ready::Ready;
use super::server::{StartError, inherit, namespace_flags, settle};
use crate::kernel::{self, Cloned};
use crate::plan::{IdMap, Namespaces, Shape};

static EARLY: Mutex<Option<Ready>> = Mutex::new(None);

/// Begins the sandbox of the one command that this program is about to run. To be called first thing in `main`, while
/// there is one thread; a failure is not reported, because the executor starts a launcher where there is no sandbox.
pub fn start_early() {
    if let Some(begun) = likely_shape().and_then(|shape| begin(shape).ok().flatten()) {
        *EARLY.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }
}

/// The sandbox that was begun early, once.
pub(super) fn take() -> Option<Ready> {
    EARLY.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What most commands want: every namespace, by whichever route this process has.
fn likely_shape() -> Option<Shape> {
    let privileged = caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).ok()?;
    let user = (!privileged).then(|| IdMap { uid: geteuid().as_raw(), gid: getegid().as_raw() });
    Some(Shape {
        namespaces: Namespaces { user, network: true, session_network: None },
        fresh_proc: true,
        private_dev: true,
    })
}

/// The init holds what the program held at that moment: no heap of note, and its arguments and environment, which it
/// overwrites.
fn begin(shape: Shape) -> Result<Option<Ready>, Errno> {
    let (ours, theirs) = Ready::inbox()?;
    match kernel::clone_process(namespace_flags(Some(shape)), true)? {
        Cloned::Parent { pid, pidfd } => {
            if let Err(errno) = leave_this_processor(pid) {
                tracing::debug!(%errno, "the early sandbox waits for this processor");
            }
            Ok(pidfd.map(|pidfd| Ready::new(shape, pid, pidfd, ours)))
        }
        Cloned::Child => {
            drop(ours);
            match leave_caller(&theirs) {
                Ok(inherited) => init::wait_and_run(shape, theirs, inherited, Network::AsPlanned),
                Err(_) => kernel::exit_now(1),
            }
        }
    }
}

/// Has a new process run beside this one. Both have a millisecond of work, and a kernel that cannot tell how near its
/// processors are to each other (a virtual machine's, Linux 6.18) leaves a child where its parent is, to wait for it:
/// 1.7 ms on average, 0.1 this way. A child that is elsewhere already stays there.
fn leave_this_processor(child: Pid) -> Result<(), Errno> {
    let all = sched_getaffinity(Pid::from_raw(0))?;
    let mut others = all;
    others.unset(sched_getcpu()?)?;
    if (0..CpuSet::count()).any(|processor| others.is_set(processor) == Ok(true)) {
        sched_setaffinity(child, &others)?;
        sched_setaffinity(child, &all)?;
    }
    Ok(())
}

/// What an executed launcher has not got in the first place.
fn leave_caller(inbox: &std::os::fd::OwnedFd) -> Result<Inherited, StartError> {
    prctl::set_dumpable(false)?;
    kernel::wipe_arguments_and_environment()?;
    settle(inbox)?;
    Ok(inherit()?)
}
