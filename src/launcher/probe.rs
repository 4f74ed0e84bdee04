//! Trying one ability of the kernel in a process of its own, which ends right after.
//!
//! Some abilities belong to a single-threaded process (a user namespace), and all of them change the process that has them:
//! so each is tried in a child that is this program executed again, like the launcher itself.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket};
use nix::unistd::{getegid, geteuid};
use seccompiler::sock_filter;
use serde::Serialize;

use super::domain;
use super::locate::{LauncherError, LauncherPath};
use crate::kernel;
use crate::plan::{LandlockGrant, LandlockPlan, LandlockRule};

/// The argument that makes a process try something. The ability's name follows.
pub(super) const PROBE_ARGUMENT: &str = "--stockade-probe";

/// One ability of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A user namespace with one uid and gid mapped.
    UserNamespace,
    /// A mount namespace, and a mount within.
    MountNamespace,
    /// A PID namespace.
    PidNamespace,
    /// An IPC namespace.
    IpcNamespace,
    /// A UTS namespace.
    UtsNamespace,
    /// A cgroup namespace.
    CgroupNamespace,
    /// A network namespace with its loopback up.
    NetworkNamespace,
    /// A Landlock domain.
    Landlock,
    /// A seccomp filter.
    Seccomp,
    /// A seccomp filter with a listener for user notifications.
    Notification,
    /// A session keyring of its own.
    Keyring,
    /// The kernel's audit records.
    Audit,
}

impl Probe {
    /// Every probe.
    pub const ALL: [Self; 12] = [
        Self::UserNamespace,
        Self::MountNamespace,
        Self::PidNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::CgroupNamespace,
        Self::NetworkNamespace,
        Self::Landlock,
        Self::Seccomp,
        Self::Notification,
        Self::Keyring,
        Self::Audit,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserNamespace => "user-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::NetworkNamespace => "network-namespace",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Notification => "seccomp-notification",
            Self::Keyring => "keyring",
            Self::Audit => "audit",
        }
    }

    /// Tries it in a child process. The inner result is the kernel's answer.
    ///
    /// # Errors
    /// When there is no launcher, or it cannot be started.
    pub fn attempt(self, launcher: &LauncherPath) -> Result<Result<(), Errno>, LauncherError> {
        let path = launcher.resolve()?;
        let mut command = Command::new(&path);
        command.arg(PROBE_ARGUMENT).arg(self.as_str()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|source| LauncherError::Start { path, source })?;
        match status.code() {
            Some(0) => Ok(Ok(())),
            Some(errno) => Ok(Err(Errno::from_raw(errno))),
            None => Err(LauncherError::Unreachable(format!("the probe {} was killed", self.as_str()))),
        }
    }
}

/// Tries what `name` says in this process; the exit status is the errno.
pub(super) fn run(name: &OsStr) -> i32 {
    let Some(probe) = Probe::ALL.into_iter().find(|probe| name == probe.as_str()) else {
        return Errno::EINVAL as i32;
    };
    let tried = match probe {
        Probe::UserNamespace => enter_user_namespace(),
        Probe::MountNamespace => namespace(CloneFlags::CLONE_NEWNS).and_then(|()| mount_something()),
        Probe::PidNamespace => namespace(CloneFlags::CLONE_NEWPID),
        Probe::IpcNamespace => namespace(CloneFlags::CLONE_NEWIPC),
        Probe::UtsNamespace => namespace(CloneFlags::CLONE_NEWUTS),
        Probe::CgroupNamespace => namespace(CloneFlags::CLONE_NEWCGROUP),
        Probe::NetworkNamespace => {
            namespace(CloneFlags::CLONE_NEWNET).and_then(|()| kernel::bring_loopback_up().map_err(errno_of))
        }
        Probe::Landlock => enter_domain(),
        Probe::Seccomp => prctl::set_no_new_privs().and_then(|()| kernel::install_filter(&allow_everything(), false)),
        Probe::Notification => {
            prctl::set_no_new_privs().and_then(|()| kernel::install_filter_with_listener(&allow_everything()).map(drop))
        }
        Probe::Keyring => kernel::join_fresh_session_keyring(),
        Probe::Audit => listen_to_audit(),
    };
    tried.err().map_or(0, |errno| errno as i32)
}

fn errno_of(error: impl Into<std::io::Error>) -> Errno {
    Errno::from_raw(error.into().raw_os_error().unwrap_or(libc::EIO))
}

/// As a sandbox gets its namespaces: with CAP_SYS_ADMIN directly, else through a user namespace.
fn namespace(flag: CloneFlags) -> Result<(), Errno> {
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).unwrap_or(false) && unshare(flag).is_ok() {
        return Ok(());
    }
    enter_user_namespace()?;
    unshare(flag)
}

fn enter_user_namespace() -> Result<(), Errno> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    for (path, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ] {
        std::fs::write(path, content).map_err(errno_of)?;
    }
    Ok(())
}

fn mount_something() -> Result<(), Errno> {
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, nothing)
}

/// A domain of the oldest ABI: each later one only adds rights.
fn enter_domain() -> Result<(), Errno> {
    prctl::set_no_new_privs()?;
    let root = LandlockRule { path: "/".into(), grant: LandlockGrant::Read, optional: false };
    let plan = LandlockPlan {
        abi: 1,
        grants: vec![root],
        refuse_tcp: false,
        scope_signals: false,
        scope_abstract_sockets: false,
        refuse_sockets: false,
        audit: false,
    };
    domain::enter(&plan).map_err(|error| error.errno())
}

fn allow_everything() -> [sock_filter; 1] {
    [sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }]
}

/// Joins the multicast group of audit records (AUDIT_NLGRP_READLOG), which takes CAP_AUDIT_READ.
fn listen_to_audit() -> Result<(), Errno> {
    const READ_LOG: u32 = 1;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkAudit)?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &NetlinkAddr::new(0, READ_LOG))
}
