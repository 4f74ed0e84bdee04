//! Whether what a plan names is still what it was.

use std::path::Path;

use super::data::{MountKind, PrivateSource, SandboxPlan};
use crate::policy::look::{Identity, identity};

/// What the paths of a plan lead to, in their order. A sandbox that was built ahead shows the files of that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing(Vec<Option<Identity>>);

impl Standing {
    /// Looks at every path that the plan mounts or grants.
    pub(crate) fn of(plan: &SandboxPlan) -> Self {
        let mounted = plan.mounts.iter().flat_map(|mounts| &mounts.ops).flat_map(|op| {
            let source = match &op.kind {
                MountKind::Private(PrivateSource::Directory(directory)) => Some(directory.as_path()),
                _ => None,
            };
            std::iter::once(op.path.as_path()).chain(source)
        });
        let granted = plan.landlock.iter().flat_map(|landlock| &landlock.grants).map(|rule| rule.path.as_path());
        Self(mounted.chain(granted).map(|path: &Path| identity(path)).collect())
    }
}
