//! The planner.

use std::path::PathBuf;

use super::data::{Backend, IdMap, Instruction, MountPlan, Namespaces, Rlimit, SandboxPlan};
use super::seccomp::{RuleSet, compile, shipped_rules};
use super::world::World;
use super::{PlanError, gaps, landlock, mounts};
use crate::executor::{Enforcement, Gap};
use crate::host::{HostSupport, NamespaceRoute};
use crate::policy::{EffectivePolicy, NetworkMode, RefusalErrno, SandboxMode, SyscallRule};

/// Which backend to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum BackendChoice {
    /// The strongest that the host has.
    #[default]
    Auto,
    /// Namespaces or nothing.
    Namespaces,
    /// Landlock and seccomp alone, even where namespaces can be had.
    Landlock,
}

/// Everything a plan depends on.
pub struct PlanInput<'a> {
    /// The policy of the call.
    pub policy: &'a EffectivePolicy,
    /// The host.
    pub host: &'a HostSupport,
    /// Facts about paths.
    pub world: &'a dyn World,
    /// Backend choice.
    pub backend: BackendChoice,
    /// Refuse anything less than full enforcement.
    pub require_full: bool,
    /// Send refused calls to the trace supervisor, which answers them, so that each is seen.
    pub trace: bool,
    /// The command has a control group of its own, in which its limits of memory and processes hold.
    pub cgroup: bool,
    /// Port of the sandbox's own loopback on which the proxy of an allowlist listens.
    pub proxy_port: u16,
    /// The session's directory that stands in for `/tmp`; `None` gives memory where mounts are possible.
    pub session_tmp: Option<PathBuf>,
}

/// A plan and what it is worth.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What the launcher will build.
    pub plan: SandboxPlan,
    /// What it enforces.
    pub enforcement: Enforcement,
    /// Promises it cannot keep.
    pub gaps: Vec<Gap>,
    /// Directory that the command must use for temporary files (`TMPDIR`), where `/tmp` cannot be its own.
    pub tmpdir: Option<PathBuf>,
    /// With `trace`: the refused calls left out of the filters, for the trace filter that has to be put into the plan;
    /// its supervisor answers each with its errno.
    pub reported_calls: Vec<SyscallRule>,
}

/// Makes the plan of one call.
///
/// # Errors
/// When the mode cannot be kept here, or not as fully as required.
pub fn plan(input: &PlanInput<'_>) -> Result<Planned, PlanError> {
    if input.policy.mode == SandboxMode::DangerFullAccess {
        return Ok(unconfined());
    }
    if !input.host.seccomp {
        return Err(PlanError::NoSeccomp);
    }
    let planned = match (input.backend, input.host.namespaces) {
        (BackendChoice::Landlock, _) => with_landlock_alone(input)?,
        (_, NamespaceRoute::Privileged | NamespaceRoute::UserNamespace) => with_namespaces(input)?,
        (BackendChoice::Namespaces, NamespaceRoute::Refused) => {
            let refusals = input.host.refusals.clone();
            return Err(PlanError::BackendUnavailable { wanted: "namespaces", refusals });
        }
        (BackendChoice::Auto, NamespaceRoute::Refused) => with_landlock_alone(input)?,
    };
    if input.require_full && planned.enforcement != Enforcement::Full {
        return Err(PlanError::RequireFull { gaps: planned.gaps, refusals: input.host.refusals.clone() });
    }
    Ok(planned)
}

fn unconfined() -> Planned {
    Planned {
        plan: SandboxPlan {
            backend: Backend::Unconfined,
            namespaces: None,
            mounts: None,
            proxy_port: None,
            pid_max: None,
            landlock: None,
            filters: Vec::new(),
            trace: None,
            drop_capabilities: false,
            rlimits: Vec::new(),
            cgroup: false,
            fault: None,
        },
        enforcement: Enforcement::None,
        gaps: Vec::new(),
        tmpdir: None,
        reported_calls: Vec::new(),
    }
}

fn with_namespaces(input: &PlanInput<'_>) -> Result<Planned, PlanError> {
    let (policy, host) = (input.policy, input.host);
    let wants_network = policy.network.mode != NetworkMode::Full;
    let namespaces = Namespaces {
        user: (host.namespaces == NamespaceRoute::UserNamespace).then_some(IdMap { uid: host.euid, gid: host.egid }),
        network: wants_network && host.network_namespace,
        session_network: None,
    };
    if policy.network.mode == NetworkMode::Allowlist && !namespaces.network {
        return Err(PlanError::AllowlistNeedsNamespace { refusals: host.refusals.clone() });
    }
    let mut ops = mounts::lower(policy, input.world, input.session_tmp.as_deref());
    if namespaces.network {
        ops.extend(mounts::own_resolver(policy, input.world));
    }
    let filters = filters(input, &[RuleSet::Base], wants_network && !namespaces.network)?;
    let gaps = gaps::with_namespaces(input, &namespaces);
    let landlock = landlock::beside_mounts(policy, host, &ops, namespaces.network);
    let mut rlimits = common_rlimits(input);
    if let (Some(processes), Some(_)) = (policy.limits.processes, namespaces.user) {
        rlimits.push(Rlimit { resource: libc::RLIMIT_NPROC, value: processes });
    }
    let pid_max = policy.limits.processes.filter(|_| gaps::pid_max_can_be_set(host, &namespaces));
    Ok(Planned {
        plan: SandboxPlan {
            backend: Backend::Namespaces,
            namespaces: Some(namespaces),
            mounts: Some(MountPlan { ops, fresh_proc: host.fresh_proc, private_dev: true }),
            proxy_port: (policy.network.mode == NetworkMode::Allowlist).then_some(input.proxy_port),
            pid_max: pid_max.and_then(|n| u32::try_from(n + gaps::RESERVED_PIDS).ok()).map(|n| n.min(PID_MAX_LIMIT)),
            landlock,
            filters: filters.deny,
            trace: None,
            drop_capabilities: true,
            rlimits,
            cgroup: input.cgroup,
            fault: None,
        },
        enforcement: enforcement(&gaps),
        gaps,
        tmpdir: None,
        reported_calls: filters.reported,
    })
}

fn with_landlock_alone(input: &PlanInput<'_>) -> Result<Planned, PlanError> {
    let (policy, host) = (input.policy, input.host);
    if host.landlock_abi == 0 {
        let refusals = host.refusals.clone();
        // Where namespaces were not found wanting, Landlock was asked for by name.
        return Err(match host.namespaces {
            NamespaceRoute::Refused => PlanError::NothingConfines { refusals },
            _ => PlanError::BackendUnavailable { wanted: "landlock", refusals },
        });
    }
    if policy.network.mode == NetworkMode::Allowlist {
        return Err(PlanError::AllowlistNeedsNamespace { refusals: host.refusals.clone() });
    }
    let mut sets = vec![RuleSet::Base, RuleSet::Processes];
    if policy.mode == SandboxMode::ReadOnly {
        sets.push(RuleSet::Metadata);
    }
    let filters = filters(input, &sets, policy.network.mode == NetworkMode::Off)?;
    let ops = mounts::lower(policy, input.world, None);
    let gaps = gaps::with_landlock_alone(input, &ops);
    Ok(Planned {
        plan: SandboxPlan {
            backend: Backend::Landlock,
            namespaces: None,
            mounts: None,
            proxy_port: None,
            pid_max: None,
            landlock: landlock::alone(policy, host, input.world, input.session_tmp.as_deref())
                .map_err(PlanError::Root)?,
            filters: filters.deny,
            trace: None,
            drop_capabilities: true,
            rlimits: common_rlimits(input),
            cgroup: input.cgroup,
            fault: None,
        },
        enforcement: enforcement(&gaps),
        gaps,
        tmpdir: input.session_tmp.clone(),
        reported_calls: filters.reported,
    })
}

/// 4 Mi, the kernel's PID_MAX_LIMIT on 64-bit.
const PID_MAX_LIMIT: u32 = 4 << 20;

struct Filters {
    deny: Vec<Vec<Instruction>>,
    reported: Vec<SyscallRule>,
}

/// In a chain of filters ERRNO outranks USER_NOTIF, so a call that is to be seen is left out of the deny filter and
/// refused by the supervisor's fixed answer; with the supervisor gone the kernel answers ENOSYS. Calls that libraries
/// only try out (ENOSYS) stay with the kernel, which answers them for nothing.
fn filters(input: &PlanInput<'_>, sets: &[RuleSet], without_inet: bool) -> Result<Filters, PlanError> {
    let mut sets = sets.to_vec();
    if input.host.euid == 0 {
        sets.push(RuleSet::Root);
    }
    if without_inet {
        sets.push(RuleSet::NoInet);
    }
    let mut rules = shipped_rules(&sets)?;
    rules.extend(input.policy.seccomp.iter().cloned());
    if !input.trace {
        return Ok(Filters { deny: compile(&rules)?, reported: Vec::new() });
    }
    let (silent, reported): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| rule.errno == RefusalErrno::Enosys);
    Ok(Filters { deny: compile(&silent)?, reported })
}

fn common_rlimits(input: &PlanInput<'_>) -> Vec<Rlimit> {
    let limits = &input.policy.limits;
    // Without a control group the bound holds for each process by itself: less than what was asked for, hence a gap, but
    // it ends the one that eats everything. Private writable memory is what is counted, reservations are not.
    let memory = limits.memory.filter(|_| !input.cgroup);
    let optional =
        [(libc::RLIMIT_NOFILE, limits.open_files), (libc::RLIMIT_FSIZE, limits.file_size), (libc::RLIMIT_DATA, memory)];
    let set = optional.into_iter().filter_map(|(resource, value)| Some(Rlimit { resource, value: value? }));
    // A core file would be written by the kernel, outside every rule about paths.
    std::iter::once(Rlimit { resource: libc::RLIMIT_CORE, value: 0 }).chain(set).collect()
}

/// Whether a command under this policy is to have a control group of its own: for memory, which nothing else bounds as a
/// whole, and for processes where neither `RLIMIT_NPROC` nor a PID namespace of its own bounds them.
#[must_use]
pub fn wants_cgroup(policy: &EffectivePolicy, host: &HostSupport, backend: BackendChoice) -> bool {
    let namespaces = backend != BackendChoice::Landlock && host.namespaces != NamespaceRoute::Refused;
    let counted = namespaces && (host.euid != 0 || (host.pid_max_is_namespaced() && host.fresh_proc));
    let limits = &policy.limits;
    policy.mode.confines() && (limits.memory.is_some() || (limits.processes.is_some() && !counted))
}

fn enforcement(gaps: &[Gap]) -> Enforcement {
    if gaps.is_empty() { Enforcement::Full } else { Enforcement::Partial }
}
