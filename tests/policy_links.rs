//! Rules over real trees, whose names are any bytes and whose paths lead through links, against a slow obvious model.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use stockade::policy::{CliRule, EffectivePolicy, HostPaths, PolicyRequest, SandboxMode, explain_path};

/// Names that a policy says nothing of by itself.
const NAMES: [&[u8]; 3] = [b"a", b"b\xff", b"c\n d"];

fn a_name() -> impl Strategy<Value = &'static OsStr> {
    prop::sample::select(NAMES.map(OsStr::from_bytes).to_vec())
}

/// A path below the root, four names at most.
fn a_place() -> impl Strategy<Value = PathBuf> {
    (prop::sample::select(vec!["ws", "ws", "ws", "far"]), prop::collection::vec(a_name(), 0..4))
        .prop_map(|(top, names)| names.into_iter().fold(PathBuf::from(top), |path, name| path.join(name)))
}

/// What is on the disk, and what is said of it.
#[derive(Debug, Clone)]
struct World {
    directories: Vec<PathBuf>,
    /// Where a link stands, what it leads to, and whether it says so from there (`../..`).
    links: Vec<(PathBuf, PathBuf, bool)>,
    rules: Vec<(Index, CliRule)>,
    asked: Vec<(Index, Option<&'static OsStr>)>,
}

fn a_world() -> impl Strategy<Value = World> {
    let rule = prop::sample::select(vec![CliRule::Write, CliRule::DenyWrite, CliRule::DenyRead]);
    (
        prop::collection::vec(a_place(), 1..6),
        prop::collection::vec((a_place(), a_place(), any::<bool>()), 0..4),
        prop::collection::vec((any::<Index>(), rule), 0..5),
        prop::collection::vec((any::<Index>(), prop::option::of(a_name())), 4..12),
    )
        .prop_map(|(directories, links, rules, asked)| World { directories, links, rules, asked })
}

/// Makes the tree; returns every name in it, links and what is seen through them included.
fn make(root: &Path, world: &World) -> Vec<PathBuf> {
    for place in ["ws", "far", "home"] {
        std::fs::create_dir(root.join(place)).unwrap();
    }
    for place in &world.directories {
        std::fs::create_dir_all(root.join(place)).unwrap();
    }
    for (at, to, relative) in &world.links {
        let at = root.join(at);
        let up: PathBuf = at.strip_prefix(root).unwrap().parent().unwrap().iter().map(|_| "..").collect();
        let to = if *relative { up.join(to) } else { root.join(to) };
        // Where something stands already, or nothing can, there is no link.
        symlink(to, at).ok();
    }
    let mut seen = Vec::new();
    names(&root.join("ws"), 5, &mut seen);
    names(&root.join("far"), 4, &mut seen);
    seen
}

fn names(path: &Path, depth: usize, seen: &mut Vec<PathBuf>) {
    if !path.exists() {
        return;
    }
    seen.push(path.to_owned());
    if depth > 0 {
        let mut entries: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| names(entry, depth - 1, seen));
    }
}

/// Where writing to a path ends up: what is not there yet is made in the real directory, or where a dangling link leads.
/// `None` where links lead round in a circle.
fn real(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Some(there);
    }
    let here = real(path.parent()?, links)?.join(path.file_name()?);
    match here.read_link() {
        Ok(_) if links == 0 => None,
        Ok(target) => real(&tidy(&here.parent()?.join(target)), links - 1),
        Err(_) => Some(here),
    }
}

/// Without `..`, whose directories are real here.
fn tidy(path: &Path) -> PathBuf {
    path.iter().fold(
        PathBuf::new(),
        |path, part| {
            if part == ".." { path.parent().unwrap().to_owned() } else { path.join(part) }
        },
    )
}

/// Rules by what the kernel makes of their paths.
struct Model {
    rules: Vec<(PathBuf, CliRule)>,
}

impl Model {
    /// Readable, writable: what the nearest rule going up says.
    fn decide(&self, path: &Path) -> (bool, bool) {
        let nearest = |settles: &dyn Fn(CliRule) -> Option<bool>| {
            path.ancestors().find_map(|above| {
                let here: Vec<bool> =
                    self.rules.iter().filter(|(at, _)| at == above).filter_map(|(_, rule)| settles(*rule)).collect();
                // A refusal wins over another entry for the same path.
                (!here.is_empty()).then(|| here.iter().all(|yes| *yes))
            })
        };
        let readable = nearest(&|rule| match rule {
            CliRule::Write => Some(true),
            CliRule::DenyRead => Some(false),
            CliRule::DenyWrite => None,
        });
        let writable = nearest(&|rule| Some(rule == CliRule::Write));
        (readable.unwrap_or(true), writable.unwrap_or(false))
    }
}

fn resolve(root: &Path, rules: &[(PathBuf, CliRule)]) -> Option<EffectivePolicy> {
    let host = HostPaths { home: root.join("home"), account_home: None, tmp: "/tmp".into(), cwd: root.to_owned() };
    let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, root.join("ws"));
    // Contradictions, and links that a command could have planted, are refused; other tests hold which.
    rules.iter().fold(request, |request, (path, rule)| request.cli_rule(*rule, path)).resolve(&host).ok()
}

/// What must not be renamed, or a refusal would move along: every directory above a refused path that stands in a place
/// where names may be changed. One that carries a rule itself is a mount point, which holds it.
fn must_be_held(model: &Model) -> BTreeSet<PathBuf> {
    let refused = model.rules.iter().filter(|(_, rule)| *rule != CliRule::Write).map(|(path, _)| path);
    let above = refused.flat_map(|path| path.ancestors().skip(1));
    above
        .filter(|path| path.parent().is_some_and(|parent| model.decide(parent).1))
        .filter(|path| model.rules.iter().all(|(at, _)| at != path))
        .map(Path::to_owned)
        .collect()
}

#[test]
fn rules_hold_by_whatever_name_they_are_written_and_asked() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let (compared, held) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    runner
        .run(&a_world(), |world| {
            let dir = tempfile::tempdir_in("/var/tmp").unwrap();
            let root = dir.path().canonicalize().unwrap();
            let seen = make(&root, &world);
            let written: Vec<(PathBuf, CliRule)> =
                world.rules.iter().map(|(which, rule)| (which.get(&seen).clone(), *rule)).collect();
            let Some(policy) = resolve(&root, &written) else { return Ok(()) };
            let mut rules: Vec<_> = written.iter().map(|(path, rule)| (path.canonicalize().unwrap(), *rule)).collect();
            if rules.iter().all(|(path, _)| *path != root.join("ws")) {
                rules.push((root.join("ws"), CliRule::Write));
            }
            let model = Model { rules };
            for (which, new) in &world.asked {
                let path = new.map_or_else(|| which.get(&seen).clone(), |new| which.get(&seen).join(new));
                let Some(real) = real(&path, 8) else { continue };
                let explained = explain_path(&policy, &path);
                prop_assert_eq!(&explained.path, &real);
                let expected = model.decide(&real);
                prop_assert_eq!((explained.read, explained.write), expected, "{:?} under {:?}", path, written);
                compared.set(compared.get() + 1);
            }
            for path in must_be_held(&model) {
                prop_assert!(
                    policy.pinned.contains(&path),
                    "{path:?} may be renamed; {written:?}: {:?}",
                    policy.pinned
                );
                held.set(held.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(compared.get() > 1000 && held.get() > 10, "{} compared, {} held", compared.get(), held.get());
}
