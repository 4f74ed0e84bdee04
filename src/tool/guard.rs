//! Protected paths as the policy in force has them.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::permissions::{GrantAccess, ProtectedPaths, Protection};
use crate::denial::Grant;
use crate::executor::CallPolicy;
use crate::policy::{EffectivePolicy, Origin, PathAccess, PathRule, SandboxMode};

/// Asks the policy which paths are protected.
///
/// Protected is what the policy refuses in a place that is open otherwise: for writing the names that make other
/// programs run code later, for reading the secrets, and whatever policy files and options refuse. A path whose policy
/// cannot be told counts as protected.
pub struct PolicyGuard<F>(F);

impl<F> PolicyGuard<F>
where
    F: Fn(&CallPolicy) -> Option<EffectivePolicy> + Send + Sync,
{
    /// A guard over a way to resolve policies; `None` where one cannot be resolved.
    #[must_use]
    pub fn new(resolve: F) -> Self {
        Self(resolve)
    }
}

impl<F> ProtectedPaths for PolicyGuard<F>
where
    F: Fn(&CallPolicy) -> Option<EffectivePolicy> + Send + Sync,
{
    fn protection(&self, workspace: &Path, path: &Path, access: GrantAccess) -> Protection {
        // Protected names are looked for where writing is open, so the policy is asked as if it were open around the path.
        let around = path.parent().filter(|parent| *parent != Path::new("/")).unwrap_or(path);
        let write = if access == GrantAccess::Write { vec![around.to_owned()] } else { Vec::new() };
        let call = CallPolicy {
            mode: SandboxMode::WorkspaceWrite,
            workspace: workspace.to_owned(),
            extra: Grant { write, ..Grant::default() },
            session: None,
        };
        let Some(policy) = (self.0)(&call) else { return Protection::Named };
        let watched =
            policy.watched.iter().filter(|_| access == GrantAccess::Write).map(|watched| watched.path.as_path());
        let ruled = policy.rules.iter().filter(|rule| protects(rule, access)).map(|rule| rule.path.as_path());
        judge(path, watched.chain(ruled))
    }
}

fn judge<'a>(path: &Path, protected: impl Iterator<Item = &'a Path>) -> Protection {
    let mut inside: Option<PathBuf> = None;
    for protected in protected {
        if path.starts_with(protected) {
            return Protection::Named;
        }
        if inside.is_none() && protected.starts_with(path) {
            inside = Some(protected.to_owned());
        }
    }
    inside.map_or(Protection::None, Protection::Contains)
}

/// What the mode itself refuses (writing anywhere but the workspace) is no protection, but what escalation is for.
fn protects(rule: &PathRule, access: GrantAccess) -> bool {
    match rule.access {
        PathAccess::DenyRead => true,
        PathAccess::DenyWrite => access == GrantAccess::Write && rule.origin != Origin::Grant,
        PathAccess::Write | PathAccess::Read | PathAccess::Private => false,
    }
}
