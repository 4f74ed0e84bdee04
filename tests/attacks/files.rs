//! Writing: every call that opens, creates, moves, removes or changes metadata, aimed at the host outside the
//! workspace, and in read-only mode at the workspace too.

use crate::table::{Around, Attack, Control, Effect, control, control_in_namespaces, control_in_workspace};

/// Aimed at a file, a directory and a new name: outside the workspace in both modes, inside it in read-only mode.
const WRITES: &[&str] = &[
    "open {d}/file wronly",
    "open {d}/file rdwr",
    "open {d}/file wronly,append",
    "open {d}/file wronly,trunc",
    "open {d}/file rdonly,trunc",
    "open {d}/file wronly,direct",
    "open {d}/file wronly,sync",
    "open {d}/new1 wronly,creat",
    "open {d}/new2 rdonly,creat",
    "open {d}/new3 wronly,creat,excl",
    "openat {d} file wronly",
    "openat {d}/dir ../file wronly",
    "openat {d} new4 wronly,creat",
    "openat2 {d}/file wronly 0",
    "openat2 {d}/new5 wronly,creat 0644",
    "dotdot {d}/file wronly,append",
    "creat {d}/file",
    "creat {d}/new6",
    "truncate {d}/file 1",
    "truncate {d}/file 100000",
    "ftruncate {d}/file 1",
    "rename {d}/file {d}/file2",
    "rename {d}/dir {d}/dir2",
    "rename {d}/exec.sh {d}/file",
    "rename {d}/file {scratch}/stolen",
    "renameat2 {d}/file {d}/exec.sh exchange",
    "renameat2 {d}/file {d}/file3 noreplace",
    "renameat2 {d}/dir {d}/file exchange",
    "link {d}/file {d}/file4",
    "link {d}/file {scratch}/linked",
    "link-write {d}/file {scratch}/linked2",
    "linkat-proc {d}/file {d}/file6",
    "linkat-proc {d}/file {scratch}/linked3",
    "symlink /etc/passwd {d}/link1",
    "replace-by-symlink /etc/passwd {d}/file rename",
    "replace-by-symlink /etc/passwd {d}/dir exchange",
    "unlink {d}/file",
    "rmdir {d}/empty",
    "mkdir {d}/made",
    "mknod {d}/fifo1 fifo",
    "mknod {d}/sock1 socket",
    "mknod {d}/reg1 regular",
    "mknod {d}/whiteout1 whiteout",
    "bind-unix {d}/b1",
    "bind-unix {d}/b2 dgram",
    "fallocate {d}/big punch",
    "fallocate {d}/big zero",
    "fallocate {d}/big alloc",
    "fallocate {d}/big collapse",
    "fallocate {d}/big insert",
    "copy {d}/big {d}/file range",
    "copy {d}/big {d}/file sendfile",
    "copy {d}/big {d}/file splice",
    "copy {d}/big {d}/file vmsplice",
    "mmap-shared {d}/file",
    "pwritev2 {d}/file",
    "reopen {d}/file rdonly /proc/self/fd/%d",
    "reopen {d}/file rdonly /proc/thread-self/fd/%d",
    "reopen {d}/file rdonly /dev/fd/%d",
    "reopen {d}/file path /proc/self/fd/%d",
    "tmpfile-link {d} {d}/t1 proc",
    "proc-link self root {d}/file",
    "proc-link self cwd ../out/file",
    "proc-link parent root {d}/file",
    "uring trunc {d}/file",
    "uring unlink {d}/file",
    "uring mkdir {d}/made2",
    "uring rename {d}/file {d}/file7",
    "uring link {d}/file {d}/file8",
    "uring symlink {d}/link9 /etc/passwd",
    "uring setxattr {d}/file",
    "sh:printf x >>{d}/file",
    "sh:ln -s {d} {scratch}/way; printf x >>{scratch}/way/file",
    "sh:cp /etc/hostname {d}/copied",
    "sh:rm -rf {d}/dir",
    "sh:tar -cf {d}/archive.tar /etc/hostname 2>/dev/null",
    "sh:python3 -c 'import os; os.replace(\"{d}/file\", \"{d}/replaced\")'",
    "sh:exec 7<>{d}/file; printf x >&7",
    "int80 open {d}/file",
    "int80 unlink {d}/file",
];

/// The same places; nothing but the inode changes.
const METADATA: &[&str] = &[
    "chmod {d}/file 0777 chmod",
    "chmod {d}/file 0777 fchmodat",
    "chmod {d}/file 0777 fchmodat2",
    "chmod {d}/file 0777 fchmodat2-empty",
    "chmod {d}/file 0777 fchmod-rdonly",
    "chmod {d}/file 0777 proc-fd",
    "chmod {d}/dir 0777 chmod",
    "chmod {d}/exec.sh 04755 chmod",
    "chmod {d}/exec.sh 02755 fchmod-rdonly",
    "chown {d}/file {uid} {gid} fchownat",
    "chown {d}/file {uid} {gid} chown",
    "chown {d}/file {uid} {gid} lchown",
    "chown {d}/file {uid} {gid} empty",
    "chown {d}/file {uid} {gid} fchown",
    "utimes {d}/file utimensat",
    "utimes {d}/file nofollow",
    "utimes {d}/file now",
    "utimes {d}/file rdonly",
    "utimes {d}/file utimes",
    "utimes {d}/file futimesat",
    "utimes {d}/file utime",
    "utimes {d}/dir utimensat",
    "setxattr {d}/file user.attack setxattr",
    "setxattr {d}/file user.attack lsetxattr",
    "setxattr {d}/file user.attack setxattrat",
    "setxattr {d}/file user.attack fsetxattr",
    "setxattr {d}/dir user.attack setxattr",
    "setxattr {d}/file system.posix_acl_access setxattr",
    "removexattr {d}/marked user.mark removexattr",
    "removexattr {d}/marked user.mark lremovexattr",
    "removexattr {d}/marked user.mark removexattrat",
    "removexattr {d}/marked user.mark fremovexattr",
    "setflags {d}/file nodump",
    "setflags {d}/file noatime",
    "setflags {d}/file xattr",
    "setflags {d}/file version",
    "setflags {d}/dir nodump",
    "setflags {d}/file ext4-version",
    "file-setattr {d}/file",
    "int80 chmod {d}/file",
];

/// Aimed at the host only.
pub(crate) fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    for (directory, read_only) in [("{out}", false), ("{ws}", true)] {
        let place = |row: Attack| if read_only { row.read_only() } else { row };
        for args in WRITES {
            all.push(place(Attack::new("write", Effect::World, &args.replace("{d}", directory))));
        }
        for args in METADATA {
            let row = Attack::new("metadata", Effect::World, &args.replace("{d}", directory)).gap(&["metadata"]);
            all.push(place(row));
        }
        let rooted =
            |family, args: &str| place(Attack::new(family, Effect::World, &args.replace("{d}", directory)).root());
        all.push(rooted("write", "linkat-empty {d}/file {d}/file5"));
        all.push(rooted("write", "tmpfile-link {d} {d}/t2 empty"));
        all.push(rooted("write", "renameat2 {d}/file {d}/file10 whiteout"));
        all.push(rooted("write", "mknod {d}/null1 char"));
        all.push(rooted("write", "mknod {d}/loop1 block"));
        all.push(rooted("write", "open-by-handle {d}/file {d}"));
        all.push(rooted("metadata", "setxattr {d}/exec.sh security.capability setxattr").gap(&["metadata"]));
        all.push(rooted("metadata", "setxattr {d}/exec.sh security.capability fsetxattr").gap(&["metadata"]));
        all.push(rooted("metadata", "setxattr {d}/file trusted.attack setxattr").gap(&["metadata"]));
        all.push(rooted("metadata", "chown {d}/file 1 1 fchownat").gap(&["metadata"]));
    }
    let world = |args: &str| Attack::new("write", Effect::World, args);
    all.extend([
        world("open {home}/.bashrc wronly,append"),
        world("sh:printf x >>{home}/.profile"),
        world("open {home}/.config/new wronly,creat"),
        world("open {bin}/probe wronly").nobody("a program that runs cannot be opened for writing"),
        world("replace-by-symlink /etc/passwd {bin}/probe rename"),
        // A link that came with the repository and leads out of it.
        world("open {ws}/way-out/file wronly,append"),
        world("open {ws}/file-out wronly,append"),
        world("creat {ws}/dangling-out"),
        world("chmod {ws}/file-out 0777 chmod").gap(&["metadata"]),
        world("rename {ws}/way-out/file {ws}/way-out/moved"),
        // The name is inside, the file is not only there.
        world("open {ws}/hard-out wronly,append").limit(HARD_LINK),
        world("truncate {ws}/hard-out 1").limit(HARD_LINK),
        world("chmod {ws}/hard-out 0777 chmod").limit(HARD_LINK),
    ]);
    let race = |args: &str| Attack::new("race", Effect::World, args).workspace_write();
    all.extend([
        race("race-symlink {ws}/race1 {ws}/file {out}/file"),
        race("race-exchange {ws}/race2 {ws}/race2-out file"),
        Attack::new("race", Effect::World, "race-symlink {scratch}/race3 {scratch}/none {out}/file"),
        Attack::new("mounted", Effect::World, "open {ws}/mnt/file wronly,append")
            .root()
            .around(Around::Mount)
            .gap(&["protected-paths"]),
        Attack::new("mounted", Effect::World, "unlink {ws}/mnt/file")
            .root()
            .around(Around::Mount)
            .gap(&["protected-paths"]),
        Attack::new("mounted", Effect::World, "chmod {ws}/mnt/file 0777 chmod")
            .root()
            .around(Around::Mount)
            .gap(&["protected-paths"]),
        Attack::new("inherited", Effect::World, "fd-write 8").around(Around::Descriptors),
        Attack::new("inherited", Effect::World, "fd-truncate 8").around(Around::Descriptors),
        Attack::new("inherited", Effect::World, "fd-dir-openat 9 file wronly").around(Around::Descriptors),
        Attack::new("inherited", Effect::Claim, "fd-any-above 3").around(Around::Descriptors),
    ]);
    all.extend(locks());
    all.extend(set_ids());
    all
}

/// As SECURITY.md names it: one file, of which one name is the workspace's.
const HARD_LINK: &str = "a hard link that was there writes its other name";

/// Locks and leases on files that can be read: no layer has a hook for them.
fn locks() -> Vec<Attack> {
    ["flock", "posix", "ofd", "lease"]
        .iter()
        .map(|how| {
            Attack::new("lock", Effect::Claim, &format!("lock {{out}}/file {how}"))
                .limit("locks and leases on a readable host file")
        })
        .collect()
}

/// Programs that gain: in the workspace itself, where writing is otherwise allowed.
fn set_ids() -> Vec<Attack> {
    [
        "chmod {ws}/exec.sh 04755 chmod",
        "chmod {ws}/exec.sh 06755 fchmodat",
        "chmod {ws}/exec.sh 04755 fchmodat2",
        "chmod {ws}/exec.sh 04755 fchmodat2-empty",
        "chmod {ws}/exec.sh 04755 fchmod-rdonly",
        "chmod {ws}/exec.sh 04755 proc-fd",
        "open {ws}/suid1 wronly,creat 04755",
        "open {ws}/suid2 wronly,creat,excl 06755",
        "creat {ws}/suid3 04755",
        "openat2 {ws}/suid4 wronly,creat 04755",
        "mknod {ws}/suid5 regular 04755",
        "sh:umask 0; python3 -c 'import os; os.open(\"{ws}/suid6\", os.O_CREAT|os.O_TMPFILE|os.O_WRONLY, 0o4755)' 2>/dev/null; install -m 4755 /bin/true {ws}/suid7",
        "int80 chmod-suid {ws}/exec.sh",
    ]
    .iter()
    .map(|args| Attack::new("set-id", Effect::World, args))
    .chain([
        Attack::new("set-id", Effect::World, "mknod {ws}/dev1 char").root(),
        Attack::new("set-id", Effect::World, "mknod {ws}/dev2 block").root(),
        Attack::new("set-id", Effect::World, "setxattr {ws}/exec.sh security.capability setxattr").root(),
        Attack::new("set-id", Effect::World, "setxattr {ws}/exec.sh security.capability setxattrat").root(),
    ])
    .collect()
}

pub(crate) const CONTROLS: &[Control] = &[
    control("write", "open {scratch}/c1 wronly,creat"),
    control("write", "mkdir {scratch}/c2"),
    control(
        "write",
        "sh:echo a >{scratch}/c3 && mv {scratch}/c3 {scratch}/c4 && ln {scratch}/c4 {scratch}/c5 && rm {scratch}/c4",
    ),
    control("write", "bind-unix {scratch}/c6"),
    control("write", "mknod {scratch}/c7 fifo"),
    control("write", "read {out}/file"),
    control("write", "sh:cat <<X >/dev/null\nhere\nX"),
    control("write", "sh:echo x >/dev/null && head -c 4 /dev/urandom >/dev/null"),
    control_in_namespaces("metadata", "sh:touch {scratch}/m1 && chmod 0700 {scratch}/m1 && touch -d @1 {scratch}/m1"),
    control("race", "sh:ln -s c1 {scratch}/r1 && rm {scratch}/r1"),
    control("inherited", "sh:exec 5</dev/null && exec 5<&-"),
    control("mounted", "sh:ls {ws} >/dev/null"),
    control("lock", "sh:: >{scratch}/l1 && flock -n {scratch}/l1 true"),
    control_in_namespaces("set-id", "sh:touch {scratch}/s1 && chmod 0755 {scratch}/s1 && chmod u+x {scratch}/s1"),
    control_in_workspace("write", "open {ws}/plain wronly,creat"),
    control_in_workspace("write", "open {ws}/file wronly,append"),
    control_in_workspace("write", "rename {ws}/exec2.sh {ws}/exec3.sh"),
    control_in_workspace("write", "sh:mkdir -p {ws}/build/x && cp -a {ws}/file {ws}/build/x/ && rm -r {ws}/build"),
    control_in_workspace("metadata", "sh:chmod 0755 {ws}/plain2 && touch {ws}/plain2"),
];
