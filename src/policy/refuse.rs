//! Entries that are refused because of what they mean together, or because of where they lead.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;

use super::error::PolicyError;
use super::explain::render_origin;
use super::layers::{RANK_DEFAULT, RANK_DISCOVERED, RANK_GRANT};
use super::resolve::Ranked;
use super::{EffectivePolicy, PathAccess};

/// An opening entry must not lead out of a writable root through a link in that root: a command could have planted it.
pub(super) fn plantable_links(ranked: &[Ranked]) -> Result<(), PolicyError> {
    let roots: BTreeSet<&Path> =
        ranked.iter().filter(|r| r.rule.access == PathAccess::Write).map(|r| r.rule.path.as_path()).collect();
    for entry in ranked.iter().filter(|r| matches!(r.rule.access, PathAccess::Write | PathAccess::Read)) {
        for link in &entry.links {
            let leaves = link
                .ancestors()
                .skip(1)
                .any(|above| roots.contains(above) && above != entry.rule.path && !entry.rule.path.starts_with(above));
            if leaves {
                return Err(PolicyError::PlantableLink {
                    place: entry.place.clone(),
                    written: entry.rule.written.clone().unwrap_or_default(),
                    link: link.clone(),
                    target: entry.rule.path.clone(),
                });
            }
        }
    }
    Ok(())
}

/// One layer must not open and refuse the same path.
pub(super) fn contradictions(ranked: &[Ranked]) -> Result<(), PolicyError> {
    let told = |r: &Ranked| {
        let written = r.rule.written.as_ref().unwrap_or(&r.rule.path);
        format!("{} '{}'", verb(r.rule.access), written.display())
    };
    for group in ranked.chunk_by(|a, b| a.rule.path == b.rule.path && a.rank == b.rank) {
        if matches!(group[0].rank, RANK_DEFAULT | RANK_DISCOVERED | RANK_GRANT) {
            continue;
        }
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let collide = matches!(
            (first.rule.access, last.rule.access),
            (PathAccess::Write, PathAccess::DenyWrite | PathAccess::DenyRead)
                | (PathAccess::Read, PathAccess::DenyRead)
        );
        if collide {
            return Err(PolicyError::Contradiction {
                place: last.place.clone(),
                entry: told(last),
                other: format!("{} ({})", told(first), first.place),
                path: last.rule.path.clone(),
            });
        }
    }
    Ok(())
}

const fn verb(access: PathAccess) -> &'static str {
    match access {
        PathAccess::Write => "write",
        PathAccess::Read => "read",
        PathAccess::Private => "private",
        PathAccess::DenyWrite => "deny-write",
        PathAccess::DenyRead => "deny-read",
    }
}

/// A grant that leads through a link to something refused would give more than was shown to whoever approved it.
pub(super) fn hidden_grants(policy: &EffectivePolicy, ranked: &[Ranked]) -> Result<(), PolicyError> {
    let through_links = |r: &&Ranked| r.rank == RANK_GRANT && !r.links.is_empty();
    if !ranked.iter().any(|r| through_links(&r)) {
        return Ok(());
    }
    let mut before = policy.clone();
    before.rules = ranked.iter().filter(|r| r.rank != RANK_GRANT).map(|r| r.rule.clone()).collect();
    for grant in ranked.iter().filter(through_links) {
        let planted = grant.links.iter().find(|link| before.decide(link).writable);
        let decided = before.decide(&grant.rule.path);
        let refused = decided.rule.filter(|rule| matches!(rule.access, PathAccess::DenyRead | PathAccess::DenyWrite));
        if planted.is_some() || refused.is_some() {
            return Err(PolicyError::GrantHidesTarget {
                written: grant.rule.written.clone().unwrap_or_default(),
                target: grant.rule.path.clone(),
                rule: refused.map_or_else(
                    || "the link can be changed by a command".to_owned(),
                    |rule| render_origin(&rule.origin),
                ),
            });
        }
    }
    Ok(())
}
