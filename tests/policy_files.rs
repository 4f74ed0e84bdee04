//! Policy files: every mistake is named with its line and column, and every correct form is taken.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;

use proptest::prelude::*;
use stockade::policy::{
    CliRule, HostPaths, NetworkMode, PathAccess, PolicyError, PolicyFile, PolicyRequest, SandboxMode, names,
};

fn host(root: &Path) -> HostPaths {
    HostPaths { home: root.join("home"), account_home: None, tmp: "/tmp".into(), cwd: root.to_owned() }
}

// Not below /tmp, which is private to a session.
/// A directory with a workspace and a home in it, its name free of links.
fn room() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("ws")).unwrap();
    std::fs::create_dir_all(root.join("home")).unwrap();
    (dir, root)
}

fn parse(text: &str) -> Result<PolicyFile, PolicyError> {
    PolicyFile::from_bytes(Path::new("p.toml"), text.as_bytes())
}

#[test]
fn every_mistake_has_its_line_and_column() {
    type Is = fn(&PolicyError) -> bool;
    let table: &[(&str, &str, Is)] = &[
        ("mode = \"read-only\"\nmodes = 1\n", "p.toml:2:1", |e| matches!(e, PolicyError::UnknownKey { .. })),
        ("[filesystem]\nwrites = []\n", "p.toml:2:1", |e| matches!(e, PolicyError::UnknownKey { .. })),
        ("[filesystem]\nwrite = [\n  { path = \"/a\", why = \"x\" },\n]\n", "p.toml:3:18", |e| {
            matches!(e, PolicyError::UnknownKey { .. })
        }),
        ("[network]\nallowed = []\n", "p.toml:2:1", |e| matches!(e, PolicyError::UnknownKey { .. })),
        ("[protect]\nnames = [{ name = \".x\", reason = \"r\", colour = 1 }]\n", "p.toml:2:39", |e| {
            matches!(e, PolicyError::UnknownKey { .. })
        }),
        ("mode = 3\n", "p.toml:1:8", |e| matches!(e, PolicyError::Format { .. })),
        ("[filesystem]\nwrite = \"/a\"\n", "p.toml:2:9", |e| matches!(e, PolicyError::Format { .. })),
        ("[filesystem]\nwrite = [\"/a\", 5]\n", "p.toml:2:16", |e| matches!(e, PolicyError::Format { .. })),
        ("[filesystem]\nwrite = [{ reason = \"no path\" }]\n", "p.toml:2:10", |e| {
            matches!(e, PolicyError::Format { .. })
        }),
        ("[filesystem\n", "p.toml:1:12", |e| matches!(e, PolicyError::Format { .. })),
        ("mode = \"read-only\"\nmode = \"read-only\"\n", "p.toml:2:1", |e| matches!(e, PolicyError::Format { .. })),
        ("mode = \"readonly\"\n", "p.toml:1:8", |e| matches!(e, PolicyError::Mode { .. })),
        ("[network]\nmode = \"on\"\n", "p.toml:2:8", |e| matches!(e, PolicyError::Format { .. })),
        ("[filesystem]\nwrite = [ \"a/b\" ]\n", "p.toml:2:11", |e| matches!(e, PolicyError::RelativePath { .. })),
        ("[filesystem]\ndeny_read = [ \"~bob/x\" ]\n", "p.toml:2:15", |e| {
            matches!(e, PolicyError::RelativePath { .. })
        }),
        ("[filesystem]\nread = [ \"\" ]\n", "p.toml:2:10", |e| matches!(e, PolicyError::RelativePath { .. })),
        (
            "[filesystem]\nwrite = [\"/ok\",\n\t\"${CACHE}/x\"]\n",
            "p.toml:3:2",
            |e| matches!(e, PolicyError::UnknownVariable { name, .. } if name == "${CACHE}"),
        ),
        ("[filesystem]\nwrite = [\"/x/${USER}\"]\n", "p.toml:2:10", |e| {
            matches!(e, PolicyError::UnknownVariable { .. })
        }),
        ("[filesystem]\nwrite = [\"/x/${HOME}\"]\n", "p.toml:2:10", |e| matches!(e, PolicyError::Value { .. })),
        ("[filesystem]\nwrite = [\"/x/*.rs\"]\n", "p.toml:2:10", |e| matches!(e, PolicyError::Value { .. })),
        ("[filesystem]\ndeny_read = [\"/x/*/key\"]\n", "p.toml:2:14", |e| matches!(e, PolicyError::Value { .. })),
        ("[filesystem]\ndeny_read = [{ path = \"/x\", optional = true }]\n", "p.toml:2:14", |e| {
            matches!(e, PolicyError::Value { .. })
        }),
        ("[limits]\nmemory = \"4 gigs\"\n", "p.toml:2:10", |e| matches!(e, PolicyError::Format { .. })),
        ("[limits]\nprocesses = 0\n", "p.toml:2:13", |e| matches!(e, PolicyError::Format { .. })),
        ("[limits]\nprocesses = -4\n", "p.toml:2:13", |e| matches!(e, PolicyError::Format { .. })),
        ("[limits]\ncpus = 4\n", "p.toml:2:1", |e| matches!(e, PolicyError::UnknownKey { .. })),
        ("[network]\nmode = \"off\"\nallow = [\"a:1\"]\n", "p.toml:3:10", |e| matches!(e, PolicyError::Value { .. })),
        ("[network]\nallow = [\"a b\"]\n", "p.toml:2:10", |e| matches!(e, PolicyError::Value { .. })),
        ("[network]\nallow = [\"evil\\u0000.allowed.com\"]\n", "p.toml:2:10", |e| {
            matches!(e, PolicyError::Value { .. })
        }),
        ("[seccomp]\ndeny = [ { syscall = \"mount\" } ]\n", "p.toml:2:10", |e| matches!(e, PolicyError::Format { .. })),
        ("[seccomp]\ndeny = [ { syscall = \"Mount!\", reason = \"r\" } ]\n", "p.toml:2:10", |e| {
            matches!(e, PolicyError::Value { .. })
        }),
        (
            "[seccomp]\ndeny = [ { syscall = \"ioctl\", reason = \"r\", when = [{ arg = 6, op = \"eq\", value = 1 }] } ]\n",
            "p.toml:2:10",
            |e| matches!(e, PolicyError::Value { .. }),
        ),
        ("[protect]\nnames = [{ name = \"../x\", reason = \"r\" }]\n", "p.toml:2:10", |e| {
            matches!(e, PolicyError::Value { .. })
        }),
        ("# ä\nmode = \"ä\" # ö\n", "p.toml:2:8", |e| matches!(e, PolicyError::Mode { .. })),
        ("[filesystem]\ndeny_read = [\"/ä/ö\", \"x\"]\n", "p.toml:2:22", |e| {
            matches!(e, PolicyError::RelativePath { .. })
        }),
    ];
    for (text, place, is) in table {
        let error = parse(text).expect_err(text);
        assert!(is(&error), "{text}\n{error:?}");
        assert!(error.to_string().starts_with(&format!("{place}: ")), "{text}\n{error}");
    }
}

#[test]
fn size_and_encoding_are_checked_before_parsing() {
    let big = vec![b'#'; 1 + (1 << 20)];
    let error = PolicyFile::from_bytes(Path::new("p.toml"), &big).unwrap_err();
    assert!(matches!(error, PolicyError::TooLarge { .. }), "{error:?}");
    assert!(PolicyFile::from_bytes(Path::new("p.toml"), &big[1..]).is_ok(), "exactly 1 MiB is taken");
    let error = PolicyFile::from_bytes(Path::new("p.toml"), b"mode = \"read-only\"\n# \xff\n").unwrap_err();
    assert!(matches!(&error, PolicyError::NotUtf8 { place } if (place.line, place.column) == (2, 3)), "{error:?}");
    let (_dir, root) = room();
    std::fs::write(root.join("big.toml"), &big).unwrap();
    let error = PolicyRequest::new(None, "ws").policy_file("big.toml").resolve(&host(&root)).unwrap_err();
    assert!(matches!(error, PolicyError::TooLarge { .. }), "{error:?}");
}

#[test]
fn every_form_is_taken() {
    let (_dir, root) = room();
    let text = "mode = \"workspace-write\"\n[filesystem]\nwrite = [\"${WORKSPACE}\", \"${TMP}\", { path = \"/nowhere/x\", optional = true }]\n\
                deny_write = [{ path = \"${WORKSPACE}/keep\", reason = \"kept\" }]\ndeny_read = [\"~/secret\", \"${HOME}/other\"]\n\
                read = [\"/usr\"]\n[network]\nallow = [\"crates.io:443\", \"*.crates.io\"]\ndeny = [\"bad.crates.io\"]\n\
                [limits]\nprocesses = 512\nmemory = \"4GiB\"\ntmp_size = \"unlimited\"\nopen_files = 1024\nfile_size = \"1TB\"\n\
                [seccomp]\ndeny = [ { syscall = \"ioctl\", reason = \"r\", errno = \"ENOSYS\", kind = \"ioctl\", \
                when = [{ arg = 1, op = \"eq\", value = 21522 }] } ]\n[protect]\non_appear = \"set-aside\"\n";
    std::fs::write(root.join("p.toml"), text).unwrap();
    let policy = PolicyRequest::new(None, "ws").policy_file("p.toml").resolve(&host(&root)).unwrap();
    assert_eq!(policy.mode, SandboxMode::WorkspaceWrite);
    let rule = |path: &Path| policy.rules.iter().rfind(|r| r.path == path);
    let keep = rule(&root.join("ws/keep")).unwrap();
    assert_eq!((keep.access, keep.missing, keep.reason.as_deref()), (PathAccess::DenyWrite, true, Some("kept")));
    assert!(
        policy.notes.iter().any(|note| note.contains("ws/keep") && note.contains("p.toml:4")),
        "{:?}",
        policy.notes
    );
    for secret in ["home/secret", "home/other"] {
        assert_eq!(rule(&root.join(secret)).unwrap().access, PathAccess::DenyRead);
    }
    let optional = rule(Path::new("/nowhere/x")).unwrap();
    assert!(optional.optional && optional.missing && optional.access == PathAccess::Write);
    assert_eq!(rule(Path::new("/tmp")).unwrap().access, PathAccess::Private, "${{TMP}} is the session's own");
    assert_eq!(policy.network.mode, NetworkMode::Allowlist);
    assert_eq!((policy.network.allow.len(), policy.network.deny.len()), (2, 1));
    let limits = &policy.limits;
    assert_eq!((limits.processes, limits.memory, limits.tmp_size), (Some(512), Some(4 << 30), None));
    assert_eq!((limits.open_files, limits.file_size), (Some(1024), Some(1_000_000_000_000)));
    assert_eq!(policy.seccomp.len(), 1);
    assert!(!policy.watched.is_empty());
    assert!(policy.watched.iter().all(|name| name.on_appear == stockade::policy::OnAppear::SetAside));
}

#[test]
fn contradictions_name_both_sides() {
    let (_dir, root) = room();
    std::fs::create_dir(root.join("ws/a")).unwrap();
    std::os::unix::fs::symlink(root.join("ws/a"), root.join("home/a")).unwrap();
    let text = "[filesystem]\nwrite = [\"${WORKSPACE}/a\"]\ndeny_write = [\"~/a\"]\n";
    std::fs::write(root.join("p.toml"), text).unwrap();
    let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, "ws");
    let error = request.clone().policy_file("p.toml").resolve(&host(&root)).unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, PolicyError::Contradiction { .. }), "{told}");
    assert!(told.contains("p.toml:3:15") && told.contains("p.toml:2:10"), "{told}");

    let cli = request.clone().cli_rule(CliRule::Write, "ws/a").cli_rule(CliRule::DenyRead, "ws/a");
    assert!(matches!(cli.resolve(&host(&root)), Err(PolicyError::Contradiction { .. })));
    let layered = request.cli_rule(CliRule::DenyWrite, "ws").resolve(&host(&root)).unwrap();
    assert!(!layered.decide(&root.join("ws/x")).writable, "another layer may override");
}

#[test]
fn policies_by_name_and_misspelling() {
    let (_dir, root) = room();
    for name in names() {
        let policy = PolicyRequest::new(None, "ws").policy(name).resolve(&host(&root)).unwrap();
        let expected = name.parse().unwrap_or(SandboxMode::WorkspaceWrite);
        assert_eq!(policy.mode, expected, "{name}");
    }
    let error = PolicyRequest::new(None, "ws").policy("workspce-write").resolve(&host(&root)).unwrap_err();
    assert!(matches!(&error, PolicyError::NoSuchPolicy { nearest, .. } if nearest == "workspace-write"), "{error}");
    let error = PolicyRequest::new(None, "ws").policy("./none.toml").resolve(&host(&root)).unwrap_err();
    assert!(matches!(&error, PolicyError::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn a_narrower_mode_leaves_out_what_a_file_opens() {
    let (_dir, root) = room();
    let text = "mode = \"workspace-write\"\n[filesystem]\nwrite = [\"${WORKSPACE}\"]\ndeny_read = [\"${WORKSPACE}/k\"]\n[network]\nmode = \"full\"\n";
    std::fs::write(root.join("p.toml"), text).unwrap();
    let narrow = PolicyRequest::new(SandboxMode::ReadOnly, "ws").policy("p.toml").resolve(&host(&root)).unwrap();
    assert!(!narrow.decide(&root.join("ws/x")).writable);
    assert_eq!(narrow.network.mode, NetworkMode::Off);
    assert!(!narrow.decide(&root.join("ws/k")).readable, "what it refuses stays");
    assert!(narrow.notes.iter().any(|note| note.contains("narrower")), "{:?}", narrow.notes);
    let same = PolicyRequest::new(None, "ws").policy("p.toml").resolve(&host(&root)).unwrap();
    assert!(same.decide(&root.join("ws/x")).writable);
    assert_eq!(same.network.mode, NetworkMode::Full);
}

#[test]
fn refusals_without_confinement_are_errors_not_ignored() {
    let (_dir, root) = room();
    let open = PolicyRequest::new(SandboxMode::DangerFullAccess, "ws");
    let policy = open.clone().resolve(&host(&root)).unwrap();
    assert!(policy.rules.is_empty() && policy.network.mode == NetworkMode::Full);
    assert!(policy.decide(Path::new("/etc/x")).writable);
    for request in [
        open.clone().cli_rule(CliRule::DenyRead, "ws"),
        open.clone().network(Some(NetworkMode::Off), []),
        open.clone().network(None, ["a:1".to_owned()]),
    ] {
        assert!(matches!(request.resolve(&host(&root)), Err(PolicyError::Conflict { .. })));
    }
    let text = "[filesystem]\ndeny_read = [\"/srv\"]\n";
    std::fs::write(root.join("p.toml"), text).unwrap();
    let noted = open.clone().policy("p.toml").resolve(&host(&root)).unwrap();
    assert!(noted.notes.iter().any(|note| note.contains("p.toml")), "{:?}", noted.notes);
    std::fs::write(root.join("p.toml"), format!("mode = \"danger-full-access\"\n{text}")).unwrap();
    assert!(matches!(open.policy("p.toml").resolve(&host(&root)), Err(PolicyError::Conflict { .. })));
}

#[test]
fn network_options_and_grants() {
    let (_dir, root) = room();
    let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, "ws");
    let resolved = |request: PolicyRequest| request.resolve(&host(&root)).map(|policy| policy.network);
    let off = resolved(request.clone()).unwrap();
    assert_eq!((off.mode, off.allow.len()), (NetworkMode::Off, 0));
    let implied = resolved(request.clone().network(None, ["a:1".to_owned()])).unwrap();
    assert_eq!((implied.mode, implied.allow), (NetworkMode::Allowlist, vec!["a:1".to_owned()]));
    for mode in [NetworkMode::Off, NetworkMode::Full] {
        let both = request.clone().network(Some(mode), ["a:1".to_owned()]);
        assert!(matches!(resolved(both), Err(PolicyError::Conflict { .. })), "{mode:?}");
    }
    let closed = resolved(request.clone().policy("rust").network(Some(NetworkMode::Off), [])).unwrap();
    assert_eq!((closed.mode, closed.allow.len()), (NetworkMode::Off, 0), "off closes what the file let through");
    let grant = stockade::denial::Grant { network: vec!["b:2".into()], ..Default::default() };
    let granted = resolved(request.clone().network(Some(NetworkMode::Off), []).grant(grant)).unwrap();
    assert_eq!((granted.mode, granted.allow), (NetworkMode::Allowlist, vec!["b:2".to_owned()]));
    std::fs::write(root.join("p.toml"), "[network]\nmode = \"allowlist\"\nallow = []\n").unwrap();
    let empty = resolved(request.policy("p.toml")).unwrap();
    assert_eq!((empty.mode, empty.allow.len()), (NetworkMode::Allowlist, 0), "an empty list lets nothing through");
}

#[test]
fn one_long_line_costs_no_more_than_many() {
    let list: Vec<String> = (0..30_000).map(|at| format!("\"/srv/ä/{at:06}\"")).collect();
    let text = format!("[filesystem]\ndeny_write = [{}, \"last\"]\n", list.join(","));
    let started = std::time::Instant::now();
    let error = parse(&text).unwrap_err();
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    let column = "deny_write = [".len() + 30_000 * 16 + 1 + 1;
    assert!(error.to_string().starts_with(&format!("p.toml:2:{column}: ")), "{column} {error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the text, there is a policy or an error whose place lies in the text.
    #[test]
    fn no_text_breaks_the_parser(pieces in prop::collection::vec(prop::sample::select(vec![
        "mode", "=", "\"read-only\"", "\n", "[", "]", "[filesystem]\n", "write", "deny_read", "{", "}", "path", ",",
        "\"${HOME}/ä\"", "\"~/*\"", "\"${\"", "\"~\"", "\"/\"", "optional", "true", "[limits]\n", "memory",
        "\"4GiB\"", "-1", "[network]\n", "allow", "[seccomp]\n", "deny", "syscall", "reason", "#", "é", "\u{0}", "'''",
    ]), 0..40)) {
        let text = pieces.concat();
        let lines = text.split('\n').count();
        if let Err(error) = parse(&text) {
            let told = error.to_string();
            let mut parts = told.strip_prefix("p.toml:").unwrap().split(':');
            let line: usize = parts.next().unwrap().parse().unwrap();
            let column: usize = parts.next().unwrap().parse().unwrap();
            prop_assert!((1..=lines).contains(&line), "{told}\n{text}");
            let width = text.split('\n').nth(line - 1).unwrap().chars().count();
            prop_assert!((1..=width + 1).contains(&column), "{told}\n{text}");
        }
    }
}
