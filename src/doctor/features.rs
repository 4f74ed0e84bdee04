//! From what was seen to what it means: each feature, what is lost without it, and the one thing that gives it.

#![forbid(unsafe_code)]

use nix::errno::Errno;
use serde::Serialize;

use super::facts::{Cgroup, Container, Facts};
use crate::denial::audit::AuditState;
use crate::launcher::Probe;

/// One feature of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Feature {
    /// Its name, fixed.
    pub name: &'static str,
    /// It works here.
    pub present: bool,
    /// What was seen, in a few words.
    pub found: String,
    /// What is lost without it; absent when it is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The one command or setting that gives it; absent when it is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

fn present(name: &'static str, found: impl Into<String>) -> Feature {
    Feature { name, present: true, found: found.into(), lost: None, remedy: None }
}

fn missing(name: &'static str, found: impl Into<String>, lost: &str, remedy: impl Into<String>) -> Feature {
    Feature { name, present: false, found: found.into(), lost: Some(lost.into()), remedy: Some(remedy.into()) }
}

/// Judges every feature.
#[must_use]
pub fn features(facts: &Facts) -> Vec<Feature> {
    let mut features = vec![launcher(facts)];
    features.extend([
        namespace(facts, Probe::UserNamespace, user_namespace_lost(facts)),
        namespace(
            facts,
            Probe::MountNamespace,
            "read-only mounts, masks and covers (gaps: metadata, protected-paths, deny-read, unix-sockets)",
        ),
        namespace(facts, Probe::PidNamespace, "not seeing the host's processes (gap: process-isolation)"),
        namespace(facts, Probe::IpcNamespace, "System V and POSIX IPC for commands, which are refused to them instead"),
        namespace(facts, Probe::UtsNamespace, "all namespaces, since a sandbox takes them together"),
        namespace(facts, Probe::CgroupNamespace, "all namespaces, since a sandbox takes them together"),
        namespace(facts, Probe::NetworkNamespace, "a loopback of its own and host allowlists (gap: network-isolation)"),
        fresh_proc(facts),
        pid_max(facts),
        host_sockets(facts),
    ]);
    features.extend(landlock(facts));
    features.extend([seccomp(facts), notification(facts), audit(facts), cgroup(facts), keyring(facts)]);
    features.extend([program("bash", facts.bash.as_deref()), program("git", facts.git.as_deref())]);
    features
}

fn launcher(facts: &Facts) -> Feature {
    match &facts.no_launcher {
        None => present("launcher", "found"),
        Some(why) => missing("launcher", why, "everything: no sandbox can be built", "put the stockade binary on PATH"),
    }
}

/// What the kernel answered, in words.
fn answer(facts: &Facts, probe: Probe) -> Result<(), String> {
    match facts.probes.get(&probe) {
        Some(Ok(())) => Ok(()),
        Some(Err(errno)) => Err(std::io::Error::from_raw_os_error(*errno).to_string()),
        None => Err("could not be tried".to_owned()),
    }
}

fn namespace(facts: &Facts, probe: Probe, lost: &str) -> Feature {
    match answer(facts, probe) {
        Ok(()) => present(probe.as_str(), "works"),
        Err(found) => missing(probe.as_str(), found, lost, namespace_remedy(facts, probe)),
    }
}

/// Root's sandboxes need none.
const fn user_namespace_lost(facts: &Facts) -> &'static str {
    if facts.euid == 0 && facts.sandbox_built {
        "nothing for root, whose sandboxes need none; for ordinary users every other namespace"
    } else {
        "every other namespace, which an ordinary user has through it: Landlock alone is left"
    }
}

/// The kernel's word for a kind of namespace in the names of its limits.
const fn kind(probe: Probe) -> &'static str {
    match probe {
        Probe::MountNamespace => "mnt",
        Probe::PidNamespace => "pid",
        Probe::IpcNamespace => "ipc",
        Probe::UtsNamespace => "uts",
        Probe::CgroupNamespace => "cgroup",
        Probe::NetworkNamespace => "net",
        _ => "user",
    }
}

/// The switch that is the most likely one.
fn namespace_remedy(facts: &Facts, probe: Probe) -> String {
    let no_users = facts.probes.get(&Probe::UserNamespace).is_some_and(Result::is_err);
    let permanent = "(and the same line in /etc/sysctl.d/ to keep it)";
    let kind = kind(probe);
    if facts.no_namespaces_of.contains(&kind) {
        return format!("sysctl -w user.max_{kind}_namespaces=15000 {permanent}");
    }
    if facts.max_user_namespaces == Some(0) {
        return format!("sysctl -w user.max_user_namespaces=15000 {permanent}");
    }
    if facts.userns_clone_off && facts.euid != 0 {
        return format!("sysctl -w kernel.unprivileged_userns_clone=1 {permanent}");
    }
    if facts.apparmor_restricts && facts.euid != 0 {
        return format!(
            "an AppArmor profile with `userns,` for this program (docs/operating.md has it); or, for every program, \
             sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 {permanent}"
        );
    }
    match facts.container {
        Some(Container::Docker) => {
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ...".to_owned()
        }
        Some(Container::Podman) => {
            "podman run --security-opt seccomp=unconfined --security-opt label=disable ...".to_owned()
        }
        Some(Container::Other) => "no seccomp and no AppArmor profile around the container (Kubernetes: \
            securityContext.seccompProfile.type=Unconfined and appArmorProfile.type=Unconfined)"
            .to_owned(),
        None if facts.filtered => {
            "run outside the sandbox whose seccomp filter is on this process (in a systemd unit: \
            RestrictNamespaces=no and no SystemCallFilter= that refuses @mount)"
                .to_owned()
        }
        None if no_users || probe == Probe::UserNamespace => "a kernel built with CONFIG_USER_NS=y".to_owned(),
        None => "a kernel built with CONFIG_NAMESPACES=y and every namespace".to_owned(),
    }
}

fn fresh_proc(facts: &Facts) -> Feature {
    let lost = "hiding the host's processes: /proc shows them (gap: process-isolation)";
    match (&facts.fresh_proc_refused, facts.sandbox_built) {
        (None, true) => present("fresh-proc", "mounted"),
        (None, false) => missing("fresh-proc", "no sandbox with mounts could be built", lost, "the namespaces above"),
        (Some(failure), _) => {
            let remedy = match facts.container {
                Some(Container::Podman) => "podman run --security-opt unmask=ALL ...",
                Some(Container::Docker) => "docker run --security-opt systempaths=unconfined ...",
                Some(Container::Other) => "Kubernetes: securityContext.procMount=Unmasked, with hostUsers: false",
                None => {
                    "a /proc with nothing mounted over its parts (in a systemd unit: ProtectKernelTunables=no, \
                    ProtectKernelLogs=no and ProtectProc=default)"
                }
            };
            missing("fresh-proc", failure.to_string(), lost, remedy)
        }
    }
}

fn pid_max(facts: &Facts) -> Feature {
    if facts.own_pid_max {
        return present("pid-max", "limited in each PID namespace");
    }
    let found = format!("not limited by namespace on Linux {}", facts.release);
    if facts.euid != 0 && facts.sandbox_built {
        let lost = "nothing: RLIMIT_NPROC limits the sandboxes of an ordinary user";
        return missing("pid-max", found, lost, "nothing to do; for root's sandboxes Linux 6.14 or later");
    }
    let lost = "a limit of processes that binds every user (gap: limits)";
    let remedy = match facts.kernel >= (6, 14) {
        true => "the namespaces above",
        false => "Linux 6.14 or later, and the namespaces above",
    };
    missing("pid-max", found, lost, remedy)
}

fn host_sockets(facts: &Facts) -> Feature {
    if facts.sees_host_sockets {
        return present("host-sockets", "the host's Unix sockets can be found");
    }
    let remedy = match facts.container {
        Some(Container::Docker) => "docker run --network host ...",
        Some(Container::Podman) => "podman run --network host ...",
        Some(Container::Other) => "Kubernetes: hostNetwork: true",
        None => "run in the network namespace that the machine started with",
    };
    let lost = "hiding Unix sockets that processes in other network namespaces bound, before Landlock ABI 9 \
        (gap: unix-sockets)";
    missing("host-sockets", "this network namespace may not be the machine's first", lost, remedy)
}

/// What each ABI of Landlock brought: number, kernel, and what is lost without it.
const ABIS: [(i32, &str, &str, &str); 8] = [
    (2, "landlock-refer", "5.19", "moving and linking files between directories (EXDEV instead)"),
    (3, "landlock-truncate", "6.2", "refusing truncation where no mount does (gap: truncate)"),
    (4, "landlock-tcp", "6.7", "refusing TCP where there is no network namespace"),
    (5, "landlock-ioctl", "6.10", "refusing requests to devices (gap: ioctl)"),
    (6, "landlock-scope", "6.12", "keeping signals and abstract sockets inside where there are no namespaces"),
    (7, "landlock-audit", "6.15", "Landlock's own records as a witness of denials"),
    (8, "landlock-threads", "7.0", "nothing: commands are confined before they have threads"),
    (9, "landlock-unix", "7.1", "refusing Unix sockets by path where no mount hides them (gap: unix-sockets)"),
];

fn landlock(facts: &Facts) -> Vec<Feature> {
    let found = answer(facts, Probe::Landlock);
    let works = facts.landlock_abi > 0 && found.is_ok();
    let mut features = vec![match found {
        Ok(()) if works => present("landlock", format!("ABI {}", facts.landlock_abi)),
        found => {
            let found = found.err().unwrap_or_else(|| "not enabled".to_owned());
            let lost = "the second wall behind the mounts, and the only one where namespaces are refused";
            missing("landlock", found, lost, landlock_remedy(facts))
        }
    }];
    features.extend(ABIS.iter().map(|(abi, name, kernel, lost)| {
        if works && facts.landlock_abi >= *abi {
            return present(name, format!("ABI {abi}"));
        }
        if !works {
            return missing(name, "no Landlock", lost, format!("Landlock itself, above, on Linux {kernel} or later"));
        }
        missing(name, format!("ABI {} of {abi}", facts.landlock_abi), lost, format!("Linux {kernel} or later"))
    }));
    features
}

/// `EOPNOTSUPP` means built in and switched off, `ENOSYS` not built in, or hidden by a filter (landlock(7)).
fn landlock_remedy(facts: &Facts) -> String {
    let errno = facts.probes.get(&Probe::Landlock).and_then(|answer| answer.err()).map(Errno::from_raw);
    match (&facts.lsm, errno) {
        _ if facts.kernel < (5, 13) => "Linux 5.13 or later".to_owned(),
        (_, Some(Errno::EOPNOTSUPP)) => {
            let others = facts.lsm.as_deref().filter(|lsm| !lsm.is_empty()).unwrap_or("...");
            format!("boot with lsm=landlock,{others} (kernel command line)")
        }
        _ if facts.container.is_some() || facts.filtered => {
            "a container runtime whose seccomp profile knows Landlock (--security-opt seccomp=unconfined)".to_owned()
        }
        (_, Some(Errno::ENOSYS)) => "a kernel built with CONFIG_SECURITY_LANDLOCK=y".to_owned(),
        (Some(lsm), _) if !lsm.split(',').any(|name| name == "landlock") => {
            format!("boot with lsm=landlock,{lsm} (kernel command line)")
        }
        _ => "look at dmesg for why Landlock does not answer".to_owned(),
    }
}

fn seccomp(facts: &Facts) -> Feature {
    match answer(facts, Probe::Seccomp) {
        Ok(()) => present("seccomp", "filters can be installed"),
        Err(found) => missing("seccomp", found, "every confining mode", "a kernel built with CONFIG_SECCOMP_FILTER=y"),
    }
}

fn notification(facts: &Facts) -> Feature {
    let lost = "the best witness of denials: refused calls as the kernel sees them";
    match (answer(facts, Probe::Notification), facts.probes.get(&Probe::Notification)) {
        (Ok(()), _) => present("seccomp-notification", "refused calls can be traced"),
        (Err(found), Some(Err(errno))) if Errno::from_raw(*errno) == Errno::EBUSY => {
            missing("seccomp-notification", found, lost, "run outside the traced sandbox around this process")
        }
        (Err(found), _) if facts.kernel < (5, 6) => missing("seccomp-notification", found, lost, "Linux 5.6 or later"),
        (Err(found), _) => {
            let remedy = "no filter around this process that refuses seccomp(2) with SECCOMP_FILTER_FLAG_NEW_LISTENER";
            missing("seccomp-notification", found, lost, remedy)
        }
    }
}

fn audit(facts: &Facts) -> Feature {
    match answer(facts, Probe::Audit) {
        Ok(()) => match facts.audit {
            Some(AuditState::Disabled) => present(
                "audit",
                "the kernel's records can be read; auditing is off, and `--audit on` turns it on for a run",
            ),
            Some(AuditState::NoPermission | AuditState::NotCompiled) => missing(
                "audit",
                "only within the host's first namespaces",
                "a second witness of denials; nothing is enforced less",
                "run in the host's own PID and network namespaces",
            ),
            Some(AuditState::Readable) | None => {
                present("audit", "the kernel's records can be read, and auditing is on")
            }
        },
        Err(found) => {
            let errno = facts.probes.get(&Probe::Audit).and_then(|answer| answer.err()).map(Errno::from_raw);
            let remedy = match facts.container {
                _ if errno == Some(Errno::EPROTONOSUPPORT) => "a kernel built with CONFIG_AUDIT=y",
                Some(Container::Docker) => "docker run --cap-add AUDIT_READ ... (without userns-remap)",
                Some(Container::Podman) => {
                    "podman run --cap-add AUDIT_READ ... (as root: rootless has another user namespace)"
                }
                _ if facts.euid == 0 => "run outside the container or user namespace around this process",
                _ => "setcap cap_audit_read+ep \"$(command -v stockade)\"",
            };
            missing("audit", found, "a second witness of denials; nothing is enforced less", remedy)
        }
    }
}

fn cgroup(facts: &Facts) -> Feature {
    let lost = "a cgroup of each command's own, for limits of memory, and of processes on older kernels (gap: limits)";
    let delegate = "systemd-run --user --scope stockade ... (in a unit: Delegate=yes and DelegateSubgroup=main)";
    match &facts.cgroup {
        Cgroup::Delegated(place) => present("cgroup", format!("version 2, made in {}", place.display())),
        Cgroup::NotDelegated(error) => missing("cgroup", format!("version 2, not delegated: {error}"), lost, delegate),
        Cgroup::Version1 => {
            missing("cgroup", "version 1", lost, "boot with systemd.unified_cgroup_hierarchy=1 (kernel command line)")
        }
        Cgroup::None => missing("cgroup", "not mounted", lost, "mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

fn keyring(facts: &Facts) -> Feature {
    match answer(facts, Probe::Keyring) {
        Ok(()) => present("keyring", "each command joins a fresh one"),
        Err(found) => {
            let lost = "nothing where the kernel has no keyrings, or a filter refuses them to everybody here";
            missing("keyring", found, lost, "a kernel built with CONFIG_KEYS=y, and no filter that refuses keyctl")
        }
    }
}

fn program(name: &'static str, found: Option<&std::path::Path>) -> Feature {
    match found {
        Some(path) => present(name, path.display().to_string()),
        None if name == "bash" => {
            missing(name, "not on PATH", "shell commands: run -c, shell, the tools", "install bash")
        }
        None => missing(
            name,
            "not on PATH",
            "git itself; repositories are protected all the same",
            format!("install {name}"),
        ),
    }
}

#[cfg(test)]
#[path = "features_tests.rs"]
mod tests;
