//! What makes other programs run code later: hooks, configuration, settings; in repositories of every shape.

use crate::table::{Attack, Control, Effect, control_in_workspace};

const GAP: &[&str] = &["protected-paths"];

/// Files that are there already, each written, replaced, removed and reached in every way a path can be.
const STANDING: &[&str] = &[
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/modules/sub/hooks/post-checkout",
    ".git/modules/sub/config",
    ".git/worktrees/tree/config.worktree",
    "vendor/sub/.git/hooks/pre-commit",
    "vendor/sub/.git/config",
    "tree/.git",
    ".vscode/settings.json",
    ".idea/workspace.xml",
    ".claude/settings.json",
    ".mcp.json",
    ".envrc",
];

const WAYS: &[&str] = &[
    "open {p} wronly,append",
    "open {p} rdonly,trunc",
    "replace-by-symlink /tmp/x {p} rename {ws}/swap-{n}",
    "replace-by-symlink /tmp/x {p} exchange {ws}/swapx-{n}",
    "unlink {p}",
    "chmod {p} 0777 chmod",
    "link-write {p} {ws}/hard-{n}",
    "rename {p} {ws}/moved-{n}",
];

/// Names that are not there yet: planted, directly or by a detour.
const PLANTED: &[&str] = &[
    "sh:mkdir -p {bare}/.git/hooks && echo x >{bare}/.git/hooks/pre-commit",
    "sh:mkdir -p {bare}/.claude && echo x >{bare}/.claude/settings.json",
    "sh:mkdir -p {bare}/.vscode && echo x >{bare}/.vscode/tasks.json",
    "sh:mkdir -p {bare}/.idea && echo x >{bare}/.idea/workspace.xml",
    "sh:echo x >{bare}/.envrc",
    "sh:echo x >{bare}/.mcp.json",
    "sh:mkdir -p {bare}/t && echo x >{bare}/t/s && mv {bare}/t {bare}/.claude",
    "sh:mkdir -p {bare}/t2 && echo x >{bare}/t2/s && ln -s t2 {bare}/.vscode",
    "sh:echo 'gitdir: {scratch}' >{bare}/.git",
    "sh:ln -s {scratch} {bare}/.git",
    "sh:mkdir {bare}/h && cd {bare}/h && mkdir objects refs hooks && echo 'ref: refs/heads/x' >HEAD && printf '[core]\\n\\tbare = true\\n\\tfsmonitor = /tmp/x\\n' >config",
];

fn standing() -> Vec<Attack> {
    let mut all = Vec::new();
    for (number, path) in STANDING.iter().enumerate() {
        for way in WAYS {
            let args = way.replace("{p}", &format!("{{ws}}/{path}")).replace("{n}", &number.to_string());
            all.push(Attack::new("protected", Effect::World, &args).gap(GAP));
        }
    }
    all
}

pub(crate) fn attacks() -> Vec<Attack> {
    let mut all = standing();
    let world = |args: &str| Attack::new("protected", Effect::World, args).gap(GAP);
    all.extend([
        world("rename {ws}/.git {ws}/.git2"),
        world("renameat2 {ws}/.git {ws}/dir exchange"),
        world("rename-edit-back {ws}/.git hooks/pre-commit back"),
        world("rename-edit-back {ws}/.git config back"),
        world("rename-edit-back {ws}/.git/hooks pre-commit back"),
        world("rename-edit-back {ws}/.claude settings.json back"),
        world("rename-edit-back {ws}/.vscode settings.json back"),
        world("rename-edit-back {ws}/vendor sub/.git/hooks/pre-commit back"),
        world("rename-edit-back {ws}/vendor/sub .git/config back"),
        world("rename-edit-back {ws}/vendor/sub/.git hooks/pre-commit back"),
        world("rename-edit-back {ws} .git/hooks/pre-commit back"),
        world("open {ws}/.git/hooks/post-merge wronly,creat"),
        world("open {ws}/vendor/sub/.git/hooks/post-merge wronly,creat"),
        world("open {ws}/.git/modules/sub/hooks/post-merge wronly,creat"),
        world("open {ws}/.vscode/tasks.json wronly,creat"),
        world("open {ws}/.claude/settings.local.json wronly,creat"),
        world("symlink /tmp/x {ws}/.git/hooks/post-rewrite"),
        world("mkdir {ws}/.git/hooks/made"),
        world("sh:git -C {ws} config core.fsmonitor /tmp/x"),
        world("sh:git -C {ws} config core.hooksPath /tmp"),
        world("sh:git -C {ws} config --worktree core.fsmonitor /tmp/x"),
        world("sh:git -C {ws}/vendor/sub config core.pager /tmp/x"),
        world("sh:cd {ws} && rm -rf .git/hooks"),
        world("sh:cd {ws} && mv .git/hooks .git/h2; mkdir -p .git/hooks && echo x >.git/hooks/pre-commit"),
        world("sh:cd {ws}/.git && echo x >hooks/../hooks/pre-push"),
        world("sh:cd {ws} && ln -s .git/hooks hk && echo x >hk/pre-push; rm -f hk"),
        world("utimes {ws}/.git/config utimensat").gap(&["protected-paths", "metadata"]),
        world("setxattr {ws}/.git/config user.attack setxattr").gap(&["protected-paths", "metadata"]),
        world("setxattr {ws}/.git/hooks user.attack setxattr").gap(&["protected-paths", "metadata"]),
        world("chmod {ws}/.git/hooks 0777 chmod").gap(&["protected-paths", "metadata"]),
        world("uring trunc {ws}/.git/config"),
        world("int80 open {ws}/.git/config"),
        world("race-symlink {ws}/race9 {ws}/file {ws}/.git/hooks/pre-commit").workspace_write(),
        // A repository whose protected names are links that lead out.
        world("sh:echo x >{linked}/.git/hooks/pre-commit"),
        world("sh:echo x >>{linked}/.claude/settings.json"),
        world("sh:echo x >>{linked}/.vscode/settings.json"),
        world("sh:echo x >>{linked}/.envrc"),
    ]);
    all.extend(PLANTED.iter().map(|args| Attack::new("planted", Effect::World, args).gap(GAP).alone()));
    all
}

pub(crate) const CONTROLS: &[Control] = &[
    control_in_workspace(
        "protected",
        "sh:cd {ws} && echo change >>file && git add file && git -c user.name=t -c user.email=t@example.org commit -qm work",
    ),
    control_in_workspace(
        "protected",
        "sh:cd {ws} && git stash list && git branch side && git checkout -q side && git status --short >/dev/null",
    ),
    control_in_workspace("protected", "sh:cd {ws} && echo ref >.git/description && rm -f .git/gc.log"),
    control_in_workspace("planted", "sh:mkdir -p {bare}/src && echo 'fn main() {}' >{bare}/src/main.rs"),
];
