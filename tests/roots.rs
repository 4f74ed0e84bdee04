//! Writable roots: rename and link between several of them, and refusals in them by the ten thousand. As root and as a
//! user.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "support/cli.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod cli;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use cli::{Prompt, outcome};

/// The C library's own errors of `rename` and `link` between two paths, both ways round.
const TRY: &str = "
import os, sys
def told(call, source, target):
    try: call(source, target); return 'ok'
    except OSError as error: return error.strerror
for directories in (sys.argv[1:3], sys.argv[2:0:-1]):
    source, target = (os.path.join(directory, 'tried') for directory in directories)
    open(source, 'w').write('content')
    print(told(os.link, source, target))
    if os.path.exists(target): os.remove(target)
    print(told(os.rename, source, target))
    for left in source, target:
        if os.path.exists(left): os.remove(left)
";

/// Link and rename from one directory to the other, as two users of one backend see it.
fn between(prompt: &Prompt, options: &[&str], backend: &str, directories: [&str; 2]) -> Vec<String> {
    let at = |path: &str| prompt.work().join(path).to_str().unwrap().to_owned();
    let mut words = vec!["--mode", "workspace-write", "--backend", backend];
    words.extend(options);
    let (one, other) = (at(directories[0]), at(directories[1]));
    words.extend(["--", "python3", "-c", TRY, &one, &other]);
    let (status, out, err) = outcome(&mut prompt.run(words));
    assert_eq!(status, 0, "{out}{err}");
    out.lines().map(str::to_owned).collect()
}

/// Two roots are two mounts, and the kernel renames and links within one mount only, whatever file system it shows. So
/// both work wherever no mount is needed in between: everywhere in one root, roots within roots among it, but out of and
/// into a directory that is held in its place because something in it is refused; and between all roots where there are
/// no mounts, and Landlock grants the right to both.
#[test]
fn rename_and_link_work_within_a_mount() {
    for prompt in Prompt::all() {
        for name in ["own/within/deep", "own/beside", "own/holds/refused", "own/shut/open"] {
            fs::create_dir_all(prompt.work().join(name)).unwrap();
        }
        fs::create_dir_all(prompt.root().join("second")).unwrap();
        prompt.user.own(prompt.root());
        let second = prompt.root().join("second");
        let options = [
            ["--workspace", "own"],
            ["--write", "own/within/deep"],
            ["--write", second.to_str().unwrap()],
            ["--deny-write", "own/holds/refused"],
            ["--deny-write", "own/shut"],
            ["--write", "own/shut/open"],
        ]
        .concat();
        let (works, crosses) = (["ok"; 4], ["Invalid cross-device link"; 4]);
        for (other, in_mounts) in [
            ("own/beside", works),
            ("own/within/deep", works),
            ("own/holds", crosses),
            ("own/shut/open", crosses),
            ("../second", crosses),
        ] {
            for (backend, expected) in [("namespaces", in_mounts), ("landlock", works)] {
                let got = between(&prompt, &options, backend, ["own", other]);
                assert_eq!(got, expected, "own and {other}, {backend}, {}", prompt.user.name());
            }
        }
        // What people use copies where it cannot rename.
        let mut words = vec!["--mode", "workspace-write"];
        words.extend(&options);
        let second = format!("mkdir d; echo text >d/f; mv d {0}/; cp -al {0}/d {0}/e", second.display());
        words.extend(["-c", &second]);
        let (status, out, err) = outcome(&mut prompt.run(words));
        assert_eq!(status, 0, "{out}{err}");
        assert!(!prompt.work().join("own/d").exists());
        assert_eq!(fs::read(prompt.root().join("second/e/f")).unwrap(), b"text\n");
    }
}

const MANY: usize = 10_000;

/// A policy file with these lists of refused names.
fn policy(prompt: &Prompt, lists: &[(&str, &[String])]) -> String {
    let mut text = "mode = \"workspace-write\"\n[filesystem]\n".to_owned();
    for (list, names) in lists {
        writeln!(text, "{list} = [").unwrap();
        for name in *names {
            writeln!(text, "\"${{WORKSPACE}}/{name}\",").unwrap();
        }
        text.push_str("]\n");
    }
    let file = prompt.root().join("policy.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// One mount for each: made from where few mounts are, so that their number does not make each of them slower.
#[test]
fn ten_thousand_files_in_one_directory() {
    for prompt in Prompt::all() {
        let names = |directory: &str| (0..MANY).map(|at| format!("{directory}/f{at}")).collect::<Vec<_>>();
        let (written, read) = (names("w"), names("r"));
        for directory in ["w", "r"] {
            fs::create_dir(prompt.work().join(directory)).unwrap();
        }
        for name in written.iter().chain(&read) {
            fs::write(prompt.work().join(name), "old").unwrap();
        }
        prompt.user.own(prompt.root());
        let policy = policy(&prompt, &[("deny_write", &written), ("deny_read", &read)]);
        let script = format!(
            "for f in f0 f5000 f{}; do for d in w r; do echo new >$d/$f; rm -f $d/$f; mv $d/$f away; cat $d/$f; done; done
             echo new >w/mine; echo new >r/mine",
            MANY - 1
        );
        let began = Instant::now();
        let (status, out, err) = outcome(&mut prompt.run(["--policy", &policy, "-c", &script]));
        let took = began.elapsed();
        assert_eq!((status, out.as_str()), (0, "oldoldold"), "{err}");
        for name in written.iter().chain(&read) {
            assert_eq!(fs::read(prompt.work().join(name)).unwrap(), b"old", "{name} as {}", prompt.user.name());
        }
        for name in ["w/mine", "r/mine"] {
            assert_eq!(fs::read(prompt.work().join(name)).unwrap(), b"new\n", "the control");
        }
        // 0.4 s where nothing else runs, optimised. Generous: an unoptimised build on a busy machine.
        assert!(took < Duration::from_secs(60), "as {}: {took:?}", prompt.user.name());
    }
}

/// Each refusal holds a directory in its place, and none of them costs a descriptor.
#[test]
fn more_directories_held_than_there_are_descriptors() {
    const HELD: usize = 400;
    const TRY: &str = "
import os
for at in range(400):
    for attempt in (lambda: open(f'd{at}/f', 'w'), lambda: os.rename(f'd{at}', f'away{at}'), lambda: os.remove(f'd{at}/f')):
        try: attempt(); print('done', at)
        except OSError: pass
    open(f'd{at}/own', 'w').write('new')
";
    for prompt in Prompt::all() {
        for at in 0..HELD {
            let directory = prompt.work().join(format!("d{at}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("f"), "old").unwrap();
        }
        prompt.user.own(prompt.root());
        let names: Vec<_> = (0..HELD).map(|at| format!("d{at}/f")).collect();
        let policy = policy(&prompt, &[("deny_write", &names)]);
        let mut command = prompt.command("bash");
        command.args(["-c", "ulimit -n 256 && exec \"$@\"", "bash"]).arg(prompt.program());
        command.args(["run", "--policy", &policy, "--", "python3", "-c", TRY]);
        let (status, out, err) = outcome(&mut command);
        assert_eq!((status, out.as_str()), (0, ""), "{err}");
        for at in 0..HELD {
            let directory = prompt.work().join(format!("d{at}"));
            assert_eq!(fs::read(directory.join("f")).unwrap(), b"old", "{at} as {}", prompt.user.name());
            assert_eq!(fs::read(directory.join("own")).unwrap(), b"new", "{at} as {}", prompt.user.name());
        }
    }
}
