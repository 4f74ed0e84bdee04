//! What makes other programs run code later, in workspaces of every shape: planted by every detour there is, looked for on
//! the disk. And after any end of a run, a kill of everything included, the workspace holds what the command did to it and
//! nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

#[path = "support/cli.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod cli;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use cli::{Prompt, outcome};

/// Everything below a directory: what it is, its mode, and its text or where it leads.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let kind = if meta.is_dir() {
                directories.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            found.insert(path.strip_prefix(root).unwrap().to_path_buf(), format!("{:o} {kind}", meta.mode()));
        }
    }
    found
}

/// Runs a script unconfined, to lay something out.
fn lay_out(prompt: &Prompt, script: &str) {
    let config = "[user]\n\tname = t\n\temail = t@example.org\n[protocol \"file\"]\n\tallow = always\n";
    fs::write(prompt.root().join("home/.gitconfig"), config).unwrap();
    prompt.user.own(&prompt.root().join("home"));
    let (status, _, stderr) = outcome(prompt.command("bash").args(["-ec", script]));
    assert_eq!(status, 0, "{stderr}");
}

fn confined(prompt: &Prompt, args: &[&str], script: &str) -> Value {
    let all = [&["--mode", "workspace-write", "--json"], args, &["-c", script]].concat();
    let (status, stdout, stderr) = outcome(&mut prompt.run(all));
    assert_eq!(status, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn notes(result: &Value) -> String {
    result["sandbox"]["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// Git repositories of every shape, and settings.
const SHAPES: &str = "
    git init -q library; git -C library commit -q --allow-empty -m l
    git init -q main; cd main; git commit -q --allow-empty -m m; git worktree add -q ../linked; cd ..
    cd work; git init -q; git commit -q --allow-empty -m w; git submodule --quiet add ../library libs/deep; git commit -qm s
    git worktree add -q inside; git init -q vendor/nested; git init -q --bare bare.git; mkdir -p plain
    mkdir data; git clone -q ../library --separate-git-dir=data/apart apart
    mkdir -p .vscode .claude .idea; echo {} >.vscode/settings.json; echo {} >.claude/settings.json; echo {} >.mcp.json; echo >.envrc
    mkdir -p .git/hooks .git/modules/libs/deep/hooks vendor/nested/.git/hooks bare.git/hooks data/apart/hooks ../main/.git/hooks
    mv ../linked ../linked-at && cd ../main && git worktree repair ../linked-at >/dev/null 2>&1; cd ../work";

/// Directories of hooks and files of configuration, from the workspace.
const GUARDED: &[&str] = &[
    ".git/hooks",
    ".git/config",
    ".git/modules/libs/deep/hooks",
    ".git/modules/libs/deep/config",
    "vendor/nested/.git/hooks",
    "vendor/nested/.git/config",
    "bare.git/hooks",
    "bare.git/config",
    "data/apart/hooks",
    "data/apart/config",
    "libs/deep/.git",
    "apart/.git",
    "inside/.git",
    ".vscode",
    ".claude",
    ".idea",
    ".mcp.json",
    ".envrc",
];

/// What a command does to the path in `$p`, directory or file; `$t` is a name of its own.
const WAYS: &[&str] = &[
    "echo x >$p/planted; echo x >>$p",
    "rm -rf $p; mkdir $p && echo x >$p/planted",
    "mv $p $t; mkdir -p $p; echo x >$p/planted",
    "mkdir $t; echo x >$t/planted; mv -T $t $p; mv --exchange -T $t $p",
    "ln -sfn /tmp $t; mv -T $t $p",
    "ln $p $t && echo x >>$t",
    "ln -s $p $t; echo x >$t/planted; echo x >>$t",
    "d=$(dirname $p); mv $d $d-moved && { rm -rf $d-moved/$(basename $p); mkdir -p $d-moved/$(basename $p); mv $d-moved $d; }",
    "d=$(dirname $(dirname $p)); test $d = . || { mv $d $t; echo x >$t/${p#$d/}/planted; echo x >>$t/${p#$d/}; mv $t $d; }",
    "chmod 777 $p; chmod +x $p; touch -d 2001-01-01 $p",
    "cp /bin/true $p/pre-commit; install -m 755 /bin/true $p",
    "python3 -c 'import ctypes, sys; ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)' $t $p",
];

#[test]
fn hooks_and_configuration_in_every_shape() {
    for prompt in Prompt::all() {
        lay_out(&prompt, &format!("cd ..; {SHAPES}"));
        let before: BTreeMap<_, _> = GUARDED.iter().map(|path| (*path, look(&prompt.work().join(path)))).collect();
        let outside = tree(&prompt.root().join("main"));
        let mut script = String::new();
        for path in GUARDED {
            for way in WAYS {
                script.push_str(&format!("p={path}; t=$(mktemp -u own.XXXXXX); ( {way} ) 2>/dev/null\n"));
            }
        }
        script.push_str("echo done >control");
        let result = confined(&prompt, &[], &script);
        assert_eq!(result["sandbox"]["enforcement"], "full");
        for (path, before) in &before {
            assert_eq!(look(&prompt.work().join(path)), *before, "{path} as {}", prompt.user.name());
        }
        assert_eq!(tree(&prompt.root().join("main")), outside, "{}", prompt.user.name());
        assert!(prompt.work().join("control").exists(), "the control");
        // The other control: without confinement the script gets at every one of them.
        let (status, _, stderr) = outcome(prompt.command("bash").args(["-c", &script]));
        assert_eq!(status, 0, "{stderr}");
        for (path, before) in &before {
            let at = prompt.work().join(path);
            assert!(at.symlink_metadata().is_err() || look(&at) != *before, "{path} as {}", prompt.user.name());
        }
    }
}

/// A path and all below it, times and all.
fn look(path: &Path) -> (String, BTreeMap<PathBuf, String>) {
    let meta = path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let own = format!("{:o} {} {} {:?}", meta.mode(), meta.ino(), meta.mtime(), fs::read(path).ok());
    (own, if meta.is_dir() { tree(path) } else { BTreeMap::new() })
}

/// In a linked worktree the code lies outside, in the common directory and in this worktree's own.
#[test]
fn a_worktree_opens_data_and_no_code() {
    for prompt in Prompt::all() {
        lay_out(
            &prompt,
            "cd ..; git init -q main; cd main; git commit -q --allow-empty -m m; rmdir ../work; git worktree add -q ../work",
        );
        let git = prompt.root().join("main/.git");
        let before = [look(&git.join("config")), look(&git.join("hooks"))];
        confined(
            &prompt,
            &[],
            "g=../main/.git; echo x >$g/hooks/pre-commit; echo x >>$g/config; git config core.pager x; rm -rf $g/hooks
             mv $g ../main/away; mv $g/hooks $g/h2; echo x >../main/planted; echo 'gitdir: /tmp' >.git; rm -f .git
             git commit -q --allow-empty -m inside",
        );
        assert_eq!([look(&git.join("config")), look(&git.join("hooks"))], before, "{}", prompt.user.name());
        assert!(!prompt.root().join("main/planted").exists(), "{}", prompt.user.name());
        let log = prompt.command("git").args(["log", "-1", "--format=%s"]).output().unwrap();
        assert_eq!(log.stdout, b"inside\n", "the control, as {}", prompt.user.name());
    }
}

/// A `.git` file that points elsewhere opens nothing there.
#[test]
fn a_planted_pointer_opens_nothing() {
    for prompt in Prompt::all() {
        lay_out(
            &prompt,
            "git init -q ../victim; mkdir -p ../fake/worktrees/x; cp -r ../victim/.git/. ../fake/
             echo 'gitdir: ../victim/.git' >.git; mkdir sub; echo 'gitdir: ../../fake/worktrees/x' >sub/.git",
        );
        let before = [tree(&prompt.root().join("victim")), tree(&prompt.root().join("fake"))];
        let script =
            "echo x >../victim/.git/HEAD; echo x >../fake/HEAD; echo x >../fake/worktrees/x/HEAD; echo y >control";
        confined(&prompt, &[], script);
        assert_eq!([tree(&prompt.root().join("victim")), tree(&prompt.root().join("fake"))], before);
        assert!(prompt.work().join("control").exists());
    }
}

const PLANTS: &str = "mkdir .vscode .claude; echo x >.vscode/tasks.json; ln -s ../home .idea; echo x >.envrc
                      mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; git init -q deep/er; echo x >ordinary";

#[test]
fn what_appears_is_told_and_treated_as_the_policy_says() {
    const NAMES: [&str; 5] = [".vscode", ".claude", ".idea", ".envrc", ".git"];
    for prompt in Prompt::all() {
        for on_appear in ["keep", "set-aside", "remove"] {
            let text = format!("mode = \"workspace-write\"\n[protect]\non_appear = \"{on_appear}\"\n");
            let file = prompt.root().join("policy.toml");
            fs::write(&file, text).unwrap();
            let home = tree(&prompt.root().join("home"));
            let result = confined(&prompt, &["--policy", file.to_str().unwrap()], PLANTS);
            let told = notes(&result);
            for name in NAMES {
                let path = prompt.work().join(name);
                assert!(told.contains(path.to_str().unwrap()), "{name}: {told}");
                assert_eq!(path.symlink_metadata().is_ok(), on_appear == "keep", "{name} under {on_appear}: {told}");
                let aside = prompt.work().join(format!("{name}.set-aside-by-stockade"));
                assert_eq!(aside.symlink_metadata().is_ok(), on_appear == "set-aside", "{name}: {told}");
            }
            assert!(told.contains("deep/er/.git"), "a nested repository: {told}");
            assert!(prompt.work().join("deep/er/.git").is_dir() && prompt.work().join("ordinary").exists());
            assert_eq!(tree(&prompt.root().join("home")), home, "no link is followed");
            let (status, _, stderr) = outcome(prompt.command("bash").args(["-c", "rm -rf ./* ./.[!.]*"]));
            assert_eq!(status, 0, "{stderr}");
        }
    }
}

/// A `commondir` in a main repository would move hooks and configuration; git itself makes none there.
#[test]
fn a_planted_commondir_is_set_aside() {
    for prompt in Prompt::all() {
        lay_out(&prompt, "git init -q; git commit -q --allow-empty -m m");
        let result = confined(&prompt, &[], "mkdir other; echo ../other >.git/commondir");
        assert!(!prompt.work().join(".git/commondir").exists() && notes(&result).contains("commondir"), "{result:#}");
        assert!(prompt.work().join(".git/commondir.set-aside-by-stockade").exists());
        let log = prompt.command("git").args(["log", "-1", "--format=%s"]).output().unwrap();
        assert_eq!(log.stdout, b"m\n", "git goes on working");
    }
}

/// Also when the time limit ended the command.
#[test]
fn what_appears_before_a_time_limit() {
    for prompt in Prompt::all() {
        lay_out(&prompt, "git init -q; git commit -q --allow-empty -m m");
        let script = "echo ../other >.git/commondir; mkdir .vscode; sleep 1000";
        let result = confined(&prompt, &["--timeout-ms", "1500"], script);
        assert_eq!(result["timedOut"], true);
        assert!(notes(&result).contains(".vscode"), "{result:#}");
        assert!(!prompt.work().join(".git/commondir").exists(), "{result:#}");
    }
}

/// Protected names that do not exist cost nothing on the disk, whichever way a run ends.
#[test]
fn the_workspace_holds_what_the_command_did_to_it() {
    for prompt in Prompt::all() {
        lay_out(&prompt, "git init -q; git commit -q --allow-empty -m m; mkdir empty; git init -q nested");
        let before = tree(prompt.root());
        for (end, args) in [("true", &[][..]), ("kill -KILL $$", &[]), ("sleep 1000", &["--timeout-ms", "300"])] {
            confined(&prompt, args, end);
            assert_eq!(tree(prompt.root()), before, "{end} as {}", prompt.user.name());
        }
        let mut expected = before.clone();
        for number in 0..8_u32 {
            killed(&prompt, number);
            let made = prompt.work().join(format!("made-{number}"));
            if made.exists() {
                let meta = made.symlink_metadata().unwrap();
                expected.insert(PathBuf::from(format!("work/made-{number}")), format!("{:o} made\n", meta.mode()));
            }
            let tmp = |tree: BTreeMap<PathBuf, String>| -> BTreeMap<PathBuf, String> {
                tree.into_iter().filter(|(path, _)| !path.starts_with("tmp")).collect()
            };
            assert_eq!(tmp(tree(prompt.root())), tmp(expected.clone()), "killed, round {number}");
        }
        assert!(expected.len() > before.len(), "in some round the command had begun: the control");
    }
}

/// Kills `stockade` by SIGKILL, a little later in every round, and waits until its sandbox is gone.
fn killed(prompt: &Prompt, number: u32) {
    let script = format!("echo made >made-{number}; exec sleep 98765{number}");
    let mut child = prompt.run(["--mode", "workspace-write", "-c", &script]).spawn().unwrap();
    let made = prompt.work().join(format!("made-{number}"));
    let began = Instant::now();
    let wait = Duration::from_millis(u64::from(number) * 10);
    while began.elapsed() < wait || (number > 5 && !made.exists() && began.elapsed() < Duration::from_secs(20)) {
        std::thread::sleep(Duration::from_millis(2));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let gone = || {
        !fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&format!("98765{number}"))
        })
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !gone() {
        assert!(Instant::now() < deadline, "the command outlived its executor");
        std::thread::sleep(Duration::from_millis(20));
    }
}
