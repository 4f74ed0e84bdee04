//! Sandboxes that wait for their call.
//!
//! Each was built for one plan while there was nothing else to do, is given to one call whose plan is the same, and is
//! never used again. It shows the world as it was when it was begun, so it is given away only while that world stands:
//! the mount table has not changed, and every path that the plan mounts or grants is still the very file that it was.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ready::MountTable;
use crate::plan::{Backend, SandboxPlan, Standing};

/// Sandboxes waiting at any one time, and for any one plan.
const MOST: usize = 4;
const MOST_ALIKE: usize = 2;

/// Those of one executor.
#[derive(Debug)]
pub(super) struct Pool {
    mounts: MountTable,
    waiting: VecDeque<Warm>,
}

#[derive(Debug)]
struct Warm {
    plan: SandboxPlan,
    world: Standing,
    run: u64,
    socket: OwnedFd,
}

impl Pool {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { mounts: MountTable::watch()?, waiting: VecDeque::new() })
    }

    /// Whether a plan's sandboxes are worth building ahead: one without namespaces is built as fast as it is ordered.
    pub(super) fn is_for(plan: &SandboxPlan) -> bool {
        plan.fault.is_none() && !plan.cgroup && plan.backend == Backend::Namespaces
    }

    /// Takes a sandbox that waits for a call of this plan, as its run's number and socket. It may have ended since, by its
    /// own clock: then it refuses the call.
    pub(super) fn take(&mut self, plan: &SandboxPlan, world: &Standing) -> Option<(u64, OwnedFd)> {
        if self.mounts_changed() {
            self.waiting.clear();
        }
        loop {
            let at = self.waiting.iter().position(|warm| warm.plan == *plan)?;
            let warm = self.waiting.remove(at)?;
            // What was built on another world is let go.
            if warm.world == *world {
                return Some((warm.run, warm.socket));
            }
        }
    }

    /// Whether there should be another of this plan.
    pub(super) fn wants(&self, plan: &SandboxPlan) -> bool {
        self.waiting.iter().filter(|warm| warm.plan == *plan).count() < MOST_ALIKE
    }

    /// Keeps one that is being built, in place of the oldest where there are too many.
    pub(super) fn keep(&mut self, plan: SandboxPlan, world: Standing, run: u64, socket: OwnedFd) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Warm { plan, world, run, socket });
    }

    /// True as well where that can no longer be told.
    fn mounts_changed(&self) -> bool {
        let mut table = [PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI)];
        poll(&mut table, PollTimeout::ZERO) != Ok(0)
    }
}

/// The numbers of three descriptors.
pub(super) fn numbers(stdio: [&OwnedFd; 3]) -> [i32; 3] {
    stdio.map(AsRawFd::as_raw_fd)
}
