//! What doctor has seen: plain data, judged by [`features`](super::features).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::denial::audit::AuditState;
use crate::host::{CgroupError, leaf_place};
use crate::launcher::{Probe, SetupFailure};

/// Everything that was seen of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Effective uid.
    pub euid: u32,
    /// Kernel release as the kernel writes it.
    pub release: String,
    /// Major and minor.
    pub kernel: (u32, u32),
    /// What each probe was answered; a missing one could not be tried.
    pub probes: BTreeMap<Probe, Result<(), i32>>,
    /// Landlock ABI, 0 for none.
    pub landlock_abi: i32,
    /// Every Unix socket of the host can be found.
    pub sees_host_sockets: bool,
    /// The step at which a fresh `/proc` was refused; `None` when it was mounted, or never came to that.
    pub fresh_proc_refused: Option<SetupFailure>,
    /// A sandbox with namespaces was built.
    pub sandbox_built: bool,
    /// `kernel.pid_max` inside such a sandbox was its own.
    pub own_pid_max: bool,
    /// Why there is no launcher.
    pub no_launcher: Option<String>,
    /// Where bash is.
    pub bash: Option<PathBuf>,
    /// Where git is.
    pub git: Option<PathBuf>,
    /// The container runtime around us, where it can be told.
    pub container: Option<Container>,
    /// A seccomp filter is on us already.
    pub filtered: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` is on.
    pub apparmor_restricts: bool,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// Other kinds of namespaces whose limit (`user.max_KIND_namespaces`) is 0: `mnt`, `pid`, `ipc`, `uts`, `cgroup`, `net`.
    pub no_namespaces_of: Vec<&'static str>,
    /// `kernel.unprivileged_userns_clone` (Debian's) is 0.
    pub userns_clone_off: bool,
    /// Security modules that are on, as `/sys/kernel/security/lsm` lists them.
    pub lsm: Option<String>,
    /// The cgroup we are in.
    pub cgroup: Cgroup,
    /// Whether audit records can be read, and are written.
    pub audit: Option<AuditState>,
}

/// A container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    /// Docker, or something with its marks.
    Docker,
    /// Podman.
    Podman,
    /// Another.
    Other,
}

/// What the cgroup hierarchy offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cgroup {
    /// Version 2, and groups with bounds of memory and processes can be made here.
    Delegated(PathBuf),
    /// Version 2, and none can be made: what the kernel said.
    NotDelegated(String),
    /// Version 1.
    Version1,
    /// None is mounted.
    #[default]
    None,
}

impl Facts {
    /// Reads what can be read without trying anything.
    pub(super) fn read(&mut self) {
        let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        self.apparmor_restricts = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1);
        self.max_user_namespaces = number("/proc/sys/user/max_user_namespaces");
        let forbidden = |kind: &&str| number(&format!("/proc/sys/user/max_{kind}_namespaces")) == Some(0);
        self.no_namespaces_of = ["mnt", "pid", "ipc", "uts", "cgroup", "net"].into_iter().filter(forbidden).collect();
        self.userns_clone_off = number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0);
        self.lsm = std::fs::read_to_string("/sys/kernel/security/lsm").ok().map(|text| text.trim().to_owned());
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        self.filtered = status.lines().any(|line| line.starts_with("Seccomp:") && line.trim_end().ends_with('2'));
        self.container = container();
        self.cgroup = cgroup();
        self.audit = Some(AuditState::detect());
        self.bash = on_path("bash");
        self.git = on_path("git");
    }
}

fn container() -> Option<Container> {
    if Path::new("/run/.containerenv").exists() {
        return Some(Container::Podman);
    }
    if Path::new("/.dockerenv").exists() {
        return Some(Container::Docker);
    }
    let environment = std::fs::read("/proc/1/environ").unwrap_or_default();
    let named = environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"container="));
    let sandboxed = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    (named || sandboxed).then_some(Container::Other)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates
        .filter(|path| path.is_absolute() && path.is_file())
        .find(|path| nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok())
}

fn cgroup() -> Cgroup {
    match leaf_place() {
        Ok(place) => Cgroup::Delegated(place),
        Err(CgroupError::NotMounted) => Cgroup::None,
        Err(CgroupError::Version1) => Cgroup::Version1,
        Err(error) => Cgroup::NotDelegated(error.to_string()),
    }
}
