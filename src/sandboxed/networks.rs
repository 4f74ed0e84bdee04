//! Which calls share a network.
//!
//! A server that one call of a session left running is to be there for the session's next call, as it would be outside. But
//! what a server does, it does with the permissions of its own call: so only calls under the very same policy meet, and
//! what one call was granted is lent to no other.

use std::sync::{Mutex, PoisonError};

use crate::executor::CallPolicy;
use crate::plan::SandboxPlan;
use crate::policy::{EffectivePolicy, NetworkMode};

/// Policies of sessions that are told apart. Those beyond get a network for each call.
const MOST: usize = 64;

/// Those of one executor.
#[derive(Debug, Default)]
pub(super) struct SessionNetworks(Mutex<Vec<CallPolicy>>);

impl SessionNetworks {
    /// Puts a sandbox into the network of its session, where it belongs to one and reaches nothing but the loopback.
    pub(super) fn assign(&self, plan: &mut SandboxPlan, call: &CallPolicy, policy: &EffectivePolicy) {
        // A step that is to fail has to be taken by the sandbox itself.
        if policy.network.mode != NetworkMode::Off || plan.fault.is_some() {
            return;
        }
        if let Some(namespaces) = plan.namespaces.as_mut().filter(|namespaces| namespaces.network) {
            namespaces.session_network = self.number(call);
        }
    }

    fn number(&self, call: &CallPolicy) -> Option<u32> {
        call.session.as_ref()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|other| other == call).or_else(|| {
            (known.len() < MOST).then(|| {
                known.push(call.clone());
                known.len() - 1
            })
        })?;
        u32::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::policy::SandboxMode;

    fn call(session: Option<&str>, mode: SandboxMode) -> CallPolicy {
        CallPolicy {
            mode,
            workspace: PathBuf::from("/w"),
            extra: Default::default(),
            session: session.map(str::to_owned),
        }
    }

    #[test]
    fn calls_meet_only_in_one_session_under_one_policy() {
        let networks = SessionNetworks::default();
        let write = call(Some("a"), SandboxMode::WorkspaceWrite);
        let first = networks.number(&write);
        assert!(first.is_some());
        assert_eq!(networks.number(&write), first);
        let mut granted = write.clone();
        granted.extra.write.push("/x".into());
        for other in [call(Some("b"), SandboxMode::WorkspaceWrite), call(Some("a"), SandboxMode::ReadOnly), granted] {
            assert_ne!(networks.number(&other), first, "{other:?}");
        }
        assert_eq!(networks.number(&call(None, SandboxMode::WorkspaceWrite)), None);
    }

    #[test]
    fn what_is_too_many_gets_none() {
        let networks = SessionNetworks::default();
        let number = |n: usize| networks.number(&call(Some(&n.to_string()), SandboxMode::ReadOnly));
        assert!((0..MOST).all(|n| number(n).is_some()));
        assert_eq!(number(MOST), None);
        assert!(number(0).is_some());
    }
}
