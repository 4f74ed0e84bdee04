//! Rules: which wins, which names they hold, and what tens of thousands of them cost.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use stockade::denial::Grant;
use stockade::policy::{
    CliRule, EffectivePolicy, HostPaths, Limits, NetworkPolicy, Origin, PathAccess, PathRule, PolicyError,
    PolicyRequest, SandboxMode, explain_path, explain_rules,
};

/// A directory that is not below `/tmp`, which is private to a session.
fn room() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("ws")).unwrap();
    std::fs::create_dir_all(root.join("home")).unwrap();
    (dir, root)
}

fn host(root: &Path) -> HostPaths {
    HostPaths { home: root.join("home"), account_home: None, tmp: "/tmp".into(), cwd: root.to_owned() }
}

fn request(root: &Path) -> PolicyRequest {
    PolicyRequest::new(SandboxMode::WorkspaceWrite, root.join("ws"))
}

fn made_up(mode: SandboxMode, rules: &[(PathBuf, PathAccess)]) -> EffectivePolicy {
    let mut rules: Vec<PathRule> = rules
        .iter()
        .map(|(path, access)| PathRule {
            path: path.clone(),
            written: None,
            access: *access,
            optional: false,
            missing: false,
            origin: Origin::Grant,
            reason: None,
        })
        .collect();
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    EffectivePolicy {
        mode,
        workspace: "/a".into(),
        workspace_written: None,
        rules,
        aliases: BTreeMap::new(),
        pinned: Vec::new(),
        watched: Vec::new(),
        scan: stockade::policy::ScanBounds::default(),
        network: NetworkPolicy::default(),
        limits: Limits::default(),
        seccomp: Vec::new(),
        notes: Vec::new(),
    }
}

/// What the three facts of a path are, each asked on its own: go up from the path until a rule settles it.
fn obvious(policy: &EffectivePolicy, path: &Path) -> (bool, bool, bool) {
    let mut nearest_first: Vec<&PathRule> = Vec::new();
    let mut here = Some(path);
    while let Some(at) = here {
        nearest_first.extend(policy.rules.iter().filter(|rule| rule.path == at).rev());
        here = at.parent();
    }
    let first = |settles: &dyn Fn(PathAccess) -> Option<bool>, otherwise: bool| {
        nearest_first.iter().find_map(|rule| settles(rule.access)).unwrap_or(otherwise)
    };
    let readable = first(
        &|access| match access {
            PathAccess::Write | PathAccess::Read | PathAccess::Private => Some(true),
            PathAccess::DenyRead => Some(false),
            PathAccess::DenyWrite => None,
        },
        true,
    );
    let private = first(
        &|access| match access {
            PathAccess::Private => Some(true),
            PathAccess::Write | PathAccess::Read => Some(false),
            PathAccess::DenyWrite | PathAccess::DenyRead => None,
        },
        false,
    );
    // Writing: a read rule settles it only where the next rule of that kind above it made a private directory.
    let mut writable = policy.mode == SandboxMode::DangerFullAccess;
    for (at, rule) in nearest_first.iter().enumerate() {
        let settled = match rule.access {
            PathAccess::Write | PathAccess::Private => Some(true),
            PathAccess::DenyWrite | PathAccess::DenyRead => Some(false),
            PathAccess::Read => nearest_first[at + 1..]
                .iter()
                .find(|above| !matches!(above.access, PathAccess::DenyRead | PathAccess::DenyWrite))
                .is_some_and(|above| above.access == PathAccess::Private)
                .then_some(false),
        };
        if let Some(settled) = settled {
            writable = settled;
            break;
        }
    }
    (readable, writable, private)
}

fn a_path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "a.", "-"]), 0..5)
        .prop_map(|parts| parts.into_iter().fold(PathBuf::from("/"), |path, part| path.join(part)))
}

fn an_access() -> impl Strategy<Value = PathAccess> {
    prop::sample::select(vec![
        PathAccess::Write,
        PathAccess::Read,
        PathAccess::Private,
        PathAccess::DenyWrite,
        PathAccess::DenyRead,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_agree_with_an_obvious_model(
        mode in prop::sample::select(SandboxMode::ALL.to_vec()),
        rules in prop::collection::vec((a_path(), an_access()), 0..12),
        paths in prop::collection::vec(a_path(), 1..8),
    ) {
        let policy = made_up(mode, &rules);
        for path in paths {
            let decided = policy.decide(&path);
            prop_assert_eq!(
                (decided.readable, decided.writable, decided.private),
                obvious(&policy, &path),
                "{:?} under {:?}", path, rules
            );
            if let Some(rule) = decided.rule {
                prop_assert!(path.starts_with(&rule.path));
                prop_assert!(policy.rules.iter().all(|r| !path.starts_with(&r.path) || rule.path.starts_with(&r.path)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_options_decides_nothing(
        rules in prop::collection::btree_map(
            prop::sample::select(vec!["ws", "ws/a", "ws/a/b", "ws/a/b/c", "ws/d"]),
            prop::sample::select(vec![CliRule::Write, CliRule::DenyWrite, CliRule::DenyRead]), 0..5),
    ) {
        // The workspace must stay readable, or there is no policy to compare.
        prop_assume!(rules.get("ws") != Some(&CliRule::DenyRead));
        let (_dir, root) = room();
        std::fs::create_dir_all(root.join("ws/a/b/c")).unwrap();
        std::fs::create_dir_all(root.join("ws/d")).unwrap();
        let build = |order: &mut dyn Iterator<Item = (&&str, &CliRule)>| {
            let request = order.fold(request(&root), |r, (path, rule)| r.cli_rule(*rule, *path));
            request.resolve(&host(&root)).unwrap()
        };
        let (forward, backward) = (build(&mut rules.iter()), build(&mut rules.iter().rev()));
        prop_assert_eq!(&forward, &backward);
        prop_assert_eq!(forward.digest(), backward.digest());
    }
}

#[test]
fn deny_inside_allow_inside_deny() {
    let (_dir, root) = room();
    std::fs::create_dir_all(root.join("ws/a/b/c/d")).unwrap();
    let policy = request(&root)
        .cli_rule(CliRule::DenyRead, "ws/a/b/c/d")
        .cli_rule(CliRule::Write, "ws/a/b")
        .cli_rule(CliRule::DenyWrite, "ws/a")
        .cli_rule(CliRule::DenyWrite, "ws/a/b/c")
        .resolve(&host(&root))
        .unwrap();
    let facts = |path: &str| {
        let decided = policy.decide(&root.join(path));
        (decided.readable, decided.writable)
    };
    assert_eq!(facts("ws/x"), (true, true));
    assert_eq!(facts("ws/a/x"), (true, false));
    assert_eq!(facts("ws/a/b/x"), (true, true));
    assert_eq!(facts("ws/a/b/c/x"), (true, false));
    assert_eq!(facts("ws/a/b/c/d/x"), (false, false));
    assert!(!policy.pinned.contains(&root.join("ws/a/b/c")), "below a refusal nothing can be renamed");
}

#[test]
fn layers_decide_between_rules_of_one_path() {
    let (_dir, root) = room();
    std::fs::create_dir(root.join("ws/k")).unwrap();
    std::fs::create_dir(root.join("home/.ssh")).unwrap();
    std::fs::write(root.join("p.toml"), "[filesystem]\ndeny_read = [\"${WORKSPACE}/k\"]\nread = [\"~/.ssh\"]\n")
        .unwrap();
    let file = request(&root).policy_file("p.toml");
    let policy = file.clone().resolve(&host(&root)).unwrap();
    assert!(!policy.decide(&root.join("ws/k/x")).readable);
    let ssh = policy.decide(&root.join("home/.ssh/id"));
    assert!(ssh.readable && !ssh.writable, "a file lifts a default");
    let policy = file.clone().cli_rule(CliRule::Write, "ws/k").resolve(&host(&root)).unwrap();
    assert!(policy.decide(&root.join("ws/k/x")).writable);
    let grant = Grant { write: vec![root.join("ws/k")], ..Grant::default() };
    let policy = file.cli_rule(CliRule::DenyWrite, "ws/k").grant(grant).resolve(&host(&root)).unwrap();
    assert!(policy.decide(&root.join("ws/k/x")).writable);
}

#[test]
fn both_names_of_a_linked_workspace_are_held() {
    let (_dir, root) = room();
    symlink(root.join("ws"), root.join("home/link")).unwrap();
    std::fs::create_dir_all(root.join("ws/src/keep")).unwrap();
    let policy = PolicyRequest::new(SandboxMode::WorkspaceWrite, "home/link")
        .cli_rule(CliRule::DenyWrite, "home/link/src/keep")
        .resolve(&host(&root))
        .unwrap();
    assert_eq!(policy.workspace, root.join("ws"));
    assert_eq!(policy.workspace_written, Some(root.join("home/link")));
    for name in ["ws", "home/link"] {
        let name = root.join(name);
        assert!(policy.decide(&name.join("src/x")).writable, "{name:?}");
        assert!(!policy.decide(&name.join("src/keep/x")).writable, "{name:?}");
    }
    assert!(!policy.decide(&root.join("home/linked")).writable);
    let rule = policy.rules.iter().find(|rule| rule.path == root.join("ws/src/keep")).unwrap();
    assert_eq!(rule.written, Some(root.join("home/link/src/keep")));
    let explained = explain_path(&policy, &root.join("home/link/src/keep"));
    assert_eq!((explained.path.as_path(), explained.write), (root.join("ws/src/keep").as_path(), false));
}

#[test]
fn dots_are_resolved_after_links() {
    let (_dir, root) = room();
    std::fs::create_dir_all(root.join("far/deep")).unwrap();
    std::fs::create_dir_all(root.join("far/secret")).unwrap();
    symlink(root.join("far/deep"), root.join("home/link")).unwrap();
    let policy = request(&root).cli_rule(CliRule::DenyRead, "home/link/../secret").resolve(&host(&root)).unwrap();
    assert!(!policy.decide(&root.join("far/secret/x")).readable);
    assert!(policy.decide(&root.join("home/secret")).readable);
    symlink("dangling-target", root.join("home/dangling")).unwrap();
    symlink("round", root.join("home/round")).unwrap();
    let policy = request(&root)
        .cli_rule(CliRule::DenyRead, "home/dangling")
        .cli_rule(CliRule::DenyRead, "home/round")
        .resolve(&host(&root))
        .unwrap();
    assert!(!policy.decide(&root.join("home/dangling-target")).readable);
}

#[test]
fn entries_that_open_never_follow_a_plantable_link() {
    let (_dir, root) = room();
    std::fs::create_dir(root.join("ws/build")).unwrap();
    std::fs::write(root.join("p.toml"), "[filesystem]\nwrite = [\"${WORKSPACE}/build\"]\n").unwrap();
    let file = request(&root).policy_file("p.toml");
    assert!(file.resolve(&host(&root)).is_ok());
    std::fs::remove_dir(root.join("ws/build")).unwrap();
    symlink(root.join("home"), root.join("ws/build")).unwrap();
    let cli = request(&root).cli_rule(CliRule::Write, "ws/build");
    let grant = request(&root).grant(Grant { read: vec![root.join("ws/build/.ssh")], ..Grant::default() });
    for request in [file, cli, grant] {
        let error = request.resolve(&host(&root)).unwrap_err();
        assert!(matches!(error, PolicyError::PlantableLink { .. }), "{error}");
    }
    let denied = request(&root).cli_rule(CliRule::DenyWrite, "ws/build").resolve(&host(&root)).unwrap();
    assert!(denied.watched.iter().any(|name| name.path == root.join("ws/build") && name.link.is_some()));
}

#[test]
fn missing_paths() {
    let (_dir, root) = room();
    let error = request(&root).cli_rule(CliRule::Write, "nowhere").resolve(&host(&root)).unwrap_err();
    assert!(matches!(&error, PolicyError::MissingWrite { .. }) && error.to_string().contains("--write"), "{error}");
    let policy = request(&root)
        .cli_rule(CliRule::DenyWrite, "ws/later/x")
        .cli_rule(CliRule::DenyRead, "home/later")
        .resolve(&host(&root))
        .unwrap();
    let missing: Vec<_> = policy.rules.iter().filter(|r| r.missing && r.path.ends_with("later")).collect();
    assert_eq!(missing.len(), 1);
    assert!(policy.watched.iter().any(|name| name.path == root.join("ws/later/x")));
    assert!(!policy.watched.iter().any(|name| name.path == root.join("home/later")), "its parent cannot be written");
    assert_eq!(policy.notes.iter().filter(|note| note.contains("later")).count(), 2, "{:?}", policy.notes);
}

#[test]
fn unusable_workspaces() {
    let (_dir, root) = room();
    std::fs::write(root.join("file"), "").unwrap();
    std::fs::create_dir(root.join("home/.ssh")).unwrap();
    for (workspace, why) in
        [("/", "whole host"), ("file", "not a directory"), ("none", "No such file"), ("home/.ssh", "masks it")]
    {
        let error = PolicyRequest::new(SandboxMode::ReadOnly, workspace).resolve(&host(&root)).unwrap_err();
        assert!(matches!(error, PolicyError::Workspace { .. }) && error.to_string().contains(why), "{error}");
    }
    for path in ["", "a\0b"] {
        let error = request(&root).cli_rule(CliRule::DenyRead, path).resolve(&host(&root)).unwrap_err();
        assert!(matches!(error, PolicyError::BadPath { .. }), "{error}");
    }
    for path in ["relative", "/a/../etc"] {
        let grant = Grant { write: vec![path.into()], ..Grant::default() };
        let error = request(&root).grant(grant).resolve(&host(&root)).unwrap_err();
        assert!(matches!(error, PolicyError::BadPath { .. }), "{error}");
    }
}

#[test]
fn a_workspace_beneath_private_tmp() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = dir.path().canonicalize().unwrap();
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        for workspace in [path.as_path(), Path::new("/tmp")] {
            let policy = PolicyRequest::new(mode, workspace).resolve(&host(&path)).unwrap();
            let inside = policy.decide(&workspace.join("x"));
            assert!(inside.readable && !inside.private, "{mode} {workspace:?}");
            assert_eq!(inside.writable, mode == SandboxMode::WorkspaceWrite, "{workspace:?}");
        }
        let policy = PolicyRequest::new(mode, path.as_path()).resolve(&host(&path)).unwrap();
        let beside = policy.decide(Path::new("/tmp/elsewhere"));
        assert!(beside.private && beside.writable);
        assert!(policy.decide(Path::new("/dev/shm/x")).private);
    }
}

#[test]
fn secrets_patterns_and_sockets() {
    let (_dir, root) = room();
    for name in ["home/.aws", "account/.aws"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in [".env", ".env.local", "env"] {
        std::fs::write(root.join("ws").join(name), "").unwrap();
    }
    std::fs::write(root.join("p.toml"), "[filesystem]\ndeny_read = [\"${WORKSPACE}/.env*\", \"${WORKSPACE}/*.pem\"]\n")
        .unwrap();
    let mut host = host(&root);
    host.account_home = Some(root.join("account"));
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let plain = PolicyRequest::new(mode, root.join("ws")).resolve(&host).unwrap();
        let readable = |path: &str| plain.decide(&root.join(path)).readable;
        assert!(!readable("home/.aws/credentials") && !readable("account/.aws/credentials"));
        assert!(readable("ws/.env") && readable("home/.bashrc"));
        for path in ["/run/docker.sock", "/run/user/1000/bus", "/var/run/x", "/etc/shadow"] {
            let decided = plain.decide(Path::new(path));
            assert!(!decided.readable && !decided.writable, "{path}");
        }
        assert!(plain.decide(Path::new("/etc/passwd")).readable);
        let masked = PolicyRequest::new(mode, root.join("ws")).policy_file("p.toml").resolve(&host).unwrap();
        for (name, readable) in [(".env", false), (".env.local", false), ("env", true)] {
            assert_eq!(masked.decide(&root.join("ws").join(name)).readable, readable, "{name}");
        }
        assert!(masked.notes.iter().any(|note| note.contains("*.pem")), "{:?}", masked.notes);
    }
}

#[test]
fn explaining() {
    let (_dir, root) = room();
    std::fs::create_dir(root.join("ws/k")).unwrap();
    std::fs::write(
        root.join("p.toml"),
        "[filesystem]\n\ndeny_write = [{ path = \"${WORKSPACE}/k\", reason = \"kept\" }]\n",
    )
    .unwrap();
    let policy = request(&root).policy_file("p.toml").cli_rule(CliRule::Write, "home").resolve(&host(&root)).unwrap();
    assert_eq!(explain_rules(&policy).len(), policy.rules.len());
    let told = |path: &str| explain_path(&policy, Path::new(path));
    let kept = told("k/x");
    assert!(kept.read && !kept.write);
    let rule = kept.rule.as_ref().unwrap();
    assert_eq!(rule.origin, format!("(file {}:3)", root.join("p.toml").display()));
    assert!(kept.to_string().contains("read allowed, write denied") && kept.to_string().contains("kept"), "{kept}");
    assert_eq!(told("x").rule.unwrap().origin, "(shipped policy workspace-write, line 6)");
    assert_eq!(explain_path(&policy, &root.join("home/x")).rule.unwrap().origin, "(--write)");
    assert_eq!(explain_path(&policy, Path::new("/usr/bin")).rule, None);
    assert!(told(".vscode/x\u{1b}]52;c;x\u{7}").to_string().chars().all(|c| !c.is_control()));
    let json = serde_json::to_value(&kept).unwrap();
    assert_eq!((json["write"].as_bool(), json["rule"]["access"].as_str()), (Some(false), Some("deny-write")));
}

#[test]
fn fifty_thousand_rules_cost_no_noticeable_time() {
    use std::fmt::Write;
    let (_dir, root) = room();
    let mut request = request(&root);
    // Several files, because one may hold 1 MiB; half of the directories exist.
    for part in 0..10 {
        let mut text = String::from("[filesystem]\ndeny_write = [\n");
        for at in 0..5000 {
            writeln!(text, "\"${{WORKSPACE}}/p{part}/d{:02}/f{at:04}\",", at % 50).unwrap();
        }
        text.push_str("]\n");
        std::fs::write(root.join(format!("{part}.toml")), text).unwrap();
        request = request.policy_file(format!("{part}.toml"));
        if part % 2 == 0 {
            for directory in 0..50 {
                std::fs::create_dir_all(root.join(format!("ws/p{part}/d{directory:02}"))).unwrap();
            }
        }
    }
    std::fs::write(root.join("ws/p0/d00/f0000"), "").unwrap();
    let started = Instant::now();
    let policy = request.resolve(&host(&root)).unwrap();
    let resolved = started.elapsed();
    let denied = |path: &str| !policy.decide(&root.join("ws").join(path)).writable;
    assert!(denied("p0/d00/f0000") && denied("p9/d49/f4999/x") && !denied("p9/d49/f49990"));
    let started = Instant::now();
    for at in 0..10_000 {
        assert!(policy.decide(&root.join("ws").join(format!("p3/d10/new{at}"))).writable);
    }
    let decided = started.elapsed();
    assert!(policy.notes.len() < 50, "notes are bounded: {}", policy.notes.len());
    // Generous: an unoptimised build on a busy machine. Quadratic work would take minutes.
    assert!(resolved < Duration::from_secs(20) && decided < Duration::from_secs(10), "{resolved:?} {decided:?}");
}

#[test]
fn digests_tell_policies_apart() {
    let (_dir, root) = room();
    let plain = request(&root).resolve(&host(&root)).unwrap();
    assert_eq!(plain.digest(), request(&root).resolve(&host(&root)).unwrap().digest());
    assert_eq!(plain.digest().len(), 64);
    let other = request(&root).cli_rule(CliRule::DenyWrite, "ws").resolve(&host(&root)).unwrap();
    assert_ne!(plain.digest(), other.digest());
    let mut tighter = plain.clone();
    tighter.limits.processes = Some(1);
    assert_ne!(plain.digest(), tighter.digest());
}
