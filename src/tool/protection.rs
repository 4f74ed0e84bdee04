//! Protected paths from the policy itself: what the rules of a writable workspace still refuse.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::{GrantAccess, ProtectedPaths, Protection};
use crate::policy::{EffectivePolicy, PathAccess};

/// Resolves the policy of a workspace.
type Resolve = dyn Fn(&Path) -> Option<EffectivePolicy> + Send + Sync;

/// Takes the effective policy of a workspace for the list of what is protected in it.
pub struct PolicyProtection {
    resolve: Box<Resolve>,
}

impl PolicyProtection {
    /// `resolve` gives the policy of `workspace-write` for a workspace, as it is on this host now: that mode looks for
    /// protected paths. `None`, when it cannot be resolved, protects everything.
    pub fn new(resolve: impl Fn(&Path) -> Option<EffectivePolicy> + Send + Sync + 'static) -> Self {
        Self { resolve: Box::new(resolve) }
    }
}

impl ProtectedPaths for PolicyProtection {
    fn protection(&self, workspace: &Path, asked: &[(PathBuf, GrantAccess)]) -> Vec<Protection> {
        let Some(policy) = (self.resolve)(workspace) else { return Vec::new() };
        asked.iter().map(|(path, access)| protection(&policy, path, *access)).collect()
    }
}

fn protection(policy: &EffectivePolicy, path: &Path, access: GrantAccess) -> Protection {
    let refused = policy.rules.iter().filter(|rule| match access {
        GrantAccess::Write => matches!(rule.access, PathAccess::DenyWrite | PathAccess::DenyRead),
        GrantAccess::Read => rule.access == PathAccess::DenyRead,
    });
    // Names that are refused but not there yet can only be written.
    let absent = policy.watched.iter().filter(|_| access == GrantAccess::Write).map(|watched| watched.path.as_path());
    let refused: Vec<&Path> = refused.map(|rule| rule.path.as_path()).chain(absent).collect();
    let decision = policy.decide(path);
    let open = match access {
        GrantAccess::Write => decision.writable,
        GrantAccess::Read => decision.readable,
    };
    let named = refused.iter().any(|protected| *protected == path || (!open && path.starts_with(protected)));
    // The deepest protected thing that is named outranks others beneath it: a grant of it says what it says.
    if named {
        return Protection::Named;
    }
    let inside = refused.into_iter().find(|protected| protected.starts_with(path));
    inside.map_or(Protection::None, |protected| Protection::Contains(protected.to_owned()))
}
