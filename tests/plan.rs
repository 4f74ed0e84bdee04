//! Plans for made-up hosts: every Landlock ABI, each missing namespace, capability and filter. What a plan says it keeps is
//! looked for in the plan itself, its filters run by a small interpreter.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stockade::executor::{Enforcement, Gap};
use stockade::host::{HostSupport, NamespaceRoute};
use stockade::plan::{
    Backend, BackendChoice, Instruction, PathKind, PlanError, PlanInput, Planned, World, plan, wants_cgroup,
};
use stockade::policy::{
    EffectivePolicy, Limits, NetworkMode, NetworkPolicy, Origin, PathAccess, PathRule, SandboxMode, ScanBounds,
};

struct MadeUp;

impl World for MadeUp {
    fn kind(&self, path: &Path) -> PathKind {
        if path.ends_with("secret") { PathKind::Other } else { PathKind::Directory }
    }

    fn top_level(&self) -> std::io::Result<Vec<PathBuf>> {
        Ok(["/dev", "/tmp", "/usr", "/w"].map(PathBuf::from).to_vec())
    }

    fn resolver_settings(&self) -> Option<PathBuf> {
        Some("/etc/secret".into())
    }

    fn socket_names(&self) -> BTreeSet<PathBuf> {
        BTreeSet::new()
    }

    fn socket(&self, _: &Path) -> Option<PathBuf> {
        None
    }
}

fn policy(
    mode: SandboxMode,
    network: NetworkMode,
    processes: Option<u64>,
    rules: &[(&str, PathAccess)],
) -> EffectivePolicy {
    let mut rules: Vec<PathRule> = rules
        .iter()
        .map(|(path, access)| PathRule {
            path: path.into(),
            written: None,
            access: *access,
            optional: false,
            missing: false,
            origin: Origin::Grant,
            reason: None,
        })
        .collect();
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    EffectivePolicy {
        mode,
        workspace: "/w".into(),
        workspace_written: None,
        rules,
        aliases: BTreeMap::new(),
        pinned: Vec::new(),
        watched: Vec::new(),
        scan: ScanBounds::default(),
        network: NetworkPolicy { mode: network, ..NetworkPolicy::default() },
        limits: Limits { processes, ..Limits::default() },
        seccomp: Vec::new(),
        notes: Vec::new(),
    }
}

fn read_only(network: NetworkMode) -> EffectivePolicy {
    policy(SandboxMode::ReadOnly, network, Some(100), &[("/tmp", PathAccess::Private)])
}

fn workspace_write(network: NetworkMode) -> EffectivePolicy {
    let rules = [
        ("/tmp", PathAccess::Private),
        ("/w", PathAccess::Write),
        ("/w/.git/hooks", PathAccess::DenyWrite),
        ("/w/secret", PathAccess::DenyRead),
    ];
    policy(SandboxMode::WorkspaceWrite, network, Some(100), &rules)
}

/// Every host there can be, as far as plans tell them apart.
fn hosts() -> Vec<HostSupport> {
    let mut hosts = Vec::new();
    for landlock_abi in 0..=9 {
        for bits in 0..2_u32.pow(5) {
            let bit = |number: u32| bits & (1 << number) != 0;
            for namespaces in [NamespaceRoute::Privileged, NamespaceRoute::UserNamespace, NamespaceRoute::Refused] {
                let id = if bit(0) { 0 } else { 1000 };
                hosts.push(HostSupport {
                    euid: id,
                    egid: id,
                    kernel: if bit(1) { (6, 18) } else { (6, 1) },
                    landlock_abi,
                    seccomp: true,
                    namespaces,
                    network_namespace: bit(2),
                    fresh_proc: bit(3),
                    sees_host_sockets: bit(4),
                    refusals: Vec::new(),
                });
            }
        }
    }
    hosts
}

fn make(
    policy: &EffectivePolicy,
    host: &HostSupport,
    backend: BackendChoice,
    full: bool,
) -> Result<Planned, PlanError> {
    plan(&PlanInput {
        policy,
        host,
        world: &MadeUp,
        backend,
        require_full: full,
        cgroup: false,
        trace: false,
        proxy_port: 28_129,
        session_tmp: None,
    })
}

const BACKENDS: [BackendChoice; 3] = [BackendChoice::Auto, BackendChoice::Namespaces, BackendChoice::Landlock];

/// The gaps, said once more in another way: what each promise needs, one after the other.
fn expected_gaps(policy: &EffectivePolicy, host: &HostSupport, mounts: bool) -> BTreeSet<Gap> {
    let abi = host.landlock_abi;
    let off = policy.network.mode != NetworkMode::Full;
    let own_network = mounts && off && host.network_namespace;
    let writes = policy.rules.iter().any(|rule| rule.access == PathAccess::Write);
    let masks = policy.rules.iter().any(|rule| rule.access == PathAccess::DenyRead);
    let pid_max = mounts && host.kernel >= (6, 14) && host.fresh_proc;
    let pid_max = pid_max && (host.namespaces == NamespaceRoute::Privileged || host.euid == 0);
    let rlimit = mounts && host.namespaces == NamespaceRoute::UserNamespace && host.euid != 0;
    [
        (Gap::Metadata, !mounts && policy.mode != SandboxMode::ReadOnly),
        (Gap::ProtectedPaths, !mounts && writes),
        (Gap::DenyRead, !mounts && (masks || host.euid == 0)),
        (Gap::NetworkIsolation, off && !own_network),
        (Gap::UnixSockets, abi < 9 && !(mounts && host.sees_host_sockets && (own_network || abi >= 6))),
        (Gap::ProcessIsolation, !mounts || !host.fresh_proc),
        (Gap::Truncate, !mounts && abi < 3),
        (Gap::Ioctl, if mounts { abi == 0 } else { abi < 5 }),
        (Gap::Limits, policy.limits.processes.is_some() && !pid_max && !rlimit),
    ]
    .into_iter()
    .filter_map(|(gap, missing)| missing.then_some(gap))
    .collect()
}

#[test]
fn every_host_gets_a_plan_with_its_gaps_or_a_reason() {
    let mut plans = 0;
    for policy in [NetworkMode::Off, NetworkMode::Allowlist, NetworkMode::Full]
        .into_iter()
        .flat_map(|network| [read_only(network), workspace_write(network)])
    {
        for host in hosts() {
            for backend in BACKENDS {
                let title = format!("{:?} {:?} {backend:?} {host:?}", policy.mode, policy.network.mode);
                let made = make(&policy, &host, backend, false);
                let refused = host.namespaces == NamespaceRoute::Refused;
                let mounts = backend != BackendChoice::Landlock && !refused;
                if backend == BackendChoice::Namespaces && refused {
                    assert!(matches!(made, Err(PlanError::BackendUnavailable { .. })), "{title}");
                    continue;
                }
                if !mounts && host.landlock_abi == 0 {
                    let true_to_host = match made {
                        Err(PlanError::NothingConfines { .. }) => refused,
                        Err(PlanError::BackendUnavailable { wanted: "landlock", .. }) => !refused,
                        _ => false,
                    };
                    assert!(true_to_host, "{title}: {made:?}");
                    continue;
                }
                let outlet = mounts && host.network_namespace;
                if policy.network.mode == NetworkMode::Allowlist && !outlet {
                    assert!(matches!(made, Err(PlanError::AllowlistNeedsNamespace { .. })), "{title}: {made:?}");
                    continue;
                }
                let planned = made.unwrap_or_else(|error| panic!("{title}: {error}"));
                plans += 1;
                let gaps: BTreeSet<Gap> = planned.gaps.iter().copied().collect();
                assert_eq!(gaps.len(), planned.gaps.len(), "{title}: each once");
                assert_eq!(gaps, expected_gaps(&policy, &host, mounts), "{title}");
                let full = if gaps.is_empty() { Enforcement::Full } else { Enforcement::Partial };
                assert_eq!(planned.enforcement, full, "{title}");
                required_full(&policy, &host, backend, &planned);
                holds_what_it_promises(&policy, &host, &planned, &title);
            }
        }
    }
    assert!(plans > 2000, "{plans}");
}

/// `--require full` refuses exactly when there are gaps, names them, and otherwise changes nothing.
fn required_full(policy: &EffectivePolicy, host: &HostSupport, backend: BackendChoice, partial: &Planned) {
    match make(policy, host, backend, true) {
        Ok(planned) => {
            assert!(partial.gaps.is_empty(), "{host:?}");
            assert_eq!(planned.plan, partial.plan);
        }
        Err(PlanError::RequireFull { gaps, .. }) => {
            assert!(!gaps.is_empty(), "{host:?}");
            assert_eq!(gaps, partial.gaps);
        }
        Err(other) => panic!("{host:?}: {other}"),
    }
}

/// Whatever is not a gap has something in the plan that keeps it.
fn holds_what_it_promises(policy: &EffectivePolicy, host: &HostSupport, planned: &Planned, title: &str) {
    let plan = &planned.plan;
    let mounts = plan.mounts.as_ref();
    assert_eq!(plan.backend == Backend::Namespaces, mounts.is_some() && plan.namespaces.is_some(), "{title}");
    let gap = |gap| planned.gaps.contains(&gap);
    let off = policy.network.mode != NetworkMode::Full;
    let own_network = plan.namespaces.is_some_and(|namespaces| namespaces.network);
    assert!(!off || own_network || gap(Gap::NetworkIsolation), "{title}");
    assert!(mounts.is_some_and(|mounts| mounts.fresh_proc) || gap(Gap::ProcessIsolation), "{title}");
    let masked = policy.rules.iter().filter(|rule| rule.access == PathAccess::DenyRead);
    for rule in masked {
        assert!(mounts.is_some_and(|m| m.ops.iter().any(|op| op.path == rule.path)) || gap(Gap::DenyRead), "{title}");
    }
    assert!(plan.pid_max.is_some() || plan.rlimits.len() > 1 || gap(Gap::Limits), "{title}");
    assert!(plan.drop_capabilities, "{title}");
    assert!(plan.rlimits.iter().any(|limit| (limit.resource, limit.value) == (libc::RLIMIT_CORE, 0)), "{title}");
    match &plan.landlock {
        Some(landlock) => {
            assert_eq!(landlock.abi, host.landlock_abi, "{title}");
            assert_eq!(landlock.refuse_tcp, host.landlock_abi >= 4 && off && !own_network, "{title}");
            assert_eq!(landlock.scope_signals, host.landlock_abi >= 6, "{title}");
        }
        None => assert_eq!(host.landlock_abi, 0, "{title}"),
    }
    let user = plan.namespaces.and_then(|namespaces| namespaces.user);
    if let Some(map) = user {
        assert_eq!((map.uid, map.gid), (host.euid, host.egid), "{title}");
    }
    filters(policy, host, planned, title);
}

#[cfg(not(target_arch = "x86_64"))]
fn filters(_: &EffectivePolicy, _: &HostSupport, planned: &Planned, title: &str) {
    assert!(planned.plan.filters.len() >= 3, "{title}");
}

#[cfg(target_arch = "x86_64")]
fn filters(policy: &EffectivePolicy, host: &HostSupport, planned: &Planned, title: &str) {
    let own_network = planned.plan.namespaces.is_some_and(|namespaces| namespaces.network);
    let mounts = planned.plan.mounts.is_some();
    let answer = |number: i64, args: [u64; 6]| {
        let number = u32::try_from(number).unwrap();
        strictest(planned.plan.filters.iter().map(|filter| run(filter, &data(ARCH, number, args))))
    };
    let errno = |error: i32| libc::SECCOMP_RET_ERRNO | error.cast_unsigned();
    let expect = |number, args, refused: bool, error| {
        let expected = if refused { errno(error) } else { libc::SECCOMP_RET_ALLOW };
        assert_eq!(answer(number, args), expected, "call {number} {args:?}: {title}");
    };
    let none = [0; 6];
    for number in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_fork, libc::SYS_flock, libc::SYS_futex]
    {
        expect(number, none, false, 0);
    }
    for number in [libc::SYS_mount, libc::SYS_ptrace, libc::SYS_setns, libc::SYS_bpf, libc::SYS_keyctl] {
        expect(number, none, true, libc::EPERM);
    }
    for number in [libc::SYS_clone3, libc::SYS_io_uring_setup] {
        expect(number, none, true, libc::ENOSYS);
    }
    let new_user = 0x1000_0000;
    expect(libc::SYS_clone, [new_user | 17, 0, 0, 0, 0, 0], true, libc::EPERM);
    expect(libc::SYS_clone, [(1 << 40) | 17, 0, 0, 0, 0, 0], false, 0);
    expect(libc::SYS_unshare, [new_user | 1 << 40, 0, 0, 0, 0, 0], true, libc::EPERM);
    expect(libc::SYS_ioctl, [0, libc::TIOCSTI | 1 << 40, 0, 0, 0, 0], true, libc::EPERM);
    let metadata = policy.mode == SandboxMode::ReadOnly && !mounts;
    expect(libc::SYS_fchownat, none, metadata, libc::EPERM);
    expect(libc::SYS_utimensat, none, metadata, libc::EPERM);
    expect(libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0], !mounts, libc::EPERM);
    expect(libc::SYS_prlimit64, none, false, 0);
    let without_inet = policy.network.mode == NetworkMode::Off && !own_network;
    let inet = [u64::from(libc::AF_INET.cast_unsigned()), 0, 0, 0, 0, 0];
    let unix = [u64::from(libc::AF_UNIX.cast_unsigned()), 0, 0, 0, 0, 0];
    let answered = answer(libc::SYS_socket, inet);
    assert_eq!(answered != libc::SECCOMP_RET_ALLOW, without_inet, "socket: {answered:#x}: {title}");
    expect(libc::SYS_socket, unix, false, 0);
    // Numbers of tomorrow, of x32, and of 32-bit programs.
    expect(1000, none, true, libc::ENOSYS);
    expect(0x4000_0000, none, true, libc::ENOSYS);
    let foreign = planned.plan.filters.iter().map(|filter| run(filter, &data(0x4000_0003, 0, none)));
    assert_eq!(strictest(foreign), libc::SECCOMP_RET_KILL_PROCESS, "{title} {host:?}");
}

const ARCH: u32 = 0xc000_003e;

/// `struct seccomp_data`, by 32-bit words.
fn data(arch: u32, number: u32, args: [u64; 6]) -> Vec<u32> {
    let mut words = vec![number, arch, 0, 0];
    words.extend(args.iter().flat_map(|arg| {
        let [a, b, c, d, e, f, g, h] = arg.to_le_bytes();
        [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
    }));
    words
}

/// The kernel takes the answer of the filter that is strictest; the action is a signed number, lowest first.
fn strictest(answers: impl Iterator<Item = u32>) -> u32 {
    answers.min_by_key(|answer| (answer & 0xffff_0000).cast_signed()).unwrap()
}

/// Runs a filter as the kernel does.
fn run(filter: &[Instruction], data: &[u32]) -> u32 {
    let (mut at, mut word) = (0, 0);
    loop {
        let (code, yes, no, operand) = filter[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { yes } else { no });
        match code {
            0x20 => word = data[operand as usize / 4],
            0x54 => word &= operand,
            0x05 => at += operand as usize,
            0x15 => at += jump(word == operand),
            0x25 => at += jump(word > operand),
            0x35 => at += jump(word >= operand),
            0x45 => at += jump(word & operand != 0),
            0x06 => return operand,
            other => panic!("instruction {other:#x} is not known here"),
        }
    }
}

#[test]
fn without_filters_nothing_but_full_access_runs() {
    for mut host in hosts() {
        host.seccomp = false;
        for backend in BACKENDS {
            let made = make(&workspace_write(NetworkMode::Off), &host, backend, false);
            assert!(matches!(made, Err(PlanError::NoSeccomp)), "{host:?}");
        }
        let open = policy(SandboxMode::DangerFullAccess, NetworkMode::Full, None, &[]);
        for full in [false, true] {
            let planned = make(&open, &host, BackendChoice::Auto, full).unwrap();
            assert_eq!((planned.enforcement, planned.gaps.len()), (Enforcement::None, 0), "nothing was promised");
        }
    }
}

/// A path made writable in read-only mode is a root like any other.
#[test]
fn a_write_rule_in_read_only_mode_leaves_the_gaps_of_a_root() {
    let rules = [("/w", PathAccess::Write), ("/w/.git/hooks", PathAccess::DenyWrite)];
    let policy = policy(SandboxMode::ReadOnly, NetworkMode::Off, None, &rules);
    for host in hosts().into_iter().filter(|host| host.landlock_abi > 0) {
        let planned = make(&policy, &host, BackendChoice::Landlock, false).unwrap();
        assert!(planned.gaps.contains(&Gap::ProtectedPaths), "{host:?}");
        assert!(!planned.gaps.contains(&Gap::Metadata), "the filter refuses those calls: {host:?}");
    }
}

/// With a control group of its own a command's memory and processes are bounded as a whole, and not by the process.
#[test]
fn a_control_group_closes_the_gap_of_limits() {
    let mut policy = policy(SandboxMode::ReadOnly, NetworkMode::Off, Some(100), &[]);
    policy.limits.memory = Some(1 << 30);
    for host in hosts() {
        for backend in BACKENDS {
            let input = PlanInput {
                policy: &policy,
                host: &host,
                world: &MadeUp,
                backend,
                require_full: false,
                cgroup: false,
                trace: false,
                proxy_port: 28_129,
                session_tmp: None,
            };
            let (Ok(without), Ok(with)) = (plan(&input), plan(&PlanInput { cgroup: true, ..input })) else { continue };
            let bounded =
                |planned: &Planned| planned.plan.rlimits.iter().any(|limit| limit.resource == libc::RLIMIT_DATA);
            assert_eq!((bounded(&without), bounded(&with)), (true, false));
            assert_eq!((without.plan.cgroup, with.plan.cgroup), (false, true));
            assert!(without.gaps.contains(&Gap::Limits) && !with.gaps.contains(&Gap::Limits), "{host:?}");
            assert!(wants_cgroup(&policy, &host, backend));
        }
    }
    policy.limits.memory = None;
    let ordinary =
        hosts().into_iter().find(|host| host.euid != 0 && host.namespaces == NamespaceRoute::UserNamespace).unwrap();
    assert!(!wants_cgroup(&policy, &ordinary, BackendChoice::Auto), "RLIMIT_NPROC does");
    assert!(wants_cgroup(&policy, &ordinary, BackendChoice::Landlock));
}
