//! The files of a scene: the host's, a home with credentials, and workspaces with repositories of several shapes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::getuid;

use crate::probes::{Actor, PATH, build};

pub(crate) fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Credentials under the scene's HOME, all holding the secret.
pub(crate) const SECRETS: &[&str] = &[
    ".ssh/id_test",
    ".aws/credentials",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/key",
];

fn put(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Lays out everything below `root` and gives it to the actor.
pub(crate) fn lay_out(root: &Path, actor: Actor) {
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(build(), root.join("bin/probe")).unwrap();
    fs::set_permissions(root.join("bin/probe"), fs::Permissions::from_mode(0o755)).unwrap();
    for secret in SECRETS {
        put(root.join("home").join(secret), "later");
    }
    for name in [".bashrc", ".profile", ".config/settings"] {
        put(root.join("home").join(name), "# as it was\n");
    }
    for place in ["out", "ws"] {
        let at = root.join(place);
        put(at.join("file"), &"as it was\n".repeat(20));
        put(at.join("dir/inner"), "inner\n");
        put(at.join("big"), &"0123456789abcdef".repeat(1024));
        put(at.join("marked"), "marked\n");
        put(at.join("exec.sh"), "#!/bin/sh\nexit 0\n");
        fs::set_permissions(at.join("exec.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(at.join("empty")).unwrap();
        run_quietly(&[
            &root.join("bin/probe").display().to_string(),
            "setxattr",
            &at.join("marked").display().to_string(),
            "user.mark",
            "setxattr",
        ]);
    }
    put(root.join("out/rights"), "rights\n");
    put(root.join("out/hard"), "hard\n");
    put(root.join("out/mounted/file"), "mounted\n");
    put(root.join("out/held-back"), "");
    lay_out_workspace(&root.join("ws"));
    put(root.join("bare/readme"), "bare\n");
    fs::create_dir_all(root.join("bare/scratch")).unwrap();
    lay_out_linked(root);
    lay_out_repository(&root.join("ws"));
    give(root, actor);
}

fn lay_out_workspace(ws: &Path) {
    for name in ["plain2", "exec2.sh"] {
        put(ws.join(name), "x\n");
    }
    for name in ["scratch", "mnt", "build-upper", "build-work", "race2"] {
        fs::create_dir_all(ws.join(name)).unwrap();
    }
    put(ws.join("race2/file"), "mine\n");
    put(ws.join("mnt/file"), "covered\n");
    symlink("../out", ws.join("race2-out")).unwrap();
    symlink("../out", ws.join("way-out")).unwrap();
    symlink("../out/file", ws.join("file-out")).unwrap();
    symlink("../out/not-yet", ws.join("dangling-out")).unwrap();
    fs::hard_link(ws.join("../out/hard"), ws.join("hard-out")).unwrap();
    for name in [".vscode/settings.json", ".idea/workspace.xml", ".claude/settings.json", ".mcp.json", ".envrc"] {
        put(ws.join(name), "{}\n");
    }
}

/// A repository that arrives with its protected names planted as links that lead out.
fn lay_out_linked(root: &Path) {
    let linked = root.join("linked");
    fs::create_dir_all(linked.join("scratch")).unwrap();
    put(linked.join(".git/HEAD"), "ref: refs/heads/main\n");
    put(linked.join(".git/config"), "[core]\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(linked.join(".git").join(name)).unwrap();
    }
    for (name, target) in [(".git/hooks", "hooks"), (".claude", "claude"), (".vscode", "vscode")] {
        put(root.join("out/far").join(target).join("settings.json"), "{}\n");
        let up = "../".repeat(name.split('/').count());
        symlink(format!("{up}out/far/{target}"), linked.join(name)).unwrap();
    }
    put(root.join("out/far/envrc"), "as it was\n");
    symlink("../out/far/envrc", linked.join(".envrc")).unwrap();
}

/// A real repository with a nested one, a submodule's directory and a linked worktree.
fn lay_out_repository(ws: &Path) {
    let git = |at: &Path, words: &[&str]| {
        let mut all = vec!["git", "-C"];
        let at = at.display().to_string();
        all.push(&at);
        all.extend(["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]);
        all.extend(words);
        run_quietly(&all);
    };
    fs::create_dir_all(ws.join("vendor/sub")).unwrap();
    for at in [ws.to_path_buf(), ws.join("vendor/sub")] {
        git(&at, &["init", "-q", "--template="]);
    }
    git(ws, &["config", "extensions.worktreeConfig", "true"]);
    git(ws, &["add", "file", "plain2"]);
    git(ws, &["commit", "-qm", "first"]);
    git(ws, &["worktree", "add", "-q", "--detach", "tree"]);
    // Relative, so that the copies of the template point to themselves.
    fs::write(ws.join("tree/.git"), "gitdir: ../.git/worktrees/tree\n").unwrap();
    fs::write(ws.join(".git/worktrees/tree/gitdir"), "../../../tree/.git\n").unwrap();
    for name in [
        ".git/hooks/pre-commit",
        ".git/config.worktree",
        ".git/info/attributes",
        ".git/modules/sub/hooks/post-checkout",
        ".git/modules/sub/config",
        ".git/worktrees/tree/config.worktree",
        "vendor/sub/.git/hooks/pre-commit",
    ] {
        put(ws.join(name), "# as it was\n");
    }
    put(ws.join(".git/modules/sub/HEAD"), "ref: refs/heads/main\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(ws.join(".git/modules/sub").join(name)).unwrap();
    }
}

fn run_quietly(words: &[&str]) {
    let done = Command::new(words[0])
        .args(&words[1..])
        .env_clear()
        .env("PATH", PATH)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Makes the actor the owner of everything but the probe.
fn give(path: &Path, actor: Actor) {
    if !getuid().is_root() {
        return;
    }
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_symlink() {
        lchown(path, Some(actor.uid), Some(actor.gid)).unwrap();
        return;
    }
    chown(path, Some(actor.uid), Some(actor.gid)).unwrap();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), actor);
        }
    }
}
