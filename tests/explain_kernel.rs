//! What `stockade explain` answers is what the kernel does: 1 000 random paths under random rules, for each user and mode.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use user::{Programs, User};

const QUESTIONS: usize = 1000;

/// xorshift: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % limit
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

const NAMES: [&str; 8] = ["a", "b", "c d", "é", ".git", ".vscode", "hooks", "file"];

/// A tree of files with content and directories with a marker, all owned by `owner`.
fn grow(root: &Path, random: &mut Random, owner: u32) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut directories, mut files) = (vec![root.to_path_buf()], Vec::new());
    for _ in 0..120 {
        let path = random.pick(&directories).join(random.pick(&NAMES));
        if path.symlink_metadata().is_ok() || path.components().count() > root.components().count() + 5 {
            continue;
        }
        match random.below(5) {
            0 | 1 => {
                fs::write(&path, "content").unwrap();
                files.push(path);
            }
            2 | 3 => {
                fs::create_dir(&path).unwrap();
                directories.push(path);
            }
            _ => symlink(random.pick(&directories), &path).unwrap(),
        }
    }
    for directory in &directories {
        fs::write(directory.join("marker"), "here").unwrap();
        chown(directory.join("marker"), Some(owner), Some(owner)).unwrap();
    }
    for path in directories.iter().chain(&files) {
        chown(path, Some(owner), Some(owner)).unwrap();
    }
    (directories, files)
}

fn rules(directories: &[PathBuf], files: &[PathBuf], random: &mut Random) -> Vec<String> {
    let (mut options, mut used) = (Vec::new(), BTreeSet::new());
    for _ in 0..12 {
        let target = match random.below(3) {
            0 if !files.is_empty() => random.pick(files).clone(),
            1 => random.pick(directories).join("absent"),
            _ => random.pick(&directories[1..]).clone(),
        };
        // Two rules of different kinds for one path contradict each other, which is an error.
        if !used.insert(target.clone()) {
            continue;
        }
        let exists = target.exists();
        let option = match random.below(3) {
            0 if exists => "--write",
            1 => "--deny-read",
            _ => "--deny-write",
        };
        options.extend([option.to_owned(), target.to_str().unwrap().to_owned()]);
    }
    options
}

fn questions(directories: &[PathBuf], files: &[PathBuf], random: &mut Random) -> Vec<PathBuf> {
    let elsewhere =
        ["/etc/passwd", "/etc/new", "/usr/bin/env", "/tmp/new", "/root/new", "/var/tmp/new-stockade", "/dev/shm/new"];
    (0..QUESTIONS)
        .map(|_| match random.below(8) {
            0 => PathBuf::from(random.pick(&elsewhere)),
            1 | 2 if !files.is_empty() => random.pick(files).clone(),
            3 | 4 => random.pick(directories).clone(),
            _ => random.pick(directories).join(random.pick(&NAMES)),
        })
        .collect()
}

/// Tries each path and leaves everything as it was: `r w` for each, `-` where there is nothing to try.
const TRY: &str = r#"
while IFS= read -r p; do
  r=- w=-
  if [ -d "$p" ]; then
    if [ -e "$p/marker" ]; then r=1; else r=0; fi
    if { : > "$p/.probe"; } 2>/dev/null; then w=1; rm -f -- "$p/.probe"; else w=0; fi
  elif [ -e "$p" ]; then
    if [ -s "$p" ] && read -r -n1 _ < "$p"; then r=1; else r=0; fi 2>/dev/null
    if { : >> "$p"; } 2>/dev/null; then w=1; else w=0; fi
  elif [ ! -L "$p" ]; then
    if { : > "$p"; } 2>/dev/null; then w=1; rm -f -- "$p"; else w=0; fi
  fi
  echo "$r $w"
done
"#;

fn as_user(user: User, home: &Path, arguments: &[String]) -> Command {
    let mut command = user.command(&Programs::get().stockade);
    command.args(arguments).env("HOME", home).current_dir("/");
    command
}

fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

struct Tally {
    compared: usize,
    readable: usize,
    masked: usize,
    writable: usize,
    refused: usize,
}

fn compare(user: User, mode: &str, seed: u64) -> Tally {
    let uid = user.uid;
    // Held, so that both commands find it.
    let _programs = Programs::get();
    let mut random = Random(seed);
    let base = tempfile::Builder::new().prefix("stockade-explain-").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = base.path().join("ws");
    fs::create_dir(&workspace).unwrap();
    let (directories, files) = grow(&workspace, &mut random, uid);
    let asked = questions(&directories, &files, &mut random);
    let mut options: Vec<String> = vec!["--mode".into(), mode.into(), "--workspace".into()];
    options.push(workspace.to_str().unwrap().into());
    options.extend(rules(&directories, &files, &mut random));
    let with = |first: &str, rest: Vec<String>| [vec![first.to_owned()], options.clone(), rest].concat();

    let targets = asked.iter().map(|path| path.to_str().unwrap().to_owned());
    let explain = with("explain", ["--json".to_owned(), "--".to_owned()].into_iter().chain(targets).collect());
    let explained = as_user(user, base.path(), &explain).output().unwrap();
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let answers: Vec<Value> =
        String::from_utf8(explained.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), QUESTIONS);

    let input: String = asked.iter().map(|path| format!("{}\n", path.display())).collect();
    let run = with("run", vec!["--trace".into(), "off".into(), "-c".into(), TRY.into()]);
    let tried = with_input(as_user(user, base.path(), &run), &input);
    let tried = (String::from_utf8(tried.stdout).unwrap(), String::from_utf8_lossy(&tried.stderr).into_owned());
    assert_eq!(tried.0.lines().count(), QUESTIONS, "{}", tried.1);

    let mut tally = Tally { compared: 0, readable: 0, masked: 0, writable: 0, refused: 0 };
    for ((path, answer), did) in asked.iter().zip(&answers).zip(tried.0.lines()) {
        check(path, answer, did, uid, &mut tally);
    }
    tally
}

fn check(path: &Path, answer: &Value, did: &str, uid: u32, tally: &mut Tally) {
    let flag = |name: &str| answer[name].as_bool().unwrap();
    let (read, write) = did.split_once(' ').unwrap();
    let context = || format!("uid {uid}, {}: kernel says {did:?}, explain says {answer}", path.display());
    let there = path.exists();
    // The markers stand in the tree; directories elsewhere have none, and neither has what is private.
    if there && path.starts_with("/var/tmp") {
        // Inside a masked directory nothing is there, which is what denied means.
        assert_eq!(read == "1", flag("read"), "{}", context());
        if read == "1" {
            tally.readable += 1
        } else {
            tally.masked += 1
        }
        tally.compared += 1;
    }
    // A refused name that does not exist cannot be held by a mount: explain says that it is looked for instead. The
    // host's own permissions come on top of what the policy allows.
    let elsewhere = !path.starts_with("/var/tmp/stockade-explain-");
    if write != "-" && !flag("watched") && !(elsewhere && flag("write") && !flag("private")) {
        assert_eq!(write == "1", flag("write"), "{}", context());
        if write == "1" {
            tally.writable += 1
        } else {
            tally.refused += 1
        }
        tally.compared += 1;
    }
}

#[test]
fn explain_agrees_with_the_kernel() {
    for user in User::all() {
        let uid = user.uid;
        for (mode, seed) in [("read-only", 0x9e37_79b9_7f4a_7c15), ("workspace-write", 0x2545_f491_4f6c_dd1d)] {
            let tally = compare(user, mode, seed + u64::from(uid));
            // The comparison compared something of each kind.
            assert!(tally.compared > QUESTIONS, "{}", tally.compared);
            for (what, count) in [
                ("readable", tally.readable),
                ("masked", tally.masked),
                ("writable", tally.writable),
                ("refused", tally.refused),
            ] {
                assert!(count > 5, "uid {uid}, {mode}: only {count} {what}");
            }
        }
    }
}
