//! What the supervisor is told about a run: the policy, and which mechanism carries it out.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::denial::{FileBackend, NetBackend};
use crate::policy::{EffectivePolicy, NetworkMode, SyscallRule};

/// What refuses signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalBackend {
    /// A PID namespace: outside processes do not exist (`ESRCH`).
    Namespace,
    /// Landlock's signal scope (`EPERM`).
    Landlock,
    /// Nothing.
    None,
}

/// One run as the supervisor knows it.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The policy in force.
    pub policy: Arc<EffectivePolicy>,
    /// The refused calls that the trace filter was compiled for; each is answered with its errno and never carried out.
    pub rules: Arc<[SyscallRule]>,
    /// Paths that the sandbox itself leaves writable whatever the policy's rules (`/dev`, `/proc`). A read-only mount
    /// beneath one still counts.
    pub also_writable: Vec<PathBuf>,
    /// What refuses file access.
    pub files: FileBackend,
    /// What refuses network access.
    pub network: NetBackend,
    /// TCP ports that Landlock's rules leave open (the proxy's); of no meaning in a network namespace.
    pub open_ports: Vec<u16>,
    /// What refuses signals.
    pub signals: SignalBackend,
    /// When the command started; observations are timed from here.
    pub started: Instant,
}

impl Watch {
    /// True when the policy lets this path be written.
    pub(crate) fn may_write(&self, path: &Path) -> bool {
        self.files.writable(&self.policy, path)
    }

    /// True when the policy lets every child of this directory be written without looking at its name.
    pub(crate) fn uniform(&self, directory: &Path) -> bool {
        self.may_write(directory)
            && !self.policy.rules.iter().any(|rule| rule.path != directory && rule.path.starts_with(directory))
    }

    /// True when the sandbox leaves this path writable though no rule says so.
    pub(crate) fn left_open(&self, path: &Path) -> bool {
        self.also_writable.iter().any(|open| path.starts_with(open))
    }

    /// True for what shells open most, the null device and their terminal, where the sandbox leaves them open: no command
    /// can put a link in their place, so the text says enough.
    pub(crate) fn is_open_device(&self, text: &[u8]) -> bool {
        matches!(text, b"/dev/null" | b"/dev/tty")
            && matches!(self.files, FileBackend::Mounts { .. })
            && self.left_open(Path::new(OsStr::from_bytes(text)))
    }

    /// True when a rule stands beneath this path, so that it had to be pinned in place.
    pub(crate) fn rule_beneath(&self, path: &Path) -> bool {
        // Rules are sorted by path, so those beneath this one stand together.
        let first = self.policy.rules.partition_point(|rule| rule.path.as_path() < path);
        self.policy.rules.get(first).is_some_and(|rule| rule.path.starts_with(path))
    }

    /// True when addresses beyond the loopback are out of reach.
    pub(crate) fn network_closed(&self) -> bool {
        self.network != NetBackend::None && self.policy.network.mode != NetworkMode::Full
    }
}
