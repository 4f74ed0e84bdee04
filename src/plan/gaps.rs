//! Which promises a plan cannot keep.

use crate::executor::Gap;
use crate::host::HostSupport;
use crate::plan::data::{MountKind, MountOp, Namespaces};
use crate::plan::planner::PlanInput;
use crate::policy::{NetworkMode, PathAccess, SandboxMode};

/// Smallest `pid_max` the kernel accepts is 301, of which 300 are reserved.
pub(super) const RESERVED_PIDS: u64 = 300;

/// Gaps of the backend with namespaces and mounts.
pub(super) fn with_namespaces(input: &PlanInput<'_>, namespaces: &Namespaces) -> Vec<Gap> {
    let (policy, host) = (input.policy, input.host);
    let network_kept = policy.network.mode == NetworkMode::Full || namespaces.network;
    let mut gaps = Vec::new();
    // Without Landlock the second wall is missing altogether; requests on inherited devices are what only it refuses.
    add(&mut gaps, Gap::Ioctl, host.landlock_abi == 0);
    add(&mut gaps, Gap::NetworkIsolation, !network_kept);
    // Abstract sockets belong to the network namespace; those with a path are covered by mounts, as far as they are known.
    let abstract_kept = namespaces.network || host.landlock_abi >= 6;
    let pathname_kept = host.sees_host_sockets || host.landlock_abi >= 9;
    add(&mut gaps, Gap::UnixSockets, !abstract_kept || !pathname_kept);
    add(&mut gaps, Gap::ProcessIsolation, !host.fresh_proc);
    let processes_kept = policy.limits.processes.is_none() || process_limit_is_kept(host, namespaces);
    add(&mut gaps, Gap::Limits, !input.cgroup && (!processes_kept || policy.limits.memory.is_some()));
    gaps
}

/// RLIMIT_NPROC binds an ordinary user in a user namespace of its own; nothing binds uid 0 but the PID namespace.
fn process_limit_is_kept(host: &HostSupport, namespaces: &Namespaces) -> bool {
    (namespaces.user.is_some() && host.euid != 0) || pid_max_can_be_set(host, namespaces)
}

/// `kernel.pid_max` of the new PID namespace belongs to uid 0 of its user namespace.
pub(super) fn pid_max_can_be_set(host: &HostSupport, namespaces: &Namespaces) -> bool {
    host.pid_max_is_namespaced() && host.fresh_proc && (namespaces.user.is_none() || host.euid == 0)
}

/// Gaps of Landlock alone.
pub(super) fn with_landlock_alone(input: &PlanInput<'_>, ops: &[MountOp]) -> Vec<Gap> {
    let (policy, host) = (input.policy, input.host);
    let writes = policy.mode != SandboxMode::ReadOnly;
    // A write rule makes a root in read-only mode too, and nothing can be carved out of it.
    let roots = writes || policy.rules.iter().any(|rule| rule.access == PathAccess::Write);
    let masks = ops.iter().any(|op| matches!(op.kind, MountKind::MaskDirectory { .. } | MountKind::MaskFile));
    let mut gaps = Vec::new();
    add(&mut gaps, Gap::Metadata, writes);
    add(&mut gaps, Gap::ProtectedPaths, roots);
    // Files of the kernel that tell of the whole machine are root's to read, and nothing covers them.
    add(&mut gaps, Gap::DenyRead, masks || host.euid == 0);
    add(&mut gaps, Gap::NetworkIsolation, policy.network.mode != NetworkMode::Full);
    add(&mut gaps, Gap::UnixSockets, host.landlock_abi < 9);
    gaps.push(Gap::ProcessIsolation);
    add(&mut gaps, Gap::Truncate, host.landlock_abi < 3);
    add(&mut gaps, Gap::Ioctl, host.landlock_abi < 5);
    let limited = policy.limits.processes.is_some() || policy.limits.memory.is_some();
    add(&mut gaps, Gap::Limits, limited && !input.cgroup);
    gaps
}

fn add(gaps: &mut Vec<Gap>, gap: Gap, missing: bool) {
    if missing {
        gaps.push(gap);
    }
}
