//! Secrets, by the shipped list, by a list and by a pattern of a policy: what reading, writing and moving them comes to
//! inside, and that they are what they were outside. As root and as a user.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "support/cli.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod cli;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use cli::{Prompt, outcome};

const POLICY: &str = "mode = \"workspace-write\"
[filesystem]
deny_read = [\"${WORKSPACE}/keys\", \"${WORKSPACE}/.env*\", \"${WORKSPACE}/sub/*.pem\"]
";

const DIRECTORIES: [&str; 4] = ["home/.ssh", "home/.gnupg", "home/.aws", "work/keys"];
const FILES: [&str; 5] = ["home/.netrc", "home/.git-credentials", "work/.env", "work/.env.local", "work/sub/a.pem"];

/// Every way, and the errno it ends with: `ok` where it does what it says.
const TRY: &str = r#"
import errno, os, sys
def told(attempt):
    try: return attempt() or 'ok'
    except OSError as error: return errno.errorcode[error.errno]
def read(path):
    with open(path) as file: return file.read()
def write(path):
    with open(path, 'a') as file: file.write('planted')
root = sys.argv[1]
for path in sys.argv[2].split():
    path = os.path.join(root, path)
    print(os.path.relpath(path, root),
        told(lambda: ','.join(os.listdir(path)) or 'empty'), told(lambda: read(path + '/secret')),
        told(lambda: write(path + '/secret')), told(lambda: write(path + '/new')), told(lambda: os.mkdir(path + '/sub')),
        told(lambda: os.rmdir(path)), told(lambda: os.rename(path, path + '-moved')), told(lambda: os.chmod(path, 0o777)))
for path in sys.argv[3].split():
    path = os.path.join(root, path)
    print(os.path.relpath(path, root),
        told(lambda: read(path)), told(lambda: write(path)), told(lambda: os.remove(path)),
        told(lambda: os.rename(path, path + '-moved')), told(lambda: os.chmod(path, 0o777)),
        told(lambda: (os.link(path, root + '/work/linked'), read(root + '/work/linked'))[1]),
        told(lambda: (os.symlink(path, root + '/work/aimed'), read(root + '/work/aimed'))[1]))
    for left in 'linked', 'aimed':
        if os.path.lexists(root + '/work/' + left): os.remove(root + '/work/' + left)
print(read(root + '/work/sub/a.txt'), told(lambda: write(root + '/work/sub/a.txt')))
"#;

fn try_all(prompt: &Prompt, options: &[&str]) -> BTreeMap<String, String> {
    let mut words = options.to_vec();
    let root = prompt.root().to_str().unwrap().to_owned();
    let (directories, files) = (DIRECTORIES.join(" "), FILES.join(" "));
    words.extend(["--", "python3", "-c", TRY, &root, &directories, &files]);
    let (status, out, err) = outcome(&mut prompt.run(words));
    assert_eq!(status, 0, "{out}{err}");
    let told = out.lines().map(|line| line.split_once(' ').unwrap());
    told.map(|(path, answers)| (path.to_owned(), answers.to_owned())).collect()
}

/// Content, mode and number of every file below the scene's root.
fn outside(prompt: &Prompt) -> BTreeMap<PathBuf, (u32, u64, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![prompt.root().join("home"), prompt.work()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            found.insert(path.clone(), (meta.mode(), meta.ino(), fs::read(&path).ok()));
            if meta.is_dir() {
                directories.push(path);
            }
        }
    }
    found
}

#[test]
fn they_are_neither_read_nor_replaced() {
    for prompt in Prompt::all() {
        fs::create_dir(prompt.work().join("sub")).unwrap();
        fs::write(prompt.work().join("sub/a.txt"), "text").unwrap();
        for directory in DIRECTORIES {
            fs::create_dir(prompt.root().join(directory)).unwrap();
            fs::write(prompt.root().join(directory).join("secret"), "secret").unwrap();
        }
        for file in FILES {
            fs::write(prompt.root().join(file), "secret").unwrap();
        }
        let policy = prompt.root().join("policy.toml");
        fs::write(&policy, POLICY).unwrap();
        prompt.user.own(prompt.root());
        let policy = ["--policy", policy.to_str().unwrap()];
        for mode in ["read-only", "workspace-write"] {
            let before = outside(&prompt);
            let told = try_all(&prompt, &[&policy[..], &["--mode", mode]].concat());
            let title = format!("{mode} as {}: {told:#?}", prompt.user.name());
            let writes = mode == "workspace-write";
            for directory in DIRECTORIES {
                // It reads as empty, and whatever would be lost is refused. A mount point cannot be moved or removed.
                let held = if writes && directory.starts_with("work") { "EBUSY" } else { "EROFS" };
                let removed = if writes && directory.starts_with("work") { "EBUSY" } else { "EROFS" };
                let expected = format!("empty ENOENT EROFS EROFS EROFS {removed} {held} EROFS");
                assert_eq!(told[directory], expected, "{directory}, {title}");
            }
            for file in FILES {
                let answers: Vec<_> = told[file].split(' ').collect();
                assert!(!told[file].contains("ok") && !told[file].contains("secret"), "{file}, {title}");
                assert_eq!(answers[..2], ["EACCES", "EACCES"], "{file}, {title}");
                assert_eq!(answers.last(), Some(&if writes { "EACCES" } else { "EROFS" }), "{file} by a link, {title}");
            }
            let control = if writes { "ok" } else { "EROFS" };
            assert_eq!(told["text"], control, "{title}");
            if writes {
                assert_eq!(fs::read(prompt.work().join("sub/a.txt")).unwrap(), b"textplanted");
                fs::write(prompt.work().join("sub/a.txt"), "text").unwrap();
            }
            assert_eq!(outside(&prompt), before, "{title}");
        }
        // The control: unconfined, all of it is read and written.
        let told = try_all(&prompt, &["--mode", "danger-full-access"]);
        assert!(told["work/keys"].starts_with("secret secret ok ok ok"), "{told:#?}");
        assert!(told["work/.env"].starts_with("secret ok ok"), "{told:#?}");
    }
}
