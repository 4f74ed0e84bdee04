//! What the commands find on the disk.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::user::{User, scratch};

/// A workspace, a directory beside it and a home, all of one user's.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    /// A port of the host's loopback where somebody listens.
    pub(crate) port: u16,
    _tcp: TcpListener,
    _unix: UnixListener,
}

impl Scene {
    pub(crate) fn build(user: User) -> Self {
        let dir = scratch();
        let root = dir.path();
        for directory in ["work/d", "work/empty", "work/repo", "out/dir", "home/.ssh", "tmp", "pack/sub"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (file, text) in FILES {
            fs::write(root.join(file), text).unwrap();
        }
        for (file, mode) in
            [("work/exec.sh", 0o755), ("work/noexec.sh", 0o644), ("work/secret", 0), ("home/.netrc", 0o600)]
        {
            fs::set_permissions(root.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("f", root.join("work/link")).unwrap();
        symlink("../out/none", root.join("work/dangling")).unwrap();
        let unix = UnixListener::bind(root.join("out/sock")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        prepare(root, "tar -C ../pack -cf src.tar sub && rm -r ../pack");
        prepare(root, "sqlite3 db.sqlite 'create table t(x)'");
        prepare(root, "cd repo && git init -q . && echo 1 > tracked && git add . && git commit -qm 1");
        fs::write(root.join("work/repo/tracked"), "2\n").unwrap();
        fs::write(root.join("work/repo/untracked"), "1\n").unwrap();
        user.own(root);
        fs::set_permissions(root.join("out/sock"), fs::Permissions::from_mode(0o777)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        Self { dir, port, _tcp: tcp, _unix: unix }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A copy for one command that may change it.
    pub(crate) fn copy(&self) -> tempfile::TempDir {
        let copy = scratch();
        let parts = ["work", "out", "home"].map(|name| self.root().join(name));
        let status = Command::new("cp").arg("-a").arg("--").args(parts).arg(copy.path()).status();
        assert!(status.unwrap().success());
        // Where stockade itself keeps its files, which come and go while others copy.
        fs::create_dir(copy.path().join("tmp")).unwrap();
        fs::set_permissions(copy.path().join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        copy
    }
}

const FILES: [(&str, &str); 14] = [
    ("work/f", "text\n"),
    ("work/d/g", "other\n"),
    ("work/exec.sh", "#!/bin/sh\necho fine\n"),
    ("work/noexec.sh", "#!/bin/sh\necho never\n"),
    ("work/secret", "s\n"),
    ("work/a.c", "int main(void) { return 0; }\n"),
    ("work/bad.c", "int main(void) { return undeclared; }\n"),
    ("work/m.py", "x = 1\n"),
    ("work/Makefile", "out.txt: f\n\tcp f out.txt\nbroken:\n\texit 2\n"),
    (
        "work/log.txt",
        "touch: cannot touch 'f': Read-only file system\ncp: cannot create regular file 'f2': Permission denied\n\
         access denied to f\n",
    ),
    ("out/x", "outside\n"),
    ("pack/sub/one", "1\n"),
    ("home/.netrc", "machine x\n"),
    ("home/.ssh/id_rsa", "key\n"),
];

fn prepare(root: &Path, command: &str) {
    let output = Command::new("bash")
        .args(["-ec", command])
        .current_dir(root.join("work"))
        .env("HOME", root.join("home"))
        .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t"), ("GIT_COMMITTER_NAME", "t")])
        .env("GIT_COMMITTER_EMAIL", "t@t")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Everything below a directory but the caller's own temporary files: name, type and mode, owner, size, time of change.
pub(crate) fn fingerprint(root: &Path) -> Vec<(PathBuf, u32, u32, u64, i64, i64)> {
    let mut all = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        if path == root.join("tmp") {
            continue;
        }
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.push((path, meta.mode(), meta.uid(), meta.len(), meta.ctime(), meta.ctime_nsec()));
    }
    all.sort();
    all
}
