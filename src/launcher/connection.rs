//! Requests to one launcher, and what it has been told.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use super::LauncherError;
use super::protocol::{Call, Request};
use super::wire;
use crate::plan::{SandboxPlan, Shape};

/// Plans kept by the launcher at any one time.
const MOST_PLANS: usize = 64;

/// The socket to a launcher.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once closed.
    socket: Option<OwnedFd>,
    /// Numbers of the plans that the launcher knows, by the plan itself, and when each was last used.
    plans: HashMap<SandboxPlan, (u64, u64)>,
    next: u64,
    /// The launcher keeps sandboxes of this shape ready.
    prepared: Option<Shape>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket: Some(socket), plans: HashMap::new(), next: 0, prepared: None }
    }

    /// Upon which the launcher kills every sandbox and exits.
    pub(super) fn close(&mut self) {
        self.socket = None;
    }

    /// Asks for one run of `call`, or with `None` for a sandbox that waits for one, and returns the run's number.
    pub(super) fn spawn(&mut self, plan: &SandboxPlan, call: Option<Call>, fds: &[i32]) -> Result<u64, LauncherError> {
        let plan = self.define(plan)?;
        self.next += 1;
        let run = self.next;
        let request = match call {
            Some(call) => Request::Spawn { run, plan, call },
            None => Request::Warm { run, plan },
        };
        self.send(&request, fds)?;
        Ok(run)
    }

    pub(super) fn send(&self, request: &Request, fds: &[i32]) -> Result<(), LauncherError> {
        let socket = self.socket.as_ref().ok_or_else(|| LauncherError::Unreachable("it was closed".to_owned()))?;
        wire::send(socket, request, fds).map_err(|error| LauncherError::Unreachable(error.to_string()))
    }

    /// The next command is likely to want a sandbox like this one's, so the launcher builds the part that no policy
    /// changes while it has nothing else to do.
    pub(super) fn prepare(&mut self, shape: Option<Shape>) -> Result<(), LauncherError> {
        if shape.is_none() || self.prepared == shape {
            return Ok(());
        }
        self.prepared = shape;
        self.send(&Request::Prepare { shape }, &[])
    }

    /// The launcher's number for a plan, telling it the plan when it is new.
    fn define(&mut self, plan: &SandboxPlan) -> Result<u64, LauncherError> {
        self.next += 1;
        let now = self.next;
        if let Some((number, used)) = self.plans.get_mut(plan) {
            *used = now;
            return Ok(*number);
        }
        if self.plans.len() >= MOST_PLANS {
            self.forget_oldest()?;
        }
        self.send(&Request::Define { plan: now, data: Box::new(plan.clone()) }, &[])?;
        self.plans.insert(plan.clone(), (now, now));
        Ok(now)
    }

    fn forget_oldest(&mut self) -> Result<(), LauncherError> {
        let oldest =
            self.plans.iter().min_by_key(|(_, (_, used))| *used).map(|(plan, (number, _))| (plan.clone(), *number));
        if let Some((plan, number)) = oldest {
            self.plans.remove(&plan);
            self.send(&Request::Forget { plan: number }, &[])?;
        }
        Ok(())
    }
}
