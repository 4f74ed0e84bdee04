//! The plan: everything the launcher needs to know, as plain data. It holds no policy and asks no questions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What confines the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Namespaces and mounts, with Landlock and seccomp within.
    Namespaces,
    /// Landlock and seccomp alone, where namespaces or mounts are refused.
    Landlock,
    /// Nothing: `danger-full-access`.
    Unconfined,
}

impl Backend {
    /// The name used by `--backend` and by doctor.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Unconfined => "unconfined",
        }
    }
}

/// Ids mapped into a new user namespace: each maps to itself, so that the command sees the identity it really has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdMap {
    /// The one uid.
    pub uid: u32,
    /// The one gid.
    pub gid: u32,
}

/// Namespaces to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Namespaces {
    /// A user namespace with this map; `None` when the launcher holds CAP_SYS_ADMIN and needs none.
    pub user: Option<IdMap>,
    /// A network namespace, not the host's.
    pub network: bool,
    /// With `network`: the number of the session whose network it is; `None` for one of its own.
    pub session_network: Option<u32>,
}

/// How a path of the host appears inside.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MountKind {
    /// The host's own content, writable. Submounts stay read-only unless they have an operation of their own.
    Writable,
    /// The host's own content, read-only.
    ReadOnly,
    /// An empty read-only directory in place of the host's.
    MaskDirectory {
        /// Something is mounted beneath it, so it needs a directory tree of its own.
        populated: bool,
    },
    /// An empty read-only file in place of the host's.
    MaskFile,
    /// The sandbox's own resolver settings in place of the host's: its loopback has the one name server there is.
    NameServer,
    /// A writable directory of the sandbox's own.
    Private(PrivateSource),
}

/// What stands in for `/tmp` and the like.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PrivateSource {
    /// Memory, gone with the sandbox.
    Memory {
        /// Size limit, bytes.
        size: u64,
    },
    /// A directory on the host that outlives the sandbox: the session's.
    Directory(#[serde(with = "crate::policy::path_text")] PathBuf),
}

/// One mount operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MountOp {
    /// Absolute, canonical path.
    #[serde(with = "crate::policy::path_text")]
    pub path: PathBuf,
    /// What to put there.
    pub kind: MountKind,
    /// The path lies beneath a masked or private directory of ours: the mount point has to be made there.
    /// Elsewhere a missing mount point is an error and nothing is ever created on the host.
    pub make_target: bool,
    /// The host may remove the path while the sandbox is built, and nothing inside can bring it back: then there is
    /// nothing left to cover.
    pub may_vanish: bool,
}

/// The mount half of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MountPlan {
    /// Operations, parents before children.
    pub ops: Vec<MountOp>,
    /// A fresh read-only `/proc` for the new PID namespace; otherwise the host's stays, read-only.
    pub fresh_proc: bool,
    /// A private `/dev`.
    pub private_dev: bool,
}

/// Rights granted beneath one path by Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LandlockGrant {
    /// List directories.
    List,
    /// Read and execute.
    Read,
    /// Everything but device nodes and device requests.
    ReadWrite,
    /// Read, write and device requests on one device.
    Device,
}

/// The Landlock half of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// ABI the rules are written for: the kernel's own, or the newest the crate knows.
    pub abi: i32,
    /// Grants by path. A path that is gone by then is an error unless `optional`.
    pub grants: Vec<LandlockRule>,
    /// Refuse TCP bind and connect altogether.
    pub refuse_tcp: bool,
    /// Keep signals within the domain.
    pub scope_signals: bool,
    /// Keep abstract sockets within the domain.
    pub scope_abstract_sockets: bool,
    /// From ABI 9 on: reach no Unix socket that a process outside the domain bound, in writable places neither. The
    /// domain's own stay in reach (landlock(7), LANDLOCK_ACCESS_FS_RESOLVE_UNIX).
    pub refuse_sockets: bool,
    /// Record denials in the audit log after exec as well.
    pub audit: bool,
}

/// One Landlock grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LandlockRule {
    /// The path.
    #[serde(with = "crate::policy::path_text")]
    pub path: PathBuf,
    /// What is granted beneath it.
    pub grant: LandlockGrant,
    /// Nothing is lost when the path is missing.
    pub optional: bool,
}

/// One BPF instruction: code, jump-if-true, jump-if-false, operand.
pub type Instruction = (u16, u8, u8, u32);

/// A resource limit, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Soft and hard value.
    pub value: u64,
}

/// What a sandbox with namespaces stands on, whatever its policy: enough to build that part ahead of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Namespaces.
    pub namespaces: Namespaces,
    /// See [`MountPlan::fresh_proc`].
    pub fresh_proc: bool,
    /// See [`MountPlan::private_dev`].
    pub private_dev: bool,
}

impl SandboxPlan {
    /// The shape of this sandbox; `None` when it has no namespaces.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        let (namespaces, mounts) = (self.namespaces?, self.mounts.as_ref()?);
        Some(Shape { namespaces, fresh_proc: mounts.fresh_proc, private_dev: mounts.private_dev })
    }
}

/// A sandbox, completely described.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// What confines.
    pub backend: Backend,
    /// Namespaces; `None` for none at all.
    pub namespaces: Option<Namespaces>,
    /// Mounts; present exactly when there is a mount namespace.
    pub mounts: Option<MountPlan>,
    /// Open a listening socket on this port of the sandbox's own loopback and hand it to the host, whose proxy is then
    /// the only way out.
    pub proxy_port: Option<u16>,
    /// Limit of processes in the PID namespace, where the kernel has one per namespace (Linux 6.14).
    pub pid_max: Option<u32>,
    /// Landlock; `None` when the kernel has none or nothing is confined.
    pub landlock: Option<LandlockPlan>,
    /// Seccomp filters, installed in order.
    pub filters: Vec<Vec<Instruction>>,
    /// The trace filter, installed last with a listener.
    pub trace: Option<Vec<Instruction>>,
    /// Drop every capability but those that ordinary work as root in a foreign-owned workspace needs.
    pub drop_capabilities: bool,
    /// Resource limits.
    pub rlimits: Vec<Rlimit>,
    /// Enter the control group whose entrance came with the run.
    pub cgroup: bool,
    /// A stage that is to fail, so that a deployment or a test can prove that a failure there stops the command.
    /// It can only make less run.
    pub fault: Option<Fault>,
}

/// A failure made to order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    /// The stage that fails before it does anything.
    pub stage: crate::launcher::Stage,
    /// With this errno.
    pub errno: i32,
}
