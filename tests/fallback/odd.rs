//! Places and users that are unusual, and lack nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scene::{Scene, gaps, result};
use crate::user::User;

/// Writes inside and tries to write outside; says what `pwd` is.
const SCRIPT: &str = "touch in; touch ../beside; touch .git/hooks/planted; touch /var/tmp/stockade-odd-$$; f=$(mktemp) && echo x >$f; echo ended";

fn stockade(scene: &Scene, front: &[String], workspace: &Path) -> Command {
    let words = [front.to_vec(), scene.become_user(), vec![scene.stockade().to_owned()]].concat();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    command.env("HOME", scene.root().join("home")).current_dir("/");
    command.args(["run", "--json", "--mode", "workspace-write", "--workspace"]).arg(workspace).args(["-c", SCRIPT]);
    command
}

fn keeps(title: &str, command: &mut Command) {
    let output = command.output().unwrap();
    let result = result(title, &output);
    assert_eq!(result["stdout"]["text"], "ended\n", "{title}: {result:#}");
    assert!(gaps(&result).is_empty(), "{title}: {result:#}");
}

#[test]
fn names_of_every_kind() {
    let names: [&[u8]; 7] = [
        b"two words",
        b"new\nline",
        b"not \xff\xfe utf-8",
        b"-dash",
        b"'quote\"$(id)`",
        b"back\\slash\\012",
        "π 💥".as_bytes(),
    ];
    for user in User::all() {
        let scene = Scene::of(user);
        for name in names {
            let name = OsStr::from_bytes(name);
            let parent = scene.root().join("in").join(name);
            let workspace = parent.join(name);
            fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
            user.own(&scene.root().join("in"));
            keeps(&format!("{name:?}"), &mut stockade(&scene, &[], &workspace));
            assert!(workspace.join("in").exists() && !parent.join("beside").exists(), "{name:?}");
            let mut plant = stockade(&scene, &[], &workspace);
            plant.arg("ignored");
            let hook = ["-c", "echo x >.git/hooks/pre-commit; echo y >.git/index"];
            let words: Vec<OsString> = plant.get_args().map(OsStr::to_owned).collect();
            let at = words.iter().position(|word| word == "-c").unwrap();
            let mut again = Command::new(plant.get_program());
            again.args(&words[..at]).args(hook).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
            again.env("HOME", scene.root().join("home"));
            assert!(again.output().unwrap().status.success(), "{name:?}");
            assert!(!workspace.join(".git/hooks/pre-commit").exists(), "{name:?}");
            assert!(workspace.join(".git/index").exists(), "{name:?}: the control");
        }
    }
}

#[test]
fn homes_of_every_kind() {
    for user in User::all() {
        let scene = Scene::of(user);
        for home in [None, Some(""), Some("/nonexistent"), Some("relative"), Some("/"), Some("/dev/null")] {
            let mut command = stockade(&scene, &[], &scene.work());
            match home {
                Some(home) => command.env("HOME", home),
                None => command.env_remove("HOME"),
            };
            keeps(&format!("HOME is {home:?}"), &mut command);
            assert!(scene.work().join("in").exists() && !scene.root().join("beside").exists(), "{home:?}");
            fs::remove_file(scene.work().join("in")).unwrap();
        }
    }
}

#[test]
fn a_user_without_an_account() {
    if !User::current().is_root() {
        eprintln!("not root: a user without an account cannot be had");
        return;
    }
    let uid = 54_321;
    assert!(nix::unistd::User::from_uid(uid.into()).unwrap().is_none(), "{uid} has an account here");
    let scene = Scene::of(User { uid, gid: uid });
    keeps("no account", &mut stockade(&scene, &[], &scene.work()));
    assert!(scene.work().join("in").exists() && !scene.root().join("beside").exists());
}

#[test]
fn a_directory_that_is_gone() {
    for user in User::all() {
        let scene = Scene::of(user);
        let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"";
        let front = [&scene.become_user()[..], &["bash".into(), "-c".into(), script.into(), "--".into()]].concat();
        for args in [&["run", "-c", "touch ../../it-ran"][..], &["run", "--mode", "workspace-write", "--", "true"]] {
            let words: Vec<String> = [&front[..], &[scene.stockade().to_owned()]].concat();
            let output =
                scene.start(&words.into_iter().chain(args.iter().map(|w| (*w).to_owned())).collect::<Vec<_>>());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{stderr}");
            assert!(stderr.contains("current directory"), "{stderr}");
        }
        assert!(!scene.root().join("it-ran").exists());
    }
}

/// Workspaces that are mounts of their own.
#[test]
fn mounted_workspaces() {
    if !User::current().is_root() {
        eprintln!("not root: nothing can be mounted");
        return;
    }
    for user in User::all() {
        let scene = Scene::of(user);
        let elsewhere: PathBuf = scene.root().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        user.own(&elsewhere);
        let (work, uid) = (scene.work(), user.uid);
        let layers = elsewhere.display();
        let hooks = format!("mkdir -p {0}/.git/hooks; chown -R {uid} {0}/.git", work.display());
        for (title, mount, check) in [
            (
                // The workspace's repository lies in the layer below: a write would copy it up.
                "an overlay",
                format!(
                    "mount -t tmpfs -o mode=755 none {layers}; mkdir -p {layers}/low/.git/hooks {layers}/up {layers}/w; \
                     chown -R {uid} {layers}/low {layers}/up; \
                     mount -t overlay -o lowerdir={layers}/low,upperdir={layers}/up,workdir={layers}/w none {}",
                    work.display()
                ),
                None,
            ),
            ("tmpfs", format!("mount -t tmpfs -o mode=700,uid={uid} none {}", work.display()), None),
            ("a bind", format!("mount --bind {} {}", elsewhere.display(), work.display()), Some(&elsewhere)),
            (
                "a bind of itself, nosuid and noexec",
                format!("mount --bind {0} {0}; mount -o remount,bind,nosuid,noexec,nodev,noatime {0}", work.display()),
                Some(&work),
            ),
        ] {
            let script = format!(
                "{mount}; {hooks}; \"$@\"; test -e {0}/in && test ! -e {1}/beside && test ! -e {0}/.git/hooks/planted",
                work.display(),
                scene.root().display()
            );
            let front = ["unshare", "--mount", "bash", "-ec", &script, "--"].map(str::to_owned);
            keeps(title, &mut stockade(&scene, &front, &work));
            if let Some(check) = check {
                fs::remove_file(check.join("in")).unwrap();
            }
        }
    }
}
