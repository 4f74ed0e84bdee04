//! The vocabulary: what programs say they could not do, and what a program does when it does not say.

use super::mention::Verb;

/// Where the object stands when it is not quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// After the phrase, in the same segment.
    After,
    /// In the segment before (`tar: d: Cannot utime`).
    Before,
}

/// Phrases, most telling first; compared in lower case. A phrase with [`Place::Before`] must begin its segment.
pub(super) const PHRASES: &[(&str, Verb, Place)] = &[
    ("unable to remove target", Verb::OpenWrite, Place::After),
    ("inter-device move failed", Verb::OpenWrite, Place::After),
    ("cannot create directory", Verb::Create, Place::After),
    ("failed to create symbolic link", Verb::Create, Place::After),
    ("failed to create hard link", Verb::Create, Place::After),
    ("cannot create hard link", Verb::Create, Place::After),
    ("cannot create symbolic link", Verb::Create, Place::After),
    ("cannot create symlink to", Verb::Create, Place::Before),
    ("cannot hard link to", Verb::Create, Place::Before),
    ("cannot create special file", Verb::Create, Place::After),
    ("cannot create fifo", Verb::Create, Place::After),
    ("could not create work tree dir", Verb::Create, Place::After),
    ("could not create leading directories of", Verb::Create, Place::After),
    ("could not create directory", Verb::Create, Place::After),
    ("unable to create directory", Verb::Create, Place::After),
    ("failed to create directory", Verb::Create, Place::After),
    ("failed to make directory", Verb::Create, Place::After),
    ("unable to create symlink", Verb::Create, Place::After),
    ("couldn't create a temp dir", Verb::Create, Place::After),
    ("cannot mkdir", Verb::Create, Place::After),
    ("could not lock config file", Verb::Create, Place::After),
    ("cannot move", Verb::Rename, Place::After),
    ("cannot rename", Verb::Rename, Place::After),
    ("unable to rename", Verb::Rename, Place::After),
    ("rename failed", Verb::Rename, Place::After),
    ("renaming", Verb::Rename, Place::After),
    ("could not write config file", Verb::Rename, Place::After),
    ("cannot remove", Verb::Remove, Place::After),
    ("cannot delete", Verb::Remove, Place::After),
    ("cannot unlink", Verb::Remove, Place::After),
    ("can't remove", Verb::Remove, Place::After),
    ("could not remove", Verb::Remove, Place::After),
    ("failed to remove", Verb::Remove, Place::After),
    ("failed to unlink", Verb::Remove, Place::After),
    ("failed to delete", Verb::Remove, Place::After),
    ("unable to unlink", Verb::Remove, Place::After),
    ("unable to remove", Verb::Remove, Place::After),
    ("changing permissions of", Verb::Metadata, Place::After),
    ("changing ownership of", Verb::Metadata, Place::After),
    ("changing group of", Verb::Metadata, Place::After),
    ("setting times of", Verb::Metadata, Place::After),
    ("preserving times for", Verb::Metadata, Place::After),
    ("preserving permissions for", Verb::Metadata, Place::After),
    ("failed to preserve", Verb::Metadata, Place::After),
    ("cannot utime", Verb::Metadata, Place::Before),
    ("cannot change ownership", Verb::Metadata, Place::Before),
    ("cannot change mode", Verb::Metadata, Place::Before),
    ("unable to chmod", Verb::Metadata, Place::After),
    ("cannot create regular file", Verb::OpenWrite, Place::After),
    ("failed to open for writing", Verb::OpenWrite, Place::Before),
    ("cannot touch", Verb::OpenWrite, Place::After),
    ("for reading", Verb::Read, Place::After),
    ("cannot open directory", Verb::Read, Place::After),
    ("reading directory", Verb::Read, Place::After),
    ("error reading", Verb::Read, Place::After),
    ("cannot read", Verb::Read, Place::After),
    ("cannot access", Verb::Read, Place::After),
    ("cannot stat", Verb::Read, Place::After),
    ("cannot savedir", Verb::Read, Place::Before),
    ("can't read", Verb::Read, Place::After),
    ("could not open lock file", Verb::OpenWrite, Place::After),
    ("cannot open lock file", Verb::OpenWrite, Place::After),
    ("cannot open output file", Verb::OpenWrite, Place::After),
    ("can't create output file", Verb::OpenWrite, Place::After),
    ("can't create temporary file", Verb::Create, Place::After),
    ("couldn't open temporary file", Verb::Create, Place::After),
    ("cannot create temporary file", Verb::Create, Place::After),
    ("failed to create file via template", Verb::Create, Place::After),
    ("failed to create directory via template", Verb::Create, Place::After),
    ("failed to open the file", Verb::OpenWrite, Place::After),
    ("opening dependency file", Verb::OpenWrite, Place::After),
    ("can't do inplace edit on", Verb::OpenWrite, Place::After),
    ("error while writing", Verb::OpenWrite, Place::After),
    ("error writing", Verb::OpenWrite, Place::After),
    ("failed to write", Verb::OpenWrite, Place::After),
    ("could not write", Verb::OpenWrite, Place::After),
    ("cannot write", Verb::OpenWrite, Place::After),
    ("couldn't write", Verb::OpenWrite, Place::After),
    ("unable to write", Verb::OpenWrite, Place::After),
    ("unable to create", Verb::Create, Place::After),
    ("could not create", Verb::OpenWrite, Place::After),
    ("couldn't create", Verb::OpenWrite, Place::After),
    ("failed to create", Verb::OpenWrite, Place::After),
    ("cannot create", Verb::OpenWrite, Place::After),
    ("can't create", Verb::OpenWrite, Place::After),
    ("cannot overwrite", Verb::OpenWrite, Place::After),
    ("failed to save", Verb::OpenWrite, Place::After),
    ("saving key", Verb::OpenWrite, Place::After),
    ("failed to truncate", Verb::Truncate, Place::After),
    ("cannot open", Verb::Unknown, Place::After),
    ("can't open", Verb::Unknown, Place::After),
    ("could not open", Verb::Unknown, Place::After),
    ("couldn't open", Verb::Unknown, Place::After),
    ("failed to open", Verb::Unknown, Place::After),
    ("unable to open", Verb::Unknown, Place::After),
    ("unable to access", Verb::Read, Place::After),
    ("open failed", Verb::Unknown, Place::After),
    ("failed to execute", Verb::Execute, Place::After),
    ("cannot execute", Verb::Execute, Place::After),
    ("cannot run", Verb::Execute, Place::After),
];

/// Words after the object that tell what the opening was for.
pub(super) const PURPOSES: &[(&str, Verb)] = &[
    ("for writing", Verb::OpenWrite),
    ("for output", Verb::OpenWrite),
    ("for appending", Verb::OpenWrite),
    ("for reading", Verb::Read),
    ("for input", Verb::Read),
];

/// What a program that only names its object was doing.
pub(super) fn usual_verb(program: &str) -> Option<Verb> {
    Some(match program {
        "bash" | "sh" | "dash" | "zsh" | "ksh" | "ash" => Verb::Shell,
        "touch" | "tee" | "dd" | "cp" | "install" | "split" | "csplit" | "gzip" | "bzip2" | "xz" | "zstd" | "ar"
        | "ranlib" | "ld" | "as" | "sort" | "shred" | "wget" | "script" | "flock" | "nohup" | "ssh-keygen"
        | "patch" | "objcopy" | "rsync" | "scp" => Verb::OpenWrite,
        "mkdir" | "mkfifo" | "mknod" | "ln" | "link" | "mktemp" => Verb::Create,
        "rm" | "rmdir" | "unlink" => Verb::Remove,
        "mv" | "rename" => Verb::Rename,
        "chmod" | "chown" | "chgrp" | "setfattr" | "setfacl" | "chattr" => Verb::Metadata,
        "truncate" => Verb::Truncate,
        "cat" | "head" | "tail" | "grep" | "egrep" | "fgrep" | "rg" | "less" | "more" | "ls" | "find" | "diff"
        | "cmp" | "wc" | "du" | "stat" | "file" | "od" | "xxd" | "hexdump" | "strings" | "md5sum" | "sha1sum"
        | "sha256sum" | "cut" | "uniq" | "jq" | "tree" | "base64" | "realpath" | "readlink" => Verb::Read,
        "mount" | "umount" | "losetup" | "swapon" => Verb::Mount,
        "unshare" | "nsenter" => Verb::Namespace,
        "strace" | "ltrace" | "gdb" => Verb::Ptrace,
        _ => return None,
    })
}

/// What a runtime's operation name does (Node's and Go's operation words, Ruby's and libc's call names).
pub(super) fn call_verb(call: &str) -> Option<Verb> {
    Some(match call {
        "open" | "openat" | "copyfile" | "cp" => Verb::Unknown,
        "mkdir" | "mkdirat" | "symlink" | "symlinkat" | "link" | "linkat" | "mknod" | "mkfifo" | "mkdtemp"
        | "mkstemp" => Verb::Create,
        "unlink" | "unlinkat" | "rmdir" | "remove" | "rm" | "unlinkfile" => Verb::Remove,
        "rename" | "renameat" => Verb::Rename,
        "chmod" | "fchmod" | "lchmod" | "chown" | "lchown" | "fchown" | "utime" | "futime" | "lutime" | "utimes"
        | "chtimes" => Verb::Metadata,
        "truncate" | "ftruncate" => Verb::Truncate,
        "write" | "creat" => Verb::OpenWrite,
        "stat" | "lstat" | "scandir" | "opendir" | "readdir" | "readlink" | "access" | "read" | "readdirent" => {
            Verb::Read
        }
        "spawn" | "exec" | "fork/exec" | "execve" => Verb::Execute,
        "connect" => Verb::Connect,
        "listen" | "bind" => Verb::Bind,
        _ => return None,
    })
}
