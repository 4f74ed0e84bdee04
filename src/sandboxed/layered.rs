//! Policies from files and options: the usual source.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::PolicySource;
use crate::executor::{CallPolicy, ExecError};
use crate::policy::look::Ground;
use crate::policy::{EffectivePolicy, HostPaths, PolicyError, PolicyRequest, SandboxMode};

/// A policy request whose layers every call shares, each call with its own mode, workspace and grant.
#[derive(Debug, Clone)]
pub struct LayeredPolicy {
    request: PolicyRequest,
    host: HostPaths,
    standing: CallPolicy,
    /// The policy resolved by `new`, and when, for a first call that wants just that and comes at once: a program that runs
    /// one command resolves once.
    first: Arc<Mutex<Option<(Instant, EffectivePolicy)>>>,
    /// Policies of the last calls, and what each decision stood on.
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

/// Later the host may have changed.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Policies kept at any one time.
const MOST_KEPT: usize = 8;

#[derive(Debug)]
struct Kept {
    call: CallPolicy,
    policy: Arc<EffectivePolicy>,
    ground: Ground,
}

impl LayeredPolicy {
    /// Reads the policy files and resolves once, so that a wrong policy is found before anything is to run.
    ///
    /// # Errors
    /// What is wrong with the policy, with file, line and column where there is one.
    pub fn new(request: PolicyRequest, host: HostPaths) -> Result<Self, PolicyError> {
        let request = request.preloaded(&host)?;
        let now = Instant::now();
        let resolved = request.resolve(&host)?;
        let standing = CallPolicy {
            mode: resolved.mode,
            workspace: resolved.workspace.clone(),
            extra: crate::denial::Grant::default(),
            session: None,
        };
        Ok(Self { request, host, standing, first: Arc::new(Mutex::new(Some((now, resolved)))), kept: Arc::default() })
    }
}

impl LayeredPolicy {
    /// The policy of `workspace-write` in a workspace: what it protects, no narrow grant may open unless it names it.
    #[must_use]
    pub fn of_writing(&self, workspace: &Path) -> Option<EffectivePolicy> {
        let call = CallPolicy {
            mode: SandboxMode::WorkspaceWrite,
            workspace: workspace.to_path_buf(),
            extra: crate::denial::Grant::default(),
            session: None,
        };
        self.effective(&call).ok()
    }
}

impl LayeredPolicy {
    /// The policy kept for such a call, if it is still right.
    fn kept(&self, call: &CallPolicy) -> Option<Arc<EffectivePolicy>> {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.call == *call)?;
        let kept = all.remove(at).filter(|kept| kept.ground.stands())?;
        let policy = Arc::clone(&kept.policy);
        all.push_back(kept);
        Some(policy)
    }

    fn keep(&self, kept: Kept) {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_KEPT {
            all.pop_front();
        }
        all.push_back(kept);
    }
}

impl PolicySource for LayeredPolicy {
    fn standing(&self) -> CallPolicy {
        self.standing.clone()
    }

    fn effective(&self, call: &CallPolicy) -> Result<EffectivePolicy, ExecError> {
        if !call.workspace.is_absolute() {
            let reason = "it is not an absolute path; give the session's directory".to_owned();
            return Err(ExecError::Workspace { path: call.workspace.clone(), reason });
        }
        if *call == self.standing {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((_, policy)) = first.filter(|(when, _)| when.elapsed() < AT_ONCE) {
                return Ok(policy);
            }
        }
        self.resolve(call)
    }

    fn shared(&self, call: &CallPolicy) -> Result<Arc<EffectivePolicy>, ExecError> {
        // No session changes what is allowed.
        let call = CallPolicy { session: None, ..call.clone() };
        if let Some(policy) = self.kept(&call) {
            return Ok(policy);
        }
        let (decided, ground) = Ground::record(|| self.effective(&call));
        let policy = Arc::new(decided?);
        // The policy of the first call was decided before, so it left no notes.
        if let Some(ground) = ground.filter(|ground| ground.len() > 0) {
            self.keep(Kept { call, policy: Arc::clone(&policy), ground });
        }
        Ok(policy)
    }

    fn is_unchanged(&self, policy: &Arc<EffectivePolicy>) -> bool {
        let all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.iter().find(|kept| Arc::ptr_eq(&kept.policy, policy));
        kept.is_some_and(|kept| kept.ground.len() <= FEW_LOOKS && kept.ground.stands())
    }
}

/// More looks than these cost more than a thread.
const FEW_LOOKS: usize = 2000;

impl LayeredPolicy {
    fn resolve(&self, call: &CallPolicy) -> Result<EffectivePolicy, ExecError> {
        let request = self.request.for_call(call.mode, &call.workspace).grant(call.extra.clone());
        request.resolve(&self.host).map_err(|error| ExecError::Policy { reason: error.to_string() })
    }
}
