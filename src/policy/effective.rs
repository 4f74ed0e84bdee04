//! The effective policy of one call: every layer merged, every path resolved against this host.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{NetworkPolicy, PathAccess, PathRule, SandboxMode, ScanBounds, SyscallRule, Watched};

/// Resource limits of one sandbox. `None` leaves a resource unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at any one time.
    pub processes: Option<u64>,
    /// Memory of all processes together, bytes, where a control group (version 2) can be made; elsewhere of each process
    /// by itself.
    pub memory: Option<u64>,
    /// Size of the private `/tmp` and `/dev/shm` when they are in memory, bytes.
    pub tmp_size: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
    /// Largest file a process may write, bytes.
    pub file_size: Option<u64>,
}

/// Everything decided about a call before the host's abilities are looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectivePolicy {
    /// The mode.
    pub mode: SandboxMode,
    /// The workspace, canonical.
    pub workspace: PathBuf,
    /// The workspace as it was named, when that led through a symbolic link.
    pub workspace_written: Option<PathBuf>,
    /// Path rules, sorted by path and then by precedence (the last of equals wins).
    pub rules: Vec<PathRule>,
    /// Names that lead through a symbolic link, and the resolved path that each meant when the policy was resolved.
    pub aliases: BTreeMap<PathBuf, PathBuf>,
    /// Directories to bind onto themselves, so that they cannot be renamed away from over what they protect: every git
    /// directory, and the directories between a writable root and a path refused in it. Existing, resolved, sorted, so
    /// that a parent comes before its children. An outermost writable root is not among them: it is a mount point already.
    pub pinned: Vec<PathBuf>,
    /// Refused names that no mount can hold, to be looked at after the run; sorted by path.
    pub watched: Vec<Watched>,
    /// How far the roots are looked through.
    pub scan: ScanBounds,
    /// Network.
    pub network: NetworkPolicy,
    /// Limits.
    pub limits: Limits,
    /// System calls refused beyond those every confining mode refuses.
    pub seccomp: Vec<SyscallRule>,
    /// Facts for the result: rule paths that do not exist, entries that were adjusted.
    pub notes: Vec<String>,
}

/// What the rules say of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// It may be read (or listed).
    pub readable: bool,
    /// It may be written, created, removed.
    pub writable: bool,
    /// It lies in a private directory, so the host's own content of that name is not visible.
    pub private: bool,
    /// The most specific rule that took part; `None` when only the mode decided.
    pub rule: Option<&'a PathRule>,
}

impl EffectivePolicy {
    /// Decides about an absolute, normalised path: the mode's ground state, then every rule on the way down to it.
    ///
    /// The most specific rule wins whatever the order they were written in: a rule at a deeper path overrides one above
    /// it, and at the same path the later in `rules` overrides the earlier. `DenyRead` takes writing away too;
    /// `Write` gives reading too; `Read` and `DenyWrite` leave the other half as it was, except that `Read` beneath a
    /// private directory gives the host's own content back, and that is not writable. A name that led through a link
    /// when the policy was resolved is decided as what it led to.
    #[must_use]
    pub fn decide(&self, path: &Path) -> Decision<'_> {
        let mut decision = Decision::ground(self.mode);
        let meant = self.unalias(path);
        let path = meant.as_deref().unwrap_or(path);
        for ancestor in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let from = self.rules.partition_point(|rule| rule.path.as_path() < ancestor);
            for rule in self.rules[from..].iter().take_while(|rule| rule.path == ancestor) {
                decision.apply(rule);
            }
        }
        decision
    }

    /// Replaces the longest known alias at the front of the path; `None` when there is none.
    fn unalias(&self, path: &Path) -> Option<PathBuf> {
        if self.aliases.is_empty() {
            return None;
        }
        path.ancestors().find_map(|ancestor| {
            let target = self.aliases.get(ancestor)?;
            let rest = path.strip_prefix(ancestor).ok()?;
            Some(if rest.as_os_str().is_empty() { target.clone() } else { target.join(rest) })
        })
    }

    /// SHA-256, in hexadecimal, of everything the policy says: equal digests mean equal policies.
    #[must_use]
    pub fn digest(&self) -> String {
        // Serialising plain data into memory fails only for maps of unknown length, and there is none here; were it to
        // fail, the debug text still tells policies apart.
        let bytes = postcard::to_stdvec(self).unwrap_or_else(|_| format!("{self:?}").into_bytes());
        Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl<'a> Decision<'a> {
    /// What holds before any rule is looked at.
    #[must_use]
    pub const fn ground(mode: SandboxMode) -> Self {
        Self { readable: true, writable: !mode.confines(), private: false, rule: None }
    }

    /// Applies one rule of a path to what holds above it.
    pub(crate) fn apply(&mut self, rule: &'a PathRule) {
        match rule.access {
            PathAccess::Write => (self.readable, self.writable, self.private) = (true, true, false),
            PathAccess::Read => {
                (self.readable, self.writable, self.private) = (true, self.writable && !self.private, false);
            }
            PathAccess::Private => (self.readable, self.writable, self.private) = (true, true, true),
            PathAccess::DenyWrite => self.writable = false,
            PathAccess::DenyRead => (self.readable, self.writable) = (false, false),
        }
        self.rule = Some(rule);
    }
}
