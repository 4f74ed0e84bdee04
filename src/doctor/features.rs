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
        namespace(facts, Probe::UserNamespace, "sandboxes by ordinary users with mounts of their own"),
        namespace(facts, Probe::MountNamespace, "read-only mounts: metadata, protected and masked paths"),
        namespace(
            facts,
            Probe::PidNamespace,
            "the certainty that nothing outlives a command, and not seeing the host's processes",
        ),
        namespace(facts, Probe::IpcNamespace, "keeping System V and POSIX IPC of the host out of reach"),
        namespace(facts, Probe::UtsNamespace, "a host name that commands cannot change"),
        namespace(facts, Probe::CgroupNamespace, "hiding the host's cgroups"),
        namespace(facts, Probe::NetworkNamespace, "a network of its own: UDP, abstract sockets, allowlists"),
        fresh_proc(facts),
        pid_max(facts),
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

/// The switch that is most likely to be the one.
fn namespace_remedy(facts: &Facts, probe: Probe) -> String {
    let no_users = facts.probes.get(&Probe::UserNamespace).is_some_and(Result::is_err);
    let permanent = "(and the same line in /etc/sysctl.d/ to keep it)";
    if facts.max_user_namespaces == Some(0) {
        return format!("sysctl -w user.max_user_namespaces=15000 {permanent}");
    }
    if facts.userns_clone_off {
        return format!("sysctl -w kernel.unprivileged_userns_clone=1 {permanent}");
    }
    if facts.apparmor_restricts && facts.euid != 0 {
        return format!("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 {permanent}");
    }
    match facts.container {
        Some(Container::Docker) => "docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined \
            --security-opt apparmor=unconfined ..."
            .to_owned(),
        Some(Container::Podman) => "podman run --cap-add SYS_ADMIN --security-opt seccomp=unconfined ...".to_owned(),
        Some(Container::Other) => "give the container CAP_SYS_ADMIN and no seccomp profile (Kubernetes: \
            securityContext.capabilities.add and seccompProfile.type=Unconfined)"
            .to_owned(),
        None if facts.filtered => "run outside the sandbox whose seccomp filter is on this process".to_owned(),
        None if no_users || probe == Probe::UserNamespace => "a kernel built with CONFIG_USER_NS=y".to_owned(),
        None => "a kernel built with CONFIG_NAMESPACES=y and every namespace".to_owned(),
    }
}

fn fresh_proc(facts: &Facts) -> Feature {
    let lost = "hiding the host's processes: /proc shows them";
    match (&facts.fresh_proc_refused, facts.sandbox_built) {
        (None, true) => present("fresh-proc", "mounted"),
        (None, false) => missing("fresh-proc", "no sandbox with mounts could be built", lost, "the namespaces above"),
        (Some(failure), _) => {
            let remedy = match facts.container {
                Some(Container::Podman) => "podman run --security-opt unmask=ALL ...",
                Some(Container::Other) => "Kubernetes: securityContext.procMount=Unmasked",
                _ => "docker run --security-opt systempaths=unconfined ...",
            };
            missing("fresh-proc", failure.to_string(), lost, remedy)
        }
    }
}

fn pid_max(facts: &Facts) -> Feature {
    if facts.own_pid_max {
        return present("pid-max", "limited in each PID namespace");
    }
    let remedy = if facts.kernel >= (6, 14) && facts.euid != 0 {
        "nothing to do: RLIMIT_NPROC limits an ordinary user's sandboxes"
    } else {
        "Linux 6.14 or later, and the namespaces above"
    };
    missing(
        "pid-max",
        format!("not limited by namespace on Linux {}", facts.release),
        "a process limit that binds root",
        remedy,
    )
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
        missing(name, format!("ABI {} of {abi}", facts.landlock_abi), lost, format!("Linux {kernel} or later"))
    }));
    features
}

fn landlock_remedy(facts: &Facts) -> String {
    match &facts.lsm {
        _ if facts.kernel < (5, 13) => "Linux 5.13 or later".to_owned(),
        Some(lsm) if !lsm.split(',').any(|name| name == "landlock") => {
            format!("boot with lsm=landlock,{lsm} (kernel command line)")
        }
        _ if facts.container.is_some() || facts.filtered => {
            "a container runtime whose seccomp profile knows Landlock (--security-opt seccomp=unconfined)".to_owned()
        }
        Some(_) => "look at dmesg for why Landlock is listed and does not answer".to_owned(),
        None => "boot with lsm=landlock,... and a kernel built with CONFIG_SECURITY_LANDLOCK=y".to_owned(),
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
        (Err(found), _) => missing("seccomp-notification", found, lost, "Linux 5.5 or later"),
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
            let remedy = match facts.container {
                Some(Container::Docker) => "docker run --cap-add AUDIT_READ ... (in the host's namespaces)",
                Some(Container::Podman) => "podman run --cap-add AUDIT_READ ... (in the host's namespaces)",
                _ => "setcap cap_audit_read+ep stockade, on a kernel with CONFIG_AUDIT=y",
            };
            missing("audit", found, "a second witness of denials; nothing is enforced less", remedy)
        }
    }
}

fn cgroup(facts: &Facts) -> Feature {
    let lost = "a cgroup of each command's own, which a memory limit of a policy needs (gap: limits)";
    let delegate = "systemd-run --user --scope -p Delegate=yes stockade ... (in a unit: Delegate=yes)";
    match &facts.cgroup {
        Cgroup::Delegated(controllers)
            if ["memory", "pids"].iter().all(|c| controllers.split(' ').any(|d| d == *c)) =>
        {
            present("cgroup", format!("version 2, delegated: {controllers}"))
        }
        Cgroup::Delegated(controllers) => {
            missing("cgroup", format!("version 2, without memory or pids (has: {controllers})"), lost, delegate)
        }
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
