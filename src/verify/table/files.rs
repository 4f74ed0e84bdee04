//! Operations on files, in every place that a mode speaks of.

#![forbid(unsafe_code)]

use super::{excused, lands, refused};
use crate::executor::Gap;
use crate::verify::cell::FileAct::{self, *};
use crate::verify::cell::{Act, Cell, Group, Outcome, Place};

const IN_WORKSPACE: &str = "in the workspace";
const OUTSIDE: &str = "in another directory of the user";

const fn words(act: FileAct) -> &'static str {
    match act {
        Create => "create a file",
        Write => "write a file",
        Append => "append to a file",
        Truncate => "truncate a file",
        Rename => "rename a file",
        RenameDirectory => "rename the directory",
        Exchange => "exchange two names",
        HardLink => "make a hard link",
        LinkIntoWorkspace => "hard-link a file into the workspace",
        Symlink => "make a symbolic link",
        Remove => "remove a file",
        Mkdir => "make a directory",
        Rmdir => "remove a directory",
        Mkfifo => "make a FIFO",
        MknodDevice => "make a device node",
        Chmod => "change a mode",
        SetUserId => "set a set-user-ID bit",
        Chown => "change an owner",
        Utimes => "change times",
        Xattr => "set an extended attribute",
        WriteThroughSymlink => "write through a symbolic link that leads there",
        Read => "read a file",
        Execute => "execute a program",
    }
}

const fn file(group: Group, act: FileAct, place: Place, named: &'static str) -> Cell {
    refused(group, words(act), named, Act::File(act, place))
}

/// Refused in read-only mode, lands in the other.
const fn writable(act: FileAct) -> Cell {
    Cell { workspace_write: Outcome::Lands, ..file(Group::Workspace, act, Place::Workspace, IN_WORKSPACE) }
}

const fn allowed(group: Group, act: FileAct, place: Place, named: &'static str) -> Cell {
    lands(group, words(act), named, Act::File(act, place))
}

const fn outside(act: FileAct) -> Cell {
    file(Group::Outside, act, Place::Outside, OUTSIDE)
}

const fn metadata(act: FileAct) -> Cell {
    excused(Gap::Metadata, outside(act))
}

const fn protected(act: FileAct, place: Place, named: &'static str) -> Cell {
    excused(Gap::ProtectedPaths, file(Group::Protected, act, place, named))
}

const fn private(place: Place, named: &'static str) -> Cell {
    let cell = file(Group::Private, Create, place, named);
    Cell { read_only: Outcome::Private, workspace_write: Outcome::Private, ..cell }
}

const fn secret(place: Place, named: &'static str) -> Cell {
    excused(Gap::DenyRead, file(Group::Secrets, Read, place, named))
}

pub(super) fn cells() -> Vec<Cell> {
    [workspace(), elsewhere(), protections(), temporary()].concat()
}

fn workspace() -> Vec<Cell> {
    let mut all: Vec<Cell> = [
        Create, Write, Append, Truncate, Rename, Exchange, HardLink, Symlink, Remove, Mkdir, Rmdir, Mkfifo, Chmod,
        Chown, Utimes, Xattr,
    ]
    .into_iter()
    .map(writable)
    .collect();
    all.extend([MknodDevice, SetUserId].map(|act| file(Group::Workspace, act, Place::Workspace, IN_WORKSPACE)));
    all.extend([Read, Execute].map(|act| allowed(Group::Workspace, act, Place::Workspace, IN_WORKSPACE)));
    all.push(Cell {
        workspace_write: Outcome::Lands,
        ..file(Group::Workspace, Create, Place::GitObjects, "in `.git/objects`")
    });
    all
}

fn elsewhere() -> Vec<Cell> {
    let mut all: Vec<Cell> = [
        Create,
        Write,
        Append,
        Truncate,
        Rename,
        Exchange,
        HardLink,
        LinkIntoWorkspace,
        Symlink,
        Remove,
        Mkdir,
        Rmdir,
        Mkfifo,
        MknodDevice,
        SetUserId,
        WriteThroughSymlink,
    ]
    .into_iter()
    .map(outside)
    .collect();
    all.push(file(Group::Outside, Write, Place::OutsideByProc, "there, by a path through `/proc/self/root`"));
    all.extend([Chmod, Chown, Utimes, Xattr].map(metadata));
    all.push(allowed(Group::Outside, Read, Place::Outside, OUTSIDE));
    all.push(allowed(Group::Outside, Execute, Place::System, "of the system"));
    all
}

fn protections() -> Vec<Cell> {
    let (hooks, config, git) = ("in `.git/hooks`", "`.git/config`", "`.git`");
    let mut all: Vec<Cell> = [Create, Write, Rename, Remove, Chmod, RenameDirectory]
        .into_iter()
        .map(|act| protected(act, Place::GitHooks, hooks))
        .collect();
    all.push(protected(Write, Place::GitConfig, config));
    all.push(protected(RenameDirectory, Place::GitDirectory, git));
    for (place, named) in [(Place::EditorSettings, "in `.vscode`"), (Place::AgentSettings, "in `.claude`")] {
        all.extend([Create, Write].map(|act| protected(act, place, named)));
    }
    all.push(protected(Write, Place::ShellSettings, "`.envrc`"));
    all
}

fn temporary() -> Vec<Cell> {
    let mut all = vec![
        private(Place::Tmpdir, "in `$TMPDIR`, else `/tmp`"),
        private(Place::Tmp, "in `/tmp`"),
        private(Place::DevShm, "in `/dev/shm`"),
        excused(Gap::DenyRead, file(Group::Private, Read, Place::Tmp, "of the host in `/tmp`")),
        file(Group::Private, Write, Place::Tmp, "of the host in `/tmp`"),
        secret(Place::Secrets, "in `~/.ssh`"),
        secret(Place::SecretsByProc, "in `~/.ssh`, by a path through `/proc/self/root`"),
        secret(Place::CloudSecrets, "`~/.aws/credentials`"),
        secret(Place::PasswordFile, "`~/.netrc`"),
    ];
    all.extend([Create, Write].map(|act| file(Group::Secrets, act, Place::Secrets, "in `~/.ssh`")));
    let variable = "find a token among its environment variables";
    all.push(refused(Group::Secrets, variable, "", Act::SecretVariable));
    all
}
