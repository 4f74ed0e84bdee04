//! The facts a plan depends on.

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::unistd::{getegid, geteuid};
use serde::Serialize;

use crate::launcher::{SetupFailure, Stage};

/// How namespaces are created here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamespaceRoute {
    /// With CAP_SYS_ADMIN, without a user namespace.
    Privileged,
    /// Through a user namespace.
    UserNamespace,
    /// Not at all.
    Refused,
}

/// What this host offers to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct HostSupport {
    /// Effective uid of the executor.
    pub euid: u32,
    /// Effective gid of the executor.
    pub egid: u32,
    /// Kernel release, major and minor.
    pub kernel: (u32, u32),
    /// Landlock ABI; 0 for none.
    pub landlock_abi: i32,
    /// Seccomp filters can be installed.
    pub seccomp: bool,
    /// Route to namespaces and mounts.
    pub namespaces: NamespaceRoute,
    /// A network namespace can be had.
    pub network_namespace: bool,
    /// A fresh `/proc` can be mounted in a new PID namespace.
    pub fresh_proc: bool,
    /// Every pathname socket of the host can be found, so that it can be covered: nothing else keeps a command from
    /// them before Landlock ABI 9. False in a network namespace that is not, or may not be, the machine's first.
    pub sees_host_sockets: bool,
    /// Refusals that led here, in the order in which they were met.
    pub refusals: Vec<SetupFailure>,
}

/// The host could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The Landlock version call failed in an unknown way.
    #[error("the kernel's Landlock version cannot be read: {0}")]
    Landlock(#[source] Errno),
    /// The executor's own capabilities cannot be read.
    #[error("the executor's capabilities cannot be read: {0}")]
    Capabilities(#[source] caps::errors::CapsError),
    /// `uname(2)` failed or its release is not a version.
    #[error("the kernel's release '{0}' cannot be understood")]
    Release(String),
}

impl HostSupport {
    /// Asks what can be asked without building anything.
    ///
    /// # Errors
    /// When a question that every supported kernel answers is not answered.
    pub fn detect() -> Result<Self, HostError> {
        let release = nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .map_err(|errno| HostError::Release(errno.to_string()))?;
        let kernel = parse_release(&release).ok_or(HostError::Release(release))?;
        let privileged =
            caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).map_err(HostError::Capabilities)?;
        Ok(Self {
            euid: geteuid().as_raw(),
            egid: getegid().as_raw(),
            kernel,
            landlock_abi: crate::kernel::landlock_abi().map_err(HostError::Landlock)?,
            seccomp: crate::kernel::has_seccomp(),
            namespaces: if privileged { NamespaceRoute::Privileged } else { NamespaceRoute::UserNamespace },
            network_namespace: true,
            fresh_proc: true,
            sees_host_sockets: super::sockets::table_is_complete(),
            refusals: Vec::new(),
        })
    }

    /// Process limits are per PID namespace since Linux 6.14 (`kernel.pid_max` became namespaced).
    #[must_use]
    pub fn pid_max_is_namespaced(&self) -> bool {
        self.kernel >= (6, 14)
    }

    /// What is left when a step of building a sandbox was refused, or `None` when the failure does not tell of a
    /// missing ability (then it must be reported, not worked around).
    ///
    /// Only answers that mean "you may not" or "there is no such thing" count. A full table (`ENOSPC`, `EAGAIN`,
    /// `ENOMEM`) is trouble, not a property of the host: weakening the sandbox for it would let load decide enforcement.
    #[must_use]
    pub fn without(&self, failure: &SetupFailure) -> Option<Self> {
        let refused = [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EINVAL, Errno::EOPNOTSUPP];
        let errno = Errno::from_raw(failure.errno);
        let no_user_namespaces = errno == Errno::ENOSPC && user_namespaces_are_off();
        if !(refused.contains(&errno) || no_user_namespaces) || self.namespaces == NamespaceRoute::Refused {
            return None;
        }
        let mut less = self.clone();
        less.refusals.push(failure.clone());
        match failure.stage {
            Stage::Namespaces if errno == Errno::EINVAL && self.network_namespace => less.network_namespace = false,
            Stage::Namespaces | Stage::IdMaps | Stage::ReadOnlyRoot | Stage::Loopback => {
                less.namespaces = match self.namespaces {
                    NamespaceRoute::Privileged => NamespaceRoute::UserNamespace,
                    NamespaceRoute::UserNamespace | NamespaceRoute::Refused => NamespaceRoute::Refused,
                };
                less.network_namespace = true;
            }
            Stage::Proc if self.fresh_proc => less.fresh_proc = false,
            _ if foundation_is_refused(failure, errno) => less.namespaces = NamespaceRoute::Refused,
            _ => return None,
        }
        Some(less)
    }
}

/// Namespaces can be had and mounting in them cannot (a filter, a security module). These are the first mount calls of
/// any sandbox; they name no path of a policy, whose own permissions would be no reason to do without mounts.
fn foundation_is_refused(failure: &SetupFailure, errno: Errno) -> bool {
    let of_no_policy = failure.stage == Stage::Dev || failure.path.is_none();
    let stages = [Stage::BindSources, Stage::Dev, Stage::Binds];
    stages.contains(&failure.stage) && of_no_policy && [Errno::EPERM, Errno::EACCES, Errno::ENOSYS].contains(&errno)
}

/// `ENOSPC` from clone means that a quota of namespaces is used up; a quota of zero is a switch, not a shortage.
fn user_namespaces_are_off() -> bool {
    std::fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() == "0")
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostSupport {
        HostSupport {
            euid: 1000,
            egid: 1000,
            kernel: (6, 18),
            landlock_abi: 7,
            seccomp: true,
            namespaces: NamespaceRoute::Privileged,
            network_namespace: true,
            fresh_proc: true,
            sees_host_sockets: true,
            refusals: Vec::new(),
        }
    }

    fn failure(stage: Stage, errno: Errno) -> SetupFailure {
        SetupFailure { stage, errno: errno as i32, path: None }
    }

    #[test]
    fn releases_are_read() {
        assert_eq!(parse_release("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(parse_release("5.10.0-33-amd64"), Some((5, 10)));
        assert_eq!(parse_release("x"), None);
    }

    #[test]
    fn a_refusal_leads_down_one_step_at_a_time() {
        let first = host().without(&failure(Stage::Namespaces, Errno::EPERM)).unwrap();
        assert_eq!(first.namespaces, NamespaceRoute::UserNamespace);
        let second = first.without(&failure(Stage::Namespaces, Errno::EPERM)).unwrap();
        assert_eq!(second.namespaces, NamespaceRoute::Refused);
        assert_eq!(second.without(&failure(Stage::Namespaces, Errno::EPERM)), None);
        assert_eq!(second.refusals.len(), 2);
    }

    #[test]
    fn shortage_and_bugs_never_weaken_the_sandbox() {
        for errno in [Errno::ENOMEM, Errno::EAGAIN, Errno::EMFILE, Errno::ENOENT] {
            assert_eq!(host().without(&failure(Stage::Namespaces, errno)), None, "{errno}");
        }
        for stage in [Stage::Landlock, Stage::Seccomp, Stage::NoNewPrivs, Stage::Capabilities] {
            assert_eq!(host().without(&failure(stage, Errno::EPERM)), None, "{stage}");
        }
        let of_a_rule = SetupFailure { path: Some("/secret".into()), ..failure(Stage::Binds, Errno::EACCES) };
        assert_eq!(host().without(&of_a_rule), None);
    }

    #[test]
    fn mounts_that_are_refused_are_done_without() {
        for (stage, errno) in
            [(Stage::BindSources, Errno::ENOSYS), (Stage::Dev, Errno::EPERM), (Stage::Binds, Errno::EPERM)]
        {
            let less = host().without(&failure(stage, errno)).unwrap();
            assert_eq!(less.namespaces, NamespaceRoute::Refused, "{stage}");
        }
    }
}
