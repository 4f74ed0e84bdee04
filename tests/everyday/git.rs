//! Git, in repositories that the command makes, that were there, and whose data lies outside the workspace.

use std::fs;

use crate::worker::{Left, Worker};

/// Something to begin with, outside confinement.
const REPOSITORY: &str = "git init -q; echo one >a; git add a; git commit -qm first; cp .git/config ../config-before";

#[test]
fn a_repository_of_its_own() {
    for worker in Worker::all() {
        worker.works(
            "git init -q; echo one >a; mkdir d; echo two >d/b; git add .; git commit -qm first
             git config core.abbrev 12; git remote add origin /nowhere
             git checkout -q -b side; echo three >>a; git commit -qam second; git checkout -q main
             echo four >c; git add c; git commit -qm third; git merge -q -m merged side
             git checkout -q -b topic HEAD~1; echo five >e; git add e; git commit -qm fifth; git rebase -q side
             git branch -m topic renamed; git branch --track tracking side
             git worktree add -q wt side; echo six >wt/f; git -C wt add f; git -C wt commit -qm sixth; git worktree remove wt
             git checkout -q main; git branch -D renamed; git gc -q; git fsck --no-dangling 2>/dev/null",
            &[Left::Text("a", "one\nthree\n"), Left::Text("c", "four\n"), Left::Nothing("wt"), Left::Nothing("e")],
        );
        assert_eq!(worker.git(".", &["log", "-1", "--format=%s"]), "merged", "{}", worker.name);
        assert_eq!(worker.git(".", &["log", "-1", "--format=%s", "side"]), "sixth", "{}", worker.name);
        assert_eq!(worker.git(".", &["status", "--short"]), "", "{}", worker.name);
        assert_eq!(worker.git(".", &["config", "remote.origin.url"]), "/nowhere", "{}", worker.name);
    }
}

#[test]
fn a_submodule_in_a_repository_of_its_own() {
    for worker in Worker::all() {
        worker.works(
            "mkdir library; cd library; git init -q; echo s >s; git add s; git commit -qm library; cd ..
             mkdir app; cd app; git init -q; git submodule --quiet add $PWD/../library libs/deep; git commit -qm app; cd ..
             git clone -q --recurse-submodules app clone; cd app; git submodule --quiet update --init",
            &[Left::Text("app/libs/deep/s", "s\n"), Left::Text("clone/libs/deep/s", "s\n")],
        );
        assert!(worker.git("app", &["submodule", "status"]).contains("libs/deep"), "{}", worker.name);
        assert_eq!(worker.git("clone", &["log", "-1", "--format=%s"]), "app", "{}", worker.name);
    }
}

#[test]
fn a_repository_that_was_there() {
    for worker in Worker::all() {
        worker.prepare(REPOSITORY);
        worker.works(
            "echo two >b; git add b; git commit -qm second; git branch side; git checkout -q side; echo x >>a
             git commit -qam third; git checkout -q main; git merge -q side; echo dirty >>a; git stash -q; git stash pop -q
             git stash -q; git stash drop -q; git checkout -q -b topic HEAD~1; echo e >e; git add e; git commit -qm topic
             git rebase -q main; git checkout -q main; git merge -q topic; git tag v1; git cherry-pick --no-commit side~1
             git reset -q --hard; git gc -q; git repack -adq; git prune; git pack-refs --all
             git worktree add -q -b tree wt; echo w >wt/w; git -C wt add w; git -C wt commit -qm tree; git worktree remove wt
             git worktree add -q standing tree; git reflog expire --all --expire=now; git fsck --no-dangling 2>/dev/null",
            &[Left::Text("a", "one\nx\n"), Left::Text("e", "e\n"), Left::Text("standing/w", "w\n"), Left::Nothing("wt")],
        );
        assert_eq!(worker.git(".", &["log", "-1", "--format=%s"]), "topic", "{}", worker.name);
        assert_eq!(worker.git(".", &["log", "-1", "--format=%s", "tree"]), "tree", "{}", worker.name);
        let config = |path| fs::read(worker.root().join(path)).unwrap();
        assert_eq!(config("work/.git/config"), config("config-before"), "{}", worker.name);
    }
}

/// The workspace is a linked worktree, and the repository it belongs to lies outside.
#[test]
fn a_worktree_whose_repository_lies_outside() {
    for worker in Worker::all() {
        worker.prepare(
            "git init -q ../outside; cd ../outside; echo one >a; git add a; git commit -qm first; rmdir ../work
             git worktree add -q -b tree ../work",
        );
        worker.works(
            "echo two >b; git add b; git commit -qm second; git checkout -q -b more; echo x >>a; git commit -qam third
             git checkout -q tree; git merge -q more; echo y >>a; git stash -q; git stash pop -q; git checkout -q a
             git tag v1; git gc -q; git fsck --no-dangling 2>/dev/null",
            &[Left::Text("a", "one\nx\n"), Left::Text("b", "two\n")],
        );
        assert_eq!(worker.git("../outside", &["log", "-1", "--format=%s", "more"]), "third", "{}", worker.name);
        assert_eq!(worker.git("../outside", &["log", "-1", "--format=%s"]), "first", "{}", worker.name);
        let result = worker.run(&[], "echo planted >../outside/.git/hooks/pre-commit");
        assert_ne!(result["exitCode"], 0, "{result:#}");
        assert!(!worker.root().join("outside/.git/hooks/pre-commit").exists(), "{}", worker.name);
    }
}

/// A branch that follows another is written into `.git/config` by `git switch`, which only warns where it cannot be: the
/// branch is there, and the permission that the refusal names makes it follow.
#[test]
fn a_branch_that_follows_another() {
    for worker in Worker::all() {
        worker.prepare(
            "git init -q ../o; cd ../o; echo one >a; git add a; git commit -qm first; git branch feature; git branch other
             cd ../work; git clone -q ../o .",
        );
        let config = worker.work().join(".git/config");
        let before = fs::read(&config).unwrap();
        let result = worker.run(&[], "git switch feature; echo two >>a; git commit -qam second; git switch main");
        assert_eq!(result["exitCode"], 0, "{}: {result:#}", worker.name);
        assert_eq!(fs::read(&config).unwrap(), before, "{}", worker.name);
        assert_eq!(worker.git(".", &["log", "-1", "--format=%s", "feature"]), "second", "{}", worker.name);
        let path = config.to_str().unwrap();
        let denials = result["sandbox"]["denials"].as_array().unwrap();
        assert!(denials.iter().any(|denial| denial["grant"]["write"][0] == path), "{}: {result:#}", worker.name);
        worker.works_with(&["--write", path], "git switch -q other", &[]);
        assert_eq!(worker.git(".", &["rev-parse", "--abbrev-ref", "@{upstream}"]), "origin/other", "{}", worker.name);
    }
}

/// Submodules of a repository that was cloned without them come without a word in `.git/config`, when git is told to take
/// every one for active. Their repositories are told of: hooks and configuration in them are the command's own.
#[test]
fn submodules_that_were_not_there_yet() {
    for worker in Worker::all() {
        worker.prepare(
            "git init -q ../library; cd ../library; echo l >l; git add l; git commit -qm library
             git init -q ../o; cd ../o; git submodule --quiet add $PWD/../library libs/deep; git commit -qm app
             cd ../work; git clone -q ../o .",
        );
        let result = worker.works(
            "git -c submodule.active=. submodule --quiet update; git -C libs/deep log -1 --format=%s >said",
            &[Left::Text("libs/deep/l", "l\n"), Left::Text("said", "library\n")],
        );
        let notes = result["sandbox"]["notes"].to_string();
        for repository in ["libs/deep/.git", ".git/modules/libs/deep"] {
            let path = worker.work().join(repository);
            assert!(notes.contains(&format!("{};", path.display())), "{}: {repository}: {notes}", worker.name);
        }
    }
}

/// A new submodule is written into `.git/config`, which can name programs that git runs. So the refusal names that file
/// and the permission that opens it alone, and with that permission it works.
#[test]
fn a_submodule_in_a_repository_that_was_there() {
    for worker in Worker::all() {
        worker.prepare(&format!("{REPOSITORY}; git init -q library; git -C library commit -q --allow-empty -m l"));
        let config = worker.work().join(".git/config");
        let before = fs::read(&config).unwrap();
        let result = worker.run(&[], "git submodule --quiet add ./library first");
        assert_eq!(result["sandbox"]["denied"], true, "{}: {result:#}", worker.name);
        let denials = result["sandbox"]["denials"].as_array().unwrap();
        let path = config.to_str().unwrap();
        let named = denials.iter().find(|denial| denial["path"] == path && denial["blocking"] == true);
        let grant = &named.unwrap_or_else(|| panic!("{}: {result:#}", worker.name))["grant"];
        assert_eq!(*grant, serde_json::json!({ "write": [path] }), "{}", worker.name);
        assert_eq!(fs::read(&config).unwrap(), before, "{}", worker.name);
        worker.works_with(
            &["--write", path],
            "git submodule --quiet add ./library second",
            &[Left::Directory("second")],
        );
        let after = fs::read_to_string(&config).unwrap();
        assert!(after.contains("[submodule \"second\"]"), "{}: {after}", worker.name);
        let result = worker.run(&["--write", path], "echo planted >.git/hooks/pre-commit");
        assert_ne!(result["exitCode"], 0, "the permission opens one file: {result:#}");
        assert!(!worker.work().join(".git/hooks/pre-commit").exists(), "{}", worker.name);
    }
}
