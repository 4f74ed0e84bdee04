//! Files, pipes, locks and terminals from the shell.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use crate::worker::{Left, Worker};

fn every(script: &str, left: &[Left]) {
    for worker in Worker::all() {
        worker.works(script, left);
    }
}

#[test]
fn archives() {
    every(
        "mkdir tree; seq 1000 >tree/a; ln -s a tree/link; ln tree/a tree/hard; chmod 640 tree/a; mkfifo tree/pipe
         tar czf t.tgz tree; mkdir out; tar xzpf t.tgz -C out; cmp tree/a out/tree/a; test -p out/tree/pipe
         stat -c %a out/tree/a >mode; readlink out/tree/link >target; cp -a tree copy; rm -rf tree",
        &[
            Left::Text("mode", "640\n"),
            Left::Text("target", "a\n"),
            Left::Bytes("copy/hard", 3000),
            Left::Nothing("tree"),
        ],
    );
}

#[test]
fn a_sort_with_temporary_files() {
    every(
        "seq 400000 | sort -R -S 1M >shuffled; sort -n -S 1M --parallel=2 shuffled | tail -1 >last; sort -T . -S 1M shuffled >s2",
        &[Left::Text("last", "400000\n"), Left::Bytes("s2", 2_000_000)],
    );
}

#[test]
fn large_here_documents() {
    // In a script of its own: a single argument may not be longer than 128 kB.
    let lines = format!("{}\n", "y".repeat(99)).repeat(2000);
    let script = format!("cat >document <<'END'\n{lines}END\nsh -c 'wc -c' <<END >count\n{lines}END\n");
    for worker in Worker::all() {
        std::fs::write(worker.root().join("script.sh"), &script).unwrap();
        worker.works(
            "bash ../script.sh; text=$(cat document); cat <<<\"$text\" >again; cmp document again",
            &[Left::Bytes("document", 200_000), Left::Text("count", "200000\n"), Left::Bytes("again", 200_000)],
        );
    }
}

#[test]
fn edits_in_place() {
    every(
        "echo a >file; sed -i s/a/b/ file; sed -i.bak s/b/c/ file; perl -pi -e s/c/d/ file; printf '1i\\nfirst\\n.\\nw\\nq\\n' >ed
         echo a >one; echo b >two; diff -u one two >change || true; patch -s one <change; install -m 750 one installed
         truncate -s 1M large; fallocate -l 1M fell; dd if=/dev/zero of=zero bs=1k count=10 conv=fsync status=none
         touch -d 2001-01-01 one; mv two moved; ln -s moved link; rm file.bak",
        &[
            Left::Text("file", "d\n"),
            Left::Text("one", "b\n"),
            Left::Text("link", "b\n"),
            Left::Bytes("large", 1 << 20),
            Left::Bytes("fell", 1 << 20),
            Left::Nothing("two"),
            Left::Nothing("file.bak"),
        ],
    );
}

#[test]
fn pipes_and_locks() {
    every(
        "mkfifo pipe; echo through >pipe & cat pipe >got; wait; rm pipe; diff <(echo a) <(echo a); echo b > >(cat >sub); wait
         flock lock -c 'echo held >locked'; flock -n lock true
         python3 -c 'import fcntl; fcntl.lockf(open(\"lock\", \"w\"), fcntl.LOCK_EX)'",
        &[Left::Text("got", "through\n"), Left::Text("locked", "held\n"), Left::Nothing("pipe")],
    );
}

#[test]
fn temporary_files_and_a_recorded_session() {
    let token = std::process::id();
    every(
        &format!(
            "f=$(mktemp); echo x >$f; cp $f kept; d=$(mktemp -d); touch $d/in; mktemp -p . local.XXXX; touch /dev/shm/s-{token}
             touch /tmp/t-{token}; script -qec 'echo typed' record >/dev/null; grep -q typed record
             setsid true; nohup true; nice true; timeout 5 true; (sleep 0.1 &); trap 'echo got >trapped' TERM; kill -TERM $$"
        ),
        &[Left::Text("kept", "x\n"), Left::Text("trapped", "got\n"), Left::Bytes("record", 5)],
    );
    for directory in ["/tmp/t-", "/dev/shm/s-"] {
        let path = std::path::PathBuf::from(format!("{directory}{token}"));
        assert!(path.symlink_metadata().is_err(), "{} is the sandbox's own", path.display());
    }
}

/// What belongs to somebody else and to one of the user's further groups: the user namespace maps one group only, and the
/// others count all the same. Only giving a file to one of them is refused by the kernel there (EINVAL).
#[test]
fn a_directory_that_a_group_shares() {
    for worker in Worker::all().into_iter().filter(Worker::has_groups) {
        worker.prepare("mkdir shared; echo a >shared/file");
        for (name, mode) in [("shared", 0o2775), ("shared/file", 0o664)] {
            let path = worker.work().join(name);
            chown(&path, Some(0), Some(2000)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        worker.works(
            "echo b >>shared/file; sed -i s/a/c/ shared/file; mkdir shared/d; echo n >shared/d/new; git init -q --shared shared/r
             chgrp 2000 shared/d/new 2>refusal || grep -c 'Invalid argument' refusal >refused",
            &[
                Left::Text("shared/file", "c\nb\n"),
                Left::Text("shared/d/new", "n\n"),
                Left::Text("refused", "1\n"),
                Left::Directory("shared/r/.git"),
            ],
        );
        for name in ["shared/file", "shared/d", "shared/d/new", "shared/r/.git/HEAD"] {
            let meta = worker.work().join(name).symlink_metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (1500, 2000), "{name}");
        }
    }
}
