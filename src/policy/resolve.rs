//! A request and a host to an effective policy: paths resolved, host facts found, rules put in order.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::canon::{Found, Resolved, Resolver, tidy, why};
use super::error::{Origination, PolicyError};
use super::explain::render_origin;
use super::layers::{self, Entry, Layers, RANK_DISCOVERED};
use super::protect::{Discovered, Discovery, Findings};
use super::request::HostPaths;
use super::{EffectivePolicy, NetworkMode, Origin, PathAccess, PathRule, PolicyRequest, hold, pattern, refuse};

/// Notes on missing entries that are written out; more are counted.
const MAX_MISSING_NOTES: usize = 20;

/// A rule with what decides between rules of one path.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    pub(super) rule: PathRule,
    pub(super) rank: usize,
    pub(super) place: Origination,
    pub(super) links: Vec<PathBuf>,
    /// The link that the entry itself is.
    pub(super) own_link: Option<PathBuf>,
    directory: bool,
}

pub(super) fn resolve(request: &PolicyRequest, host: &HostPaths) -> Result<EffectivePolicy, PolicyError> {
    let mut resolver = Resolver::default();
    let (workspace, workspace_written) = workspace(&request.workspace, host, &mut resolver)?;
    let mut layers = layers::merge(request, host, &workspace)?;
    let mut policy = EffectivePolicy {
        mode: layers.mode,
        workspace,
        workspace_written,
        rules: Vec::new(),
        aliases: BTreeMap::new(),
        pinned: Vec::new(),
        watched: Vec::new(),
        scan: layers.protection.bounds.clone(),
        network: std::mem::take(&mut layers.network),
        limits: std::mem::take(&mut layers.limits),
        seccomp: std::mem::take(&mut layers.seccomp),
        notes: std::mem::take(&mut layers.notes),
    };
    if let Some(written) = &policy.workspace_written {
        policy.aliases.insert(written.clone(), policy.workspace.clone());
    }
    if !policy.mode.confines() {
        return Ok(policy);
    }
    let mut ranked = rules(&mut layers, &mut resolver, &mut policy.notes)?;
    refuse::plantable_links(&ranked)?;
    sort(&mut ranked);
    refuse::contradictions(&ranked)?;

    let found = discover(&layers, host, &mut resolver, &roots(&ranked));
    policy.notes.extend(found.notes);
    ranked.extend(found.rules.into_iter().filter(|rule| rule.path != policy.workspace).map(discovered));
    name_service(&policy, &mut resolver, &mut ranked);
    sort(&mut ranked);
    refuse::hidden_grants(&policy, &ranked)?;
    hold::hold(&mut policy, &ranked, found.pinned, found.watched, layers.protection.on_appear());
    finish(&mut policy, ranked)?;
    Ok(policy)
}

/// What the policy must protect on this host because of what is there.
fn discover(layers: &Layers, host: &HostPaths, resolver: &mut Resolver, roots: &BTreeSet<PathBuf>) -> Findings {
    let home = resolver.resolve(&host.home).path;
    let account = host.account_home.as_ref().map(|home| resolver.resolve(home).path);
    let mut found = Discovery::new(&layers.protection, resolver, home.clone(), roots);
    found.scan();
    found.home(&home);
    if let Some(account) = account {
        found.home(&account);
    }
    for file in &layers.files {
        let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { continue };
        let (what, reason) = ("policy file", "a command must not change its own policy");
        let directory = found.resolver.resolve(directory).path;
        if found.in_root(&directory) {
            found.name(&directory, name, what, reason, None, true);
        }
        // Reached through a link from outside, it lies in a root all the same.
        let target = found.resolver.resolve(file);
        if target.exists() && found.in_root(&target.path) {
            found.deny(target.path, what, reason);
        }
    }
    found.findings
}

fn discovered(found: Discovered) -> Ranked {
    Ranked {
        directory: found.path.is_dir(),
        rule: PathRule {
            path: found.path,
            written: None,
            access: found.access,
            optional: false,
            missing: false,
            origin: Origin::Discovered { what: found.what },
            reason: Some(found.reason),
        },
        rank: RANK_DISCOVERED,
        place: Origination::Discovered,
        links: Vec::new(),
        own_link: None,
    }
}

/// The workspace: an existing directory, and not the whole host.
fn workspace(
    given: &Path,
    host: &HostPaths,
    resolver: &mut Resolver,
) -> Result<(PathBuf, Option<PathBuf>), PolicyError> {
    let written = tidy(&host.cwd.join(given));
    let refuse = |reason: String| PolicyError::Workspace { path: written.clone(), reason };
    if written.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(refuse("its name contains a NUL byte: give an existing directory".into()));
    }
    let resolved = resolver.resolve(&written);
    match resolved.found {
        Found::Missing(errno) => return Err(refuse(format!("{}; give an existing directory", why(errno)))),
        Found::Other => return Err(refuse("it is not a directory; give the directory that holds it".into())),
        Found::Directory if resolved.path == Path::new("/") => {
            return Err(refuse("it is the whole host; give the project's own directory".into()));
        }
        Found::Directory => {}
    }
    let through_link = (written != resolved.path).then_some(written);
    Ok((resolved.path, through_link))
}

/// Resolves every entry; patterns become the paths that match them.
fn rules(layers: &mut Layers, resolver: &mut Resolver, notes: &mut Vec<String>) -> Result<Vec<Ranked>, PolicyError> {
    let mut ranked = Vec::with_capacity(layers.entries.len());
    let mut missing = 0;
    for entry in std::mem::take(&mut layers.entries) {
        let denies = matches!(entry.access, PathAccess::DenyRead | PathAccess::DenyWrite);
        if denies && pattern::is_pattern(&entry.path) {
            let directory = resolver.resolve(entry.path.parent().unwrap_or(Path::new("/"))).path;
            let (hits, cut) = pattern::expand(&directory.join(entry.path.file_name().unwrap_or_default()));
            if cut {
                notes.push(format!(
                    "{}: {} is too large to look for all of '{}'",
                    entry.place,
                    directory.display(),
                    entry.path.display()
                ));
            }
            if hits.is_empty() && !is_shipped(&entry) {
                notes.push(format!("{}: nothing matches '{}' now", entry.place, entry.path.display()));
            }
            for path in hits {
                let resolved = resolver.resolve(&path);
                ranked.push(rule(Entry { path, ..entry.clone() }, resolved));
            }
            continue;
        }
        let resolved = resolver.resolve(&entry.path);
        if let Found::Missing(errno) = resolved.found {
            if entry.access == PathAccess::Write && !entry.optional {
                return Err(PolicyError::MissingWrite { place: entry.place, path: entry.path, reason: why(errno) });
            }
            if !is_shipped(&entry) {
                missing += 1;
                if missing <= MAX_MISSING_NOTES {
                    notes.push(format!(
                        "{}: {} is kept, and not there now: {}",
                        entry.place,
                        entry.path.display(),
                        why(errno)
                    ));
                }
            }
        }
        ranked.push(rule(entry, resolved));
    }
    if missing > MAX_MISSING_NOTES {
        notes.push(format!("{} more entries are kept whose paths do not exist", missing - MAX_MISSING_NOTES));
    }
    Ok(ranked)
}

/// A shipped policy lists what may be there on one host or another; that something is not is no news.
const fn is_shipped(entry: &Entry) -> bool {
    matches!(entry.origin, Origin::Default { .. })
}

fn rule(entry: Entry, resolved: Resolved) -> Ranked {
    Ranked {
        rank: entry.rank,
        place: entry.place,
        own_link: if resolved.ends_in_link { first_link(&entry.path, &resolved.links) } else { None },
        directory: resolved.found == Found::Directory,
        rule: PathRule {
            written: (entry.path != resolved.path).then_some(entry.path),
            missing: !resolved.exists(),
            path: resolved.path,
            access: entry.access,
            optional: entry.optional,
            origin: entry.origin,
            reason: entry.reason,
        },
        links: resolved.links,
    }
}

/// Of the links passed, the one that has the entry's own last name: where the entry itself stands.
fn first_link(path: &Path, links: &[PathBuf]) -> Option<PathBuf> {
    links.iter().find(|link| link.file_name() == path.file_name()).cloned()
}

/// By path, then precedence, then refusals last, so that within one layer the narrower wins.
fn sort(ranked: &mut [Ranked]) {
    ranked.sort_by_cached_key(|ranked| (by_component(&ranked.rule.path), ranked.rank, ranked.rule.access));
}

/// Sorts as the path does, a directory right before what is in it, and compares faster: a path is taken apart at each
/// comparison.
fn by_component(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

/// Existing directories that end up writable by a rule of their own.
fn roots(ranked: &[Ranked]) -> BTreeSet<PathBuf> {
    ranked
        .chunk_by(|a, b| a.rule.path == b.rule.path)
        .filter_map(|group| group.last())
        .filter(|last| last.rule.access == PathAccess::Write && last.directory)
        .map(|last| last.rule.path.clone())
        .collect()
}

/// Name service files often lie under the masked `/run`; they are needed only where there is a network.
fn name_service(policy: &EffectivePolicy, resolver: &mut Resolver, ranked: &mut Vec<Ranked>) {
    if policy.network.mode == NetworkMode::Off {
        return;
    }
    let resolved = resolver.resolve(Path::new("/etc/resolv.conf"));
    if resolved.exists() && resolved.path.starts_with("/run") {
        let entry = Entry {
            path: resolved.path.clone(),
            access: PathAccess::Read,
            optional: false,
            origin: Origin::Discovered { what: "name service".into() },
            place: Origination::Discovered,
            reason: Some("the file that /etc/resolv.conf leads to".into()),
            rank: RANK_DISCOVERED,
        };
        ranked.push(rule(entry, resolved));
    }
}

/// Puts the sorted rules into the policy, once each, with the other names they are known by.
fn finish(policy: &mut EffectivePolicy, ranked: Vec<Ranked>) -> Result<(), PolicyError> {
    let mut rank = None;
    for Ranked { rule, rank: next, .. } in ranked {
        if let Some(written) = &rule.written
            && !written.components().any(|part| part == Component::ParentDir)
        {
            policy.aliases.insert(written.clone(), rule.path.clone());
        }
        let same = policy.rules.last().is_some_and(|last| last.path == rule.path && last.access == rule.access);
        if !(same && rank == Some(next)) {
            policy.rules.push(rule);
        }
        rank = Some(next);
    }
    let decided = policy.decide(&policy.workspace);
    if !decided.readable {
        let by = decided.rule.map_or_else(String::new, |rule| render_origin(&rule.origin));
        let reason = format!("this policy masks it {by}; choose another directory or lift the rule");
        return Err(PolicyError::Workspace { path: policy.workspace.clone(), reason });
    }
    Ok(())
}
