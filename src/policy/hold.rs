//! How refusals inside writable roots are held: which directories must not be renamed, and which names no mount can hold.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::look;
use super::protect::{OnAppear, Watched};
use super::resolve::Ranked;
use super::{EffectivePolicy, PathAccess};

/// Fills in `pinned` and `watched`. `ranked` is sorted.
pub(super) fn hold(
    policy: &mut EffectivePolicy,
    ranked: &[Ranked],
    mut pinned: BTreeSet<PathBuf>,
    watched: BTreeSet<Watched>,
    on_appear: OnAppear,
) {
    let last: HashMap<&Path, PathAccess> = ranked.iter().map(|r| (r.rule.path.as_path(), r.rule.access)).collect();
    let lifted = |path: &Path| last.get(path) == Some(&PathAccess::Write);
    let mut watched: BTreeSet<Watched> = watched.into_iter().filter(|name| !lifted(&name.path)).collect();
    let mut told: HashSet<PathBuf> = watched.iter().map(|name| name.path.clone()).collect();
    for group in ranked.chunk_by(|a, b| a.rule.path == b.rule.path) {
        let Some(deciding) = group.last() else { continue };
        if !matches!(deciding.rule.access, PathAccess::DenyWrite | PathAccess::DenyRead) {
            continue;
        }
        let reason = || deciding.rule.reason.clone().unwrap_or_else(|| "refused by the policy".into());
        for link in group.iter().filter_map(|r| r.own_link.as_ref()) {
            if between(link, &last).is_some() && told.insert(link.clone()) {
                let target = look::link(link).ok();
                watched.insert(Watched { path: link.clone(), link: target, reason: reason(), on_appear });
            }
        }
        let Some(parents) = between(&deciding.rule.path, &last) else { continue };
        if deciding.rule.missing && told.insert(deciding.rule.path.clone()) {
            let path = deciding.rule.path.clone();
            watched.insert(Watched { path, link: None, reason: reason(), on_appear });
        } else if !deciding.rule.missing {
            pinned.extend(parents.into_iter().map(Path::to_owned));
        }
    }
    pinned.retain(|path| !lifted(path) || between(path, &last).is_some());
    policy.pinned = pinned.into_iter().collect();
    policy.watched = watched.into_iter().collect();
}

/// The directories strictly between a path and the outermost writable rule it lies under, writable rules within that
/// one included (a plan need not mount them apart); `None` when the nearest rule above it is no writable one, so that
/// nothing around it can be changed.
fn between<'p>(path: &'p Path, last: &HashMap<&Path, PathAccess>) -> Option<Vec<&'p Path>> {
    let mut parents = Vec::new();
    let mut under = None;
    for above in path.ancestors().skip(1) {
        match last.get(above) {
            Some(PathAccess::Write) => {
                under = Some(parents.len());
                parents.push(above);
            }
            Some(PathAccess::Read) | None => parents.push(above),
            Some(_) => break,
        }
    }
    parents.truncate(under?);
    Some(parents)
}
