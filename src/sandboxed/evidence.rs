//! What the trace witness has to be told of a plan.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::shared::Shared;
use crate::denial::trace::filter::{FilterOptions, compile};
use crate::denial::trace::{FileBackend, NetBackend, SignalBackend, Watch};
use crate::plan::{Backend, Instruction, Planned};
use crate::policy::{EffectivePolicy, PathAccess, PathRule, SandboxMode, SyscallRule};

/// The filter that sends calls to the supervisor.
///
/// Metadata changed through a descriptor is looked at where nothing may be written: elsewhere an archiver would pay for
/// three such calls a file, all allowed.
pub(super) fn trace_filter(mode: SandboxMode, reported: &[SyscallRule]) -> Vec<Instruction> {
    let descriptor_metadata = mode == SandboxMode::ReadOnly;
    let filter = compile(reported, FilterOptions { descriptor_metadata });
    filter.instructions.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect()
}

/// What carries the policy out.
pub(super) fn mechanisms(planned: &Planned) -> (FileBackend, NetBackend) {
    let plan = &planned.plan;
    let landlock = plan.landlock.as_ref();
    let own_network = plan.namespaces.is_some_and(|namespaces| namespaces.network);
    let files = match plan.backend {
        Backend::Namespaces => FileBackend::Mounts { landlock: landlock.is_some() },
        Backend::Landlock | Backend::Unconfined => FileBackend::Landlock,
    };
    let network = match (own_network, landlock.is_some_and(|landlock| landlock.refuse_tcp)) {
        (true, _) => NetBackend::Namespace,
        (false, true) => NetBackend::Landlock,
        (false, false) => NetBackend::None,
    };
    (files, network)
}

/// The run as the supervisor has to know it.
pub(super) fn watch(policy: &Arc<EffectivePolicy>, planned: &Planned, shared: &Shared, started: Instant) -> Watch {
    let plan = &planned.plan;
    let landlock = plan.landlock.as_ref();
    let (files, network) = mechanisms(planned);
    let signals = match (plan.namespaces.is_some(), landlock.is_some_and(|landlock| landlock.scope_signals)) {
        (true, _) => SignalBackend::Namespace,
        (false, true) => SignalBackend::Landlock,
        (false, false) => SignalBackend::None,
    };
    Watch {
        policy: held(policy, plan.backend, shared),
        rules: shared.rules(&planned.reported_calls),
        also_writable: also_writable(planned),
        files,
        network,
        open_ports: Vec::new(),
        signals,
        started,
    }
}

/// The policy as far as it is enforced: no mount can hold a refused name that is not there, so creating it succeeds and is
/// told after the run. A refusal must not be reported for it.
fn held(policy: &Arc<EffectivePolicy>, backend: Backend, shared: &Shared) -> Arc<EffectivePolicy> {
    let open = |rule: &PathRule| {
        rule.missing
            && matches!(rule.access, PathAccess::DenyWrite | PathAccess::DenyRead)
            && backend == Backend::Namespaces
    };
    if !policy.rules.iter().any(open) {
        return Arc::clone(policy);
    }
    let mut held = EffectivePolicy::clone(policy);
    held.rules.retain(|rule| !open(rule));
    shared.policy(held)
}

/// Places of the sandbox's own that no rule of the policy names.
fn also_writable(planned: &Planned) -> Vec<PathBuf> {
    let devices = planned.plan.landlock.iter().flat_map(|landlock| {
        landlock.grants.iter().filter(|rule| rule.path.starts_with("/dev")).map(|rule| rule.path.clone())
    });
    devices.chain(planned.tmpdir.clone()).collect()
}
