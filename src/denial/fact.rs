//! The denial fact: one access that was refused, and everything known about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::SandboxMode;

/// What was refused. The names are those of the contract (`fs.create`, `net.connect`, ...).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DenialKind {
    /// A new file, directory, link, socket or device.
    #[serde(rename = "fs.create")]
    FsCreate,
    /// Writing to something that exists.
    #[serde(rename = "fs.write")]
    FsWrite,
    /// Shortening or emptying a file that exists.
    #[serde(rename = "fs.truncate")]
    FsTruncate,
    /// Removing a name.
    #[serde(rename = "fs.remove")]
    FsRemove,
    /// Moving or exchanging a name.
    #[serde(rename = "fs.rename")]
    FsRename,
    /// Mode, owner, times, attributes.
    #[serde(rename = "fs.metadata")]
    FsMetadata,
    /// Reading a masked file or directory.
    #[serde(rename = "fs.read")]
    FsRead,
    /// Executing a file.
    #[serde(rename = "fs.execute")]
    FsExecute,
    /// An outgoing connection or datagram.
    #[serde(rename = "net.connect")]
    NetConnect,
    /// Listening on an address.
    #[serde(rename = "net.bind")]
    NetBind,
    /// Looking a name up.
    #[serde(rename = "net.resolve")]
    NetResolve,
    /// A Unix socket of the host, by path or abstract name.
    #[serde(rename = "unix.connect")]
    UnixConnect,
    /// A signal to a process outside.
    #[serde(rename = "signal")]
    Signal,
    /// Tracing or reading another process.
    #[serde(rename = "ptrace")]
    Ptrace,
    /// A new namespace.
    #[serde(rename = "namespace")]
    Namespace,
    /// A change to the mount tree.
    #[serde(rename = "mount")]
    Mount,
    /// Any other refused system call.
    #[serde(rename = "syscall")]
    Syscall,
    /// A privilege the command does not hold.
    #[serde(rename = "capability")]
    Capability,
    /// A refused device request.
    #[serde(rename = "ioctl")]
    Ioctl,
    /// A resource limit that was hit.
    #[serde(rename = "limit")]
    Limit,
}

/// The three words a result marker chooses among.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenialClass {
    /// `file access`
    FileAccess,
    /// `network access`
    NetworkAccess,
    /// `operation`
    Operation,
}

impl DenialKind {
    /// The contract's name of the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FsCreate => "fs.create",
            Self::FsWrite => "fs.write",
            Self::FsTruncate => "fs.truncate",
            Self::FsRemove => "fs.remove",
            Self::FsRename => "fs.rename",
            Self::FsMetadata => "fs.metadata",
            Self::FsRead => "fs.read",
            Self::FsExecute => "fs.execute",
            Self::NetConnect => "net.connect",
            Self::NetBind => "net.bind",
            Self::NetResolve => "net.resolve",
            Self::UnixConnect => "unix.connect",
            Self::Signal => "signal",
            Self::Ptrace => "ptrace",
            Self::Namespace => "namespace",
            Self::Mount => "mount",
            Self::Syscall => "syscall",
            Self::Capability => "capability",
            Self::Ioctl => "ioctl",
            Self::Limit => "limit",
        }
    }

    /// Which word a marker uses for this kind.
    #[must_use]
    pub const fn class(self) -> DenialClass {
        match self {
            Self::FsCreate
            | Self::FsWrite
            | Self::FsTruncate
            | Self::FsRemove
            | Self::FsRename
            | Self::FsMetadata
            | Self::FsRead
            | Self::FsExecute => DenialClass::FileAccess,
            Self::NetConnect | Self::NetBind | Self::NetResolve | Self::UnixConnect => DenialClass::NetworkAccess,
            Self::Signal
            | Self::Ptrace
            | Self::Namespace
            | Self::Mount
            | Self::Syscall
            | Self::Capability
            | Self::Ioctl
            | Self::Limit => DenialClass::Operation,
        }
    }
}

impl std::fmt::Display for DenialKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl DenialClass {
    /// The words of the result marker.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileAccess => "file access",
            Self::NetworkAccess => "network access",
            Self::Operation => "operation",
        }
    }
}

/// The direction of a refused access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessWord {
    /// Reading content or listing a directory.
    Read,
    /// Changing content, names or metadata.
    Write,
    /// Executing.
    Execute,
}

/// Who saw the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// The seccomp user-notification supervisor.
    Trace,
    /// The kernel's audit records.
    Audit,
    /// The allowlist proxy, or the name server of a sandbox with a network of its own.
    Proxy,
    /// Text on standard error that named the object, and the policy agrees.
    Stderr,
    /// A functional probe made after the run.
    Probe,
}

/// The process that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeniedProcess {
    /// Process id as the command's own PID namespace numbers it; `None` when only text told of the process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
    /// The kernel's name of the process (at most 15 bytes), or the name its message began with.
    pub comm: String,
}

/// The narrowest extra permission that would have let an access through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Absolute paths to make writable.
    #[serde(skip_serializing_if = "Vec::is_empty", default, with = "crate::policy::path_text::list")]
    pub write: Vec<PathBuf>,
    /// Absolute paths to make readable.
    #[serde(skip_serializing_if = "Vec::is_empty", default, with = "crate::policy::path_text::list")]
    pub read: Vec<PathBuf>,
    /// `host` or `host:port` entries to let through.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub network: Vec<String>,
}

impl Grant {
    /// True when it grants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.write.is_empty() && self.read.is_empty() && self.network.is_empty()
    }
}

/// One refused access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// What was refused.
    pub kind: DenialKind,
    /// The object, absolute and resolved as the command's process named it. Absent for kinds that have no path.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "crate::policy::path_text::option")]
    pub path: Option<PathBuf>,
    /// For network kinds: the host name or address.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// For network kinds: the port.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// Direction of the access.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub access: Vec<AccessWord>,
    /// The system call, where a witness knows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub syscall: Option<String>,
    /// The symbolic errno (`EROFS`), where a witness knows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errno: Option<String>,
    /// The process that was refused, where a witness knows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process: Option<DeniedProcess>,
    /// Every witness of this refusal, best first.
    pub sources: Vec<Witness>,
    /// True when this refusal is why the command failed, or its message is what the command showed.
    pub blocking: bool,
    /// The narrowest mode under which the access would succeed for this user on this host; `None` when none would.
    pub widen_to: Option<SandboxMode>,
    /// The narrowest extra permission that would do; `None` when none would.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<Grant>,
}

impl Denial {
    /// The object in one word for markers and messages: the path, `host:port`, or the system call.
    #[must_use]
    pub fn target(&self) -> String {
        if let Some(path) = &self.path {
            return path.display().to_string();
        }
        match (&self.host, self.port) {
            (Some(host), Some(port)) if host.contains(':') => format!("[{host}]:{port}"),
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.clone(),
            (None, _) => self.syscall.clone().unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}
