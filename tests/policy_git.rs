//! Protected paths, with repositories that git itself made.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade::denial::Grant;
use stockade::policy::{CliRule, EffectivePolicy, HostPaths, OnAppear, Origin, PathAccess, PolicyRequest, SandboxMode};

struct Room {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home")).unwrap();
        std::fs::create_dir_all(root.join("ws")).unwrap();
        Self { _dir: dir, root }
    }

    fn host(&self) -> HostPaths {
        HostPaths { home: self.root.join("home"), account_home: None, tmp: "/tmp".into(), cwd: self.root.clone() }
    }

    fn request(&self, workspace: &str) -> PolicyRequest {
        PolicyRequest::new(SandboxMode::WorkspaceWrite, self.root.join(workspace))
    }

    fn resolve(&self, workspace: &str) -> EffectivePolicy {
        self.request(workspace).resolve(&self.host()).unwrap()
    }

    fn git<const N: usize>(&self, directory: &str, arguments: [&str; N]) {
        let status = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(self.root.join(directory))
            .env("HOME", self.root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(status.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&status.stderr));
    }

    fn repository(&self, directory: &str) {
        std::fs::create_dir_all(self.root.join(directory)).unwrap();
        self.git(directory, ["init", "-q"]);
        std::fs::write(self.root.join(directory).join("file"), "x").unwrap();
        self.git(directory, ["add", "file"]);
        self.git(directory, ["commit", "-qm", "first"]);
    }

    #[track_caller]
    fn denied(&self, policy: &EffectivePolicy, paths: &[&str]) {
        for path in paths {
            assert!(!policy.decide(&self.root.join(path)).writable, "{path} should be refused");
        }
    }

    #[track_caller]
    fn writable(&self, policy: &EffectivePolicy, paths: &[&str]) {
        for path in paths {
            assert!(policy.decide(&self.root.join(path)).writable, "{path} should be writable");
        }
    }

    fn watched(&self, policy: &EffectivePolicy, path: &str) -> bool {
        policy.watched.iter().any(|name| name.path == self.root.join(path))
    }

    fn pinned(&self, policy: &EffectivePolicy, path: &str) -> bool {
        policy.pinned.contains(&self.root.join(path))
    }
}

#[test]
fn an_ordinary_repository() {
    let room = Room::new();
    room.repository("ws");
    std::fs::create_dir_all(room.root.join("ws/.git/info")).unwrap();
    std::fs::write(room.root.join("ws/.git/info/attributes"), "* filter=x\n").unwrap();
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/.git/hooks/pre-commit", "ws/.git/config", "ws/.git/info/attributes"]);
    room.writable(
        &policy,
        &["ws/.git/index.lock", "ws/.git/HEAD", "ws/.git/objects/aa/b", "ws/.git/refs/heads/x", "ws/file"],
    );
    for name in ["ws/.git/config.worktree", "ws/.git/commondir", "ws/.vscode", "ws/.mcp.json", "ws/.claude"] {
        assert!(room.watched(&policy, name), "{name}");
    }
    let planted = policy.watched.iter().find(|name| name.path == room.root.join("ws/.git/commondir")).unwrap();
    assert_eq!(planted.on_appear, OnAppear::SetAside, "git would run the hooks of the directory it names");
    assert!(room.pinned(&policy, "ws/.git") && room.pinned(&policy, "ws/.git/info"));
    assert!(!room.pinned(&policy, "ws"), "a root is a mount point already");
    let hooks = policy.rules.iter().find(|rule| rule.path == room.root.join("ws/.git/hooks")).unwrap();
    assert!(matches!(hooks.origin, Origin::Discovered { .. }) && hooks.reason.is_some());
    assert!(!room.root.join("ws/.git/commondir").exists(), "resolving creates nothing");
}

#[test]
fn no_repository_yet_is_watched() {
    let room = Room::new();
    let policy = room.resolve("ws");
    assert!(room.watched(&policy, "ws/.git"));
    room.writable(&policy, &["ws/.git/config"]);
}

#[test]
fn nested_repositories_submodules_and_bare_ones() {
    let room = Room::new();
    room.repository("library");
    room.repository("ws");
    room.repository("ws/vendor/sub");
    room.git("ws", ["submodule", "--quiet", "add", "../library", "libs/deep"]);
    room.git("", ["clone", "-q", "--bare", "library", "ws/mirror.git"]);
    std::fs::create_dir(room.root.join("ws/vendor/sub/.vscode")).unwrap();
    let policy = room.resolve("ws");
    room.denied(
        &policy,
        &[
            "ws/vendor/sub/.git/hooks/x",
            "ws/vendor/sub/.git/config",
            "ws/vendor/sub/.vscode/tasks.json",
            "ws/.git/modules/libs/deep/hooks/x",
            "ws/.git/modules/libs/deep/config",
            "ws/libs/deep/.git",
            "ws/mirror.git/hooks/x",
            "ws/mirror.git/config",
        ],
    );
    room.writable(
        &policy,
        &[
            "ws/vendor/sub/.git/index",
            "ws/.git/modules/libs/deep/index",
            "ws/libs/deep/file",
            "ws/mirror.git/packed-refs",
        ],
    );
    for pin in
        ["ws/vendor", "ws/vendor/sub", "ws/vendor/sub/.git", "ws/.git/modules/libs", "ws/libs/deep", "ws/mirror.git"]
    {
        assert!(room.pinned(&policy, pin), "{pin}: {:?}", policy.pinned);
    }
    let bare = room.resolve("ws/mirror.git");
    room.denied(&bare, &["ws/mirror.git/hooks/x", "ws/mirror.git/config"]);
    room.writable(&bare, &["ws/mirror.git/HEAD"]);
}

#[test]
fn a_linked_worktree_gets_its_data_and_nothing_that_runs() {
    let room = Room::new();
    room.repository("main");
    room.git("main", ["worktree", "add", "-q", "../ws/tree", "-b", "side"]);
    room.git("main", ["worktree", "add", "-q", "../other", "-b", "third"]);
    room.git("main", ["pack-refs", "--all"]);
    let policy = room.resolve("ws/tree");
    room.writable(
        &policy,
        &[
            "main/.git/worktrees/tree/index.lock",
            "main/.git/worktrees/tree/HEAD",
            "main/.git/worktrees/tree/logs/HEAD",
            "main/.git/objects/aa/b",
            "main/.git/refs/heads/side",
            "main/.git/logs/refs/stash",
            "main/.git/packed-refs",
            "main/.git/packed-refs.lock",
            "main/.git/gc.pid",
        ],
    );
    room.denied(
        &policy,
        &[
            "main/.git/hooks/pre-commit",
            "main/.git/config",
            "main/.git/HEAD",
            "main/.git/index",
            "main/.git/description",
            "main/.git/worktrees/tree/commondir",
            "main/.git/worktrees/tree/gitdir",
            "main/.git/worktrees/other/HEAD",
            "main/.git/worktrees/new",
            "main/file",
            "ws/tree/.git",
        ],
    );
    // `git gc` locks the HEAD of every worktree and rewrites its log.
    room.writable(&policy, &["main/.git/worktrees/other/HEAD.lock", "main/.git/worktrees/other/logs/HEAD"]);
    room.denied(&policy, &["main/.git/worktrees/other/index", "main/.git/worktrees/other/commondir"]);
    assert!(room.watched(&policy, "main/.git/commondir"));
    assert!(room.watched(&policy, "main/.git/worktrees/other/config.worktree"));
    assert!(room.watched(&policy, "main/.git/worktrees/tree/config.worktree"));
    for opened in ["main/.git", "main/.git/worktrees/tree"] {
        let rule = policy.rules.iter().find(|rule| rule.path == room.root.join(opened)).unwrap();
        assert_eq!(rule.access, PathAccess::Write, "a mount of its own, so it needs no pin");
    }

    let both = room.request("ws/tree").cli_rule(CliRule::Write, "other").resolve(&room.host()).unwrap();
    room.writable(&both, &["main/.git/worktrees/tree/HEAD", "main/.git/worktrees/other/HEAD"]);
    room.denied(&both, &["main/.git/worktrees/other/commondir", "other/.git"]);

    let inside = room.resolve("main");
    room.denied(
        &inside,
        &["main/.git/worktrees/other/commondir", "main/.git/worktrees/tree/gitdir", "main/.git/config"],
    );
    room.writable(&inside, &["main/.git/worktrees/new/HEAD", "main/.git/HEAD"]);
    let read_only = PolicyRequest::new(SandboxMode::ReadOnly, room.root.join("ws/tree")).resolve(&room.host()).unwrap();
    room.denied(&read_only, &["main/.git/objects/x", "ws/tree/file"]);
}

#[test]
fn a_stale_worktree_may_be_pruned() {
    let room = Room::new();
    room.repository("ws");
    room.git("ws", ["worktree", "add", "-q", "../gone", "-b", "side"]);
    let before = room.resolve("ws");
    room.denied(&before, &["ws/.git/worktrees/gone/gitdir"]);
    std::fs::remove_dir_all(room.root.join("gone")).unwrap();
    let after = room.resolve("ws");
    room.writable(&after, &["ws/.git/worktrees/gone/gitdir"]);
}

#[test]
fn a_worktree_in_the_private_tmp_is_not_pruned() {
    let room = Room::new();
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let tree = elsewhere.path().join("tree").display().to_string();
    room.repository("ws");
    room.git("ws", ["worktree", "add", "-q", &tree, "-b", "side"]);
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/.git/worktrees/tree/index", "ws/.git/worktrees/tree/HEAD"]);
    room.writable(&policy, &["ws/.git/worktrees/tree/HEAD.lock"]);
}

#[test]
fn planted_pointers_open_nothing() {
    let room = Room::new();
    room.repository("main");
    room.git("main", ["worktree", "add", "-q", "../other", "-b", "side"]);
    std::fs::create_dir_all(room.root.join("evil/objects")).unwrap();
    let absolute = |path: &str| room.root.join(path).display().to_string();
    // A made-up administrative directory inside the workspace, whose common directory lies outside.
    let fake = room.root.join("ws/fake/worktrees/x");
    std::fs::create_dir_all(&fake).unwrap();
    std::fs::write(fake.join("gitdir"), absolute("ws/.git")).unwrap();
    std::fs::write(fake.join("commondir"), absolute("main/.git")).unwrap();
    for target in ["main/.git/worktrees/other", "main/.git", "home", "evil", "ws/fake/worktrees/x", "nowhere", ""] {
        std::fs::write(room.root.join("ws/.git"), format!("gitdir: {}\n", absolute(target))).unwrap();
        let policy = room.resolve("ws");
        for rule in policy.rules.iter().filter(|rule| rule.access == PathAccess::Write) {
            assert_eq!(rule.path, room.root.join("ws"), "{target} opened {rule:?}");
        }
        room.denied(&policy, &["main/.git/objects/x", "main/.git/worktrees/other/HEAD", "home/x", "ws/.git"]);
    }
    for garbage in ["", "gitdir:", "gitdir: \n", "nonsense", "gitdir: ../../../../../../../..\n"] {
        std::fs::write(room.root.join("ws/.git"), garbage).unwrap();
        let policy = room.resolve("ws");
        assert!(
            policy.rules.iter().all(|r| r.access != PathAccess::Write || r.path == room.root.join("ws")),
            "{garbage}"
        );
    }
}

#[test]
fn a_submodule_as_the_workspace() {
    let room = Room::new();
    room.repository("library");
    room.repository("super");
    room.git("super", ["submodule", "--quiet", "add", "../library", "lib"]);
    let policy = room.resolve("super/lib");
    room.writable(&policy, &["super/.git/modules/lib/index", "super/.git/modules/lib/refs/heads/x", "super/lib/file"]);
    room.denied(
        &policy,
        &[
            "super/.git/modules/lib/hooks/x",
            "super/.git/modules/lib/config",
            "super/.git/config",
            "super/file",
            "super/lib/.git",
        ],
    );
}

#[test]
fn hooks_path_and_includes_are_protected_too() {
    let room = Room::new();
    room.repository("ws");
    std::fs::create_dir_all(room.root.join("ws/tools/hooks")).unwrap();
    std::fs::write(room.root.join("ws/team.inc"), "").unwrap();
    room.git("ws", ["config", "core.hooksPath", "tools/hooks"]);
    room.git("ws", ["config", "include.path", "../team.inc"]);
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/tools/hooks/pre-commit", "ws/team.inc"]);
    room.writable(&policy, &["ws/tools/other"]);
    assert!(room.pinned(&policy, "ws/tools"));
    let nested = room.request("ws").cli_rule(CliRule::Write, "ws/tools").resolve(&room.host()).unwrap();
    assert!(room.pinned(&nested, "ws/tools"), "a writable rule within a root may be no mount of its own");
}

#[test]
fn settings_files_and_how_to_lift_one() {
    let room = Room::new();
    std::fs::create_dir(room.root.join("ws/.vscode")).unwrap();
    std::fs::create_dir_all(room.root.join("ws/app/.idea")).unwrap();
    std::fs::create_dir_all(room.root.join("ws/node_modules/x/.vscode")).unwrap();
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/.vscode/tasks.json", "ws/app/.idea/x"]);
    room.writable(&policy, &["ws/node_modules/x/.vscode/a"]);
    let lifted = room.request("ws").cli_rule(CliRule::Write, "ws/.vscode").resolve(&room.host()).unwrap();
    room.writable(&lifted, &["ws/.vscode/tasks.json"]);
    room.denied(&lifted, &["ws/app/.idea/x"]);
    let grant = |path: &str| Grant { write: vec![room.root.join(path)], ..Grant::default() };
    let whole = room.request("ws").grant(grant("ws")).resolve(&room.host()).unwrap();
    room.denied(&whole, &["ws/.vscode/tasks.json"]);
    let exact = room.request("ws").grant(grant("ws/.vscode")).resolve(&room.host()).unwrap();
    room.writable(&exact, &["ws/.vscode/tasks.json"]);
    let missing = room.request("ws").grant(grant("ws/.envrc")).resolve(&room.host()).unwrap();
    room.writable(&missing, &["ws/.envrc"]);
    assert!(!room.watched(&missing, "ws/.envrc") && room.watched(&policy, "ws/.envrc"));
    symlink(room.root.join("ws/.vscode"), room.root.join("ws/innocent")).unwrap();
    let hidden = room.request("ws").grant(grant("ws/innocent")).resolve(&room.host());
    assert!(matches!(hidden, Err(stockade::policy::PolicyError::GrantHidesTarget { .. })), "{hidden:?}");
}

#[test]
fn protected_names_that_are_links() {
    let room = Room::new();
    std::fs::create_dir_all(room.root.join("ws/real")).unwrap();
    std::fs::create_dir_all(room.root.join("outside")).unwrap();
    symlink("real", room.root.join("ws/.vscode")).unwrap();
    symlink(room.root.join("outside"), room.root.join("ws/.idea")).unwrap();
    symlink("loop", room.root.join("ws/.claude")).unwrap();
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/real/x", "outside/x"]);
    let link = |name: &str| policy.watched.iter().find(|w| w.path == room.root.join(name)).unwrap().link.clone();
    assert_eq!(link("ws/.vscode").as_deref().map(Path::as_os_str), Some(OsStr::new("real")));
    assert!(link("ws/.idea").is_some() && link("ws/.claude").is_some());
    assert!(policy.notes.iter().any(|note| note.contains("/ws/.idea")), "{:?}", policy.notes);
}

#[test]
fn a_git_that_is_a_link_is_watched_and_its_target_protected() {
    let room = Room::new();
    room.repository("ws");
    std::fs::rename(room.root.join("ws/.git"), room.root.join("ws/store")).unwrap();
    symlink("store", room.root.join("ws/.git")).unwrap();
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/store/hooks/x", "ws/store/config"]);
    room.writable(&policy, &["ws/store/index"]);
    assert!(room.watched(&policy, "ws/.git"));
}

#[test]
fn a_hard_link_to_configuration_is_reported() {
    let room = Room::new();
    room.repository("ws");
    std::fs::hard_link(room.root.join("ws/.git/config"), room.root.join("ws/alias")).unwrap();
    let policy = room.resolve("ws");
    assert!(policy.notes.iter().any(|note| note.contains("hard link")), "{:?}", policy.notes);
}

#[test]
fn home_as_the_workspace() {
    let room = Room::new();
    for directory in [".ssh", ".config/fish", ".local/bin"] {
        std::fs::create_dir_all(room.root.join("home").join(directory)).unwrap();
    }
    std::fs::write(room.root.join("home/.bashrc"), "").unwrap();
    std::fs::write(room.root.join("home/.npmrc"), "").unwrap();
    for workspace in ["home", ""] {
        let policy = room.resolve(workspace);
        room.denied(
            &policy,
            &["home/.bashrc", "home/.config/fish/config.fish", "home/.local/bin/ls", "home/.ssh/config", "home/.npmrc"],
        );
        room.writable(&policy, &["home/notes", "home/.config/other"]);
        assert!(!policy.decide(&room.root.join("home/.ssh/id")).readable);
        assert!(room.watched(&policy, "home/.zshrc") && room.watched(&policy, "home/.aws"));
        assert!(room.pinned(&policy, "home/.config") && room.pinned(&policy, "home/.local"));
    }
    let project = room.resolve("ws");
    assert!(!room.watched(&project, "home/.zshrc"), "nothing of the home is writable");
}

#[test]
fn the_policy_file_itself_cannot_be_changed() {
    let room = Room::new();
    std::fs::write(room.root.join("ws/p.toml"), "mode = \"workspace-write\"\n").unwrap();
    let policy = room.request("ws").policy_file(room.root.join("ws/p.toml")).resolve(&room.host()).unwrap();
    room.denied(&policy, &["ws/p.toml"]);
    room.writable(&policy, &["ws/q.toml"]);
    symlink(room.root.join("ws/p.toml"), room.root.join("home/p.toml")).unwrap();
    let linked = room.request("ws").policy_file(room.root.join("home/p.toml")).resolve(&room.host()).unwrap();
    room.denied(&linked, &["ws/p.toml"]);
}

#[test]
fn a_large_workspace_is_looked_at_in_part_and_says_so() {
    let room = Room::new();
    room.repository("ws");
    for outer in 0..50 {
        for inner in 0..60 {
            std::fs::create_dir_all(room.root.join(format!("ws/{outer:02}/{inner:02}"))).unwrap();
        }
    }
    let started = std::time::Instant::now();
    let policy = room.resolve("ws");
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    room.denied(&policy, &["ws/.git/hooks/x"]);
    assert!(policy.notes.iter().any(|note| note.contains("in part of it only")), "{:?}", policy.notes);
}

#[test]
fn a_flat_directory_is_not_read_to_its_end() {
    let room = Room::new();
    for at in 0..20_500 {
        std::fs::write(room.root.join(format!("ws/{at}")), "").unwrap();
    }
    std::fs::create_dir(room.root.join("ws/.vscode")).unwrap();
    let policy = room.resolve("ws");
    room.denied(&policy, &["ws/.vscode/x"]);
    assert!(policy.notes.iter().any(|note| note.contains("in part of it only")), "{:?}", policy.notes);
}
