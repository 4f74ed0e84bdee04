//! Which mechanism carries a policy out, and what it therefore really refuses.
//!
//! Mounts say all that a policy says. Landlock alone grants whole trees: what is protected or masked beneath a writable
//! root is not kept (a gap that the result names), private directories are the host's own, and changes of metadata are
//! refused by call, in read-only mode only. A denial fact is about what was refused, not about what was promised.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::policy::{EffectivePolicy, PathAccess, SandboxMode};

/// What refuses file access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileBackend {
    /// Read-only mounts, which answer `EROFS`; behind them Landlock when `landlock`, which answers `EACCES`.
    Mounts {
        /// Landlock stands behind the mounts.
        landlock: bool,
    },
    /// Landlock alone. It does not see metadata.
    Landlock,
}

/// What refuses network access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetBackend {
    /// A network namespace with its own loopback and nothing else.
    Namespace,
    /// Landlock rules on TCP.
    Landlock,
    /// Nothing.
    None,
}

impl FileBackend {
    /// The policy, carried out by this, lets the path (absolute, resolved) be written.
    pub(super) fn writable(self, policy: &EffectivePolicy, path: &Path) -> bool {
        match self {
            Self::Mounts { .. } => {
                let decision = policy.decide(path);
                // What was not there when the sandbox was built has no mount of its own: its directory's holds.
                match decision.rule {
                    Some(rule) if decision.writable && rule.missing && rule.access == PathAccess::Write => {
                        rule.path.parent().is_some_and(|parent| self.writable(policy, parent))
                    }
                    _ => decision.writable,
                }
            }
            Self::Landlock => policy.rules.iter().any(|rule| {
                rule.access == PathAccess::Write
                    && !rule.missing
                    && path.starts_with(&rule.path)
                    && policy.decide(&rule.path).writable
            }),
        }
    }

    /// Reading the path is refused, whatever stands there.
    pub(super) fn masks(self, policy: &EffectivePolicy, path: &Path) -> bool {
        matches!(self, Self::Mounts { .. }) && !policy.decide(path).readable
    }

    /// Changing the metadata of the path is refused.
    pub(super) fn keeps_metadata(self, policy: &EffectivePolicy, path: &Path) -> bool {
        match self {
            Self::Mounts { .. } => !policy.decide(path).writable,
            Self::Landlock => policy.mode == SandboxMode::ReadOnly,
        }
    }
}
