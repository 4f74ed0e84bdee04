//! The steps that build a sandbox, one name each, and the failure of one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One step between a request and a running command, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The request could not be read.
    Request,
    /// `clone3` with the namespaces.
    Namespaces,
    /// Writing the uid and gid maps.
    IdMaps,
    /// Tying init's life to the launcher's.
    Lifeline,
    /// Opening the sources of the binds, before anything is covered.
    BindSources,
    /// Making every mount private, read-only, nosuid and nodev.
    ReadOnlyRoot,
    /// The private `/dev`.
    Dev,
    /// The fresh `/proc`.
    Proc,
    /// Private directories (`/tmp`, `/dev/shm`).
    PrivateDirs,
    /// Writable, protected and masked paths.
    Binds,
    /// Bringing the loopback interface up.
    Loopback,
    /// Opening the proxy's listening socket on it.
    ProxySocket,
    /// Process-count limit of the PID namespace.
    PidLimit,
    /// Starting the command's process.
    Fork,
    /// New session and process group.
    Session,
    /// Fresh session keyring.
    Keyring,
    /// Resource limits.
    Rlimits,
    /// Closing inherited descriptors.
    Descriptors,
    /// Dropping capabilities.
    Capabilities,
    /// `no_new_privs`.
    NoNewPrivs,
    /// The Landlock domain.
    Landlock,
    /// The seccomp filters.
    Seccomp,
    /// The seccomp trace filter and its listener.
    Trace,
    /// Standard input, output and error.
    Stdio,
    /// Changing to the workdir.
    Workdir,
    /// Executing the program.
    Exec,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 26] = [
        Self::Request,
        Self::Namespaces,
        Self::IdMaps,
        Self::Lifeline,
        Self::BindSources,
        Self::ReadOnlyRoot,
        Self::Dev,
        Self::Proc,
        Self::PrivateDirs,
        Self::Binds,
        Self::Loopback,
        Self::ProxySocket,
        Self::PidLimit,
        Self::Fork,
        Self::Session,
        Self::Keyring,
        Self::Rlimits,
        Self::Descriptors,
        Self::Capabilities,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::Seccomp,
        Self::Trace,
        Self::Stdio,
        Self::Workdir,
        Self::Exec,
    ];

    /// What the step does, to be read after "could not".
    #[must_use]
    pub const fn doing(self) -> &'static str {
        match self {
            Self::Request => "read the request",
            Self::Namespaces => "create the namespaces",
            Self::IdMaps => "write the uid and gid maps",
            Self::Lifeline => "tie the sandbox's life to its launcher",
            Self::BindSources => "open a path of the policy",
            Self::ReadOnlyRoot => "make the mounts read-only",
            Self::Dev => "build the private /dev",
            Self::Proc => "mount a fresh /proc",
            Self::PrivateDirs => "build a private directory",
            Self::Binds => "bind a path of the policy",
            Self::Loopback => "bring the loopback interface up",
            Self::ProxySocket => "open the proxy's listening socket",
            Self::PidLimit => "limit the number of processes",
            Self::Fork => "start the command's process",
            Self::Session => "start a new session",
            Self::Keyring => "join a fresh session keyring",
            Self::Rlimits => "set the resource limits",
            Self::Descriptors => "close inherited descriptors",
            Self::Capabilities => "drop capabilities",
            Self::NoNewPrivs => "set no_new_privs",
            Self::Landlock => "enter the Landlock domain",
            Self::Seccomp => "install the seccomp filter",
            Self::Trace => "install the seccomp trace filter",
            Self::Stdio => "set up standard input and output",
            Self::Workdir => "enter the workdir",
            Self::Exec => "execute the program",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Namespaces => "namespaces",
            Self::IdMaps => "id-maps",
            Self::Lifeline => "lifeline",
            Self::BindSources => "bind-sources",
            Self::ReadOnlyRoot => "read-only-root",
            Self::Dev => "dev",
            Self::Proc => "proc",
            Self::PrivateDirs => "private-dirs",
            Self::Binds => "binds",
            Self::Loopback => "loopback",
            Self::ProxySocket => "proxy-socket",
            Self::PidLimit => "pid-limit",
            Self::Fork => "fork",
            Self::Session => "session",
            Self::Keyring => "keyring",
            Self::Rlimits => "rlimits",
            Self::Descriptors => "descriptors",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no-new-privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Trace => "trace",
            Self::Stdio => "stdio",
            Self::Workdir => "workdir",
            Self::Exec => "exec",
        })
    }
}

/// A step failed. The command did not run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SetupFailure {
    /// Which step.
    pub stage: Stage,
    /// What the kernel said, as a raw errno.
    pub errno: i32,
    /// The path it was about, where there was one.
    #[serde(with = "crate::plan::path_text::option")]
    pub path: Option<PathBuf>,
}

impl std::fmt::Display for SetupFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "could not {} (stage {}", self.stage.doing(), self.stage)?;
        if let Some(path) = &self.path {
            write!(f, ", {}", path.display())?;
        }
        write!(f, "): {}", std::io::Error::from_raw_os_error(self.errno))?;
        if matches!(self.stage, Stage::Binds | Stage::PrivateDirs) && self.errno == libc::ENOSPC {
            // What the kernel answers to one mount too many.
            write!(
                f,
                "; each refused path that exists is a mount, and fs.mount-max limits them: refuse directories instead"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for SetupFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None
    }
}
