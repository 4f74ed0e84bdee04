//! What a cell of the matrix is: an operation, where it is tried, and what each mode promises of it.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use crate::executor::Gap;
use crate::policy::SandboxMode;

/// What becomes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It does on the host what it says.
    Lands,
    /// It fails, and the host is as it was.
    Refused,
    /// It succeeds in a place that is the sandbox's own, and the host is as it was.
    Private,
    /// What it says of itself and what the host shows do not agree.
    Unclear,
    /// It was not tried, or never answered.
    NoAnswer,
}

impl Outcome {
    /// The word used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lands => "lands",
            Self::Refused => "refused",
            Self::Private => "private",
            Self::Unclear => "unclear",
            Self::NoAnswer => "no-answer",
        }
    }
}

/// What belongs together in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is described by its title")]
pub enum Group {
    Workspace,
    Outside,
    Protected,
    Private,
    Secrets,
    Processes,
    Ipc,
    Network,
    Sockets,
    Mounts,
    Namespaces,
    Keyrings,
    Kernel,
    KernelFiles,
    Terminal,
    Privileges,
    Limits,
}

impl Group {
    /// Every group, in the order of reports.
    pub const ALL: [Self; 17] = [
        Self::Workspace,
        Self::Outside,
        Self::Protected,
        Self::Private,
        Self::Secrets,
        Self::Processes,
        Self::Ipc,
        Self::Network,
        Self::Sockets,
        Self::Mounts,
        Self::Namespaces,
        Self::Keyrings,
        Self::Kernel,
        Self::KernelFiles,
        Self::Terminal,
        Self::Privileges,
        Self::Limits,
    ];

    /// Its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Workspace => "Files in the workspace",
            Self::Outside => "Files elsewhere",
            Self::Protected => "What makes other programs run code later",
            Self::Private => "Temporary files",
            Self::Secrets => "Secrets",
            Self::Processes => "Other processes",
            Self::Ipc => "Shared objects of the host",
            Self::Network => "Network",
            Self::Sockets => "Unix sockets",
            Self::Mounts => "Mounts",
            Self::Namespaces => "Namespaces",
            Self::Keyrings => "Keyrings",
            Self::Kernel => "Kernel services",
            Self::KernelFiles => "Files of the kernel, devices",
            Self::Terminal => "Terminals",
            Self::Privileges => "Privileges",
            Self::Limits => "Limits and the end of a command",
        }
    }
}

/// Where a file operation is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Workspace,
    Outside,
    /// The same directory, by a path through `/proc`.
    OutsideByProc,
    GitHooks,
    GitConfig,
    GitDirectory,
    GitObjects,
    EditorSettings,
    AgentSettings,
    ShellSettings,
    Tmp,
    DevShm,
    Tmpdir,
    Secrets,
    SecretsByProc,
    CloudSecrets,
    PasswordFile,
    System,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileAct {
    Create,
    Write,
    Append,
    Truncate,
    Rename,
    RenameDirectory,
    Exchange,
    HardLink,
    LinkIntoWorkspace,
    Symlink,
    Remove,
    Mkdir,
    Rmdir,
    Mkfifo,
    MknodDevice,
    Chmod,
    SetUserId,
    Chown,
    Utimes,
    Xattr,
    WriteThroughSymlink,
    Read,
    Execute,
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    File(FileAct, Place),
    /// A system call with arguments that can do nothing: told is whether the kernel gets to see it.
    Reach(&'static str),
    /// Opening a file of the kernel's.
    OpenRead(&'static str),
    OpenWrite(&'static str),
    /// Opening a disk, whichever there is, for reading.
    OpenDisk,
    SignalChild,
    Terminate,
    Stop,
    KillByDescriptor,
    See,
    ReadEnvironment,
    ReadMemoryByCall,
    WriteMemoryByCall,
    ReadMemoryByFile,
    WriteMemoryByFile,
    ReadDescriptorByFile,
    TakeDescriptor,
    WalkItsRoot,
    Trace,
    Renice,
    Affinity,
    ResourceLimit,
    OutOfMemoryScore,
    MessageQueue,
    PosixQueue,
    HostKeys,
    OwnLoopback,
    TcpConnect,
    UdpSend,
    RawSocket,
    PacketSocket,
    AuditSocket,
    UnixStream(Place),
    UnixDatagram(Place),
    AimedSocketPair,
    UnixAbstract,
    MountTmpfs,
    UserNamespace,
    ForeignTable32,
    ForeignTableX32,
    SecretVariable,
    Capabilities,
    GainPrivileges,
    BecomeAnother,
    CoreFile,
    ManyProcesses,
    LargeTmp,
    Outlive,
}

impl Act {
    /// It changes what the process itself is or may, so it is tried in one of its own.
    pub(super) const fn in_a_process_of_its_own(self) -> bool {
        matches!(
            self,
            Self::UserNamespace
                | Self::MountTmpfs
                | Self::ForeignTable32
                | Self::ForeignTableX32
                | Self::BecomeAnother
                | Self::ManyProcesses
        )
    }

    /// What allows it in a network that the policy opens.
    pub(super) const fn needs_network(self) -> bool {
        matches!(self, Self::TcpConnect | Self::UdpSend)
    }
}

/// One cell: an operation and what is promised of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) group: Group,
    /// What is tried, in words.
    pub(super) what: &'static str,
    /// Where, in words; empty when `what` says it.
    pub(super) place: &'static str,
    pub(super) act: Act,
    pub(super) read_only: Outcome,
    pub(super) workspace_write: Outcome,
    /// The gap that, where a run reports it, says that this promise is not kept there.
    pub(super) gap: Option<Gap>,
}

impl Cell {
    /// A name that stays: words joined by dashes.
    pub(super) fn id(&self) -> String {
        let words = format!("{} {}", self.what, self.place).to_lowercase();
        let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }

    /// What a mode promises; `danger-full-access` promises that nothing is in the way.
    pub(super) const fn expected(&self, mode: SandboxMode) -> Outcome {
        match mode {
            SandboxMode::ReadOnly => self.read_only,
            SandboxMode::WorkspaceWrite => self.workspace_write,
            SandboxMode::DangerFullAccess => Outcome::Lands,
        }
    }
}
