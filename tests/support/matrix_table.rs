//! The matrix as a table that can be read: what each operation does under each mode.

use std::fmt::Write as _;

use stockade::executor::Gap;
use stockade::policy::SandboxMode;

use Act::*;
use Answer::*;
use Place::*;
use When::*;
use Why::*;

/// What a command tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Create,
    Write,
    Append,
    Truncate,
    Rename,
    RenameDirectory,
    HardLink,
    LinkIntoWorkspace,
    Symlink,
    Remove,
    Mkdir,
    Rmdir,
    Mkfifo,
    MknodDevice,
    Chmod,
    SetUserId,
    Chown,
    Utimes,
    Xattr,
    WriteThroughSymlink,
    Read,
    Execute,
    SignalChild,
    Signal,
    See,
    ReadEnvironment,
    Renice,
    Ptrace,
    OwnLoopback,
    TcpConnect,
    UdpSend,
    UnixStream,
    UnixDatagram,
    UnixAbstract,
    Mount,
    UnshareUser,
}

impl Act {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Create => "create a file",
            Write => "write a file",
            Append => "append to a file",
            Truncate => "truncate a file",
            Rename => "rename a file",
            RenameDirectory => "rename the directory",
            HardLink => "link a file",
            LinkIntoWorkspace => "link a file into the workspace",
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
            WriteThroughSymlink => "write through a symbolic link in the workspace",
            Read => "read a file",
            Execute => "execute a program",
            SignalChild => "signal a child of its own",
            Signal => "signal a process of the same user",
            See => "see a process in /proc",
            ReadEnvironment => "read a process's environment",
            Renice => "change a process's priority",
            Ptrace => "trace a process of the same user",
            OwnLoopback => "serve and connect to itself on 127.0.0.1",
            TcpConnect => "connect to a TCP server on 127.0.0.1",
            UdpSend => "send a datagram to 127.0.0.1",
            UnixStream => "connect to a Unix socket by path",
            UnixDatagram => "send to a Unix socket by path",
            UnixAbstract => "connect to an abstract Unix socket",
            Mount => "mount a file system",
            UnshareUser => "create a user namespace",
        }
    }
}

/// Where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Workspace,
    Outside,
    GitHooks,
    GitConfig,
    GitDirectory,
    GitObjects,
    EditorSettings,
    Tmp,
    DevShm,
    Tmpdir,
    Secrets,
    System,
    Host,
    Own,
}

impl Place {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Workspace => "in the workspace",
            Outside => "in another directory of the user",
            GitHooks => "in `.git/hooks`",
            GitConfig => "`.git/config`",
            GitDirectory => "`.git`",
            GitObjects => "in `.git/objects`",
            EditorSettings => "in `.vscode`",
            Tmp => "in `/tmp`",
            DevShm => "in `/dev/shm`",
            Tmpdir => "in `$TMPDIR`, else `/tmp`",
            Secrets => "in `~/.ssh`",
            System => "of the system",
            Host => "of the host",
            Own => "of its own",
        }
    }
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It does on the host what it says.
    Lands,
    /// It fails, and the host is as it was.
    Refused,
    /// It succeeds in a place that is the sandbox's own, and the host is as it was.
    Private,
}

impl Answer {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Lands => "lands",
            Refused => "refused",
            Private => "private",
        }
    }
}

/// Under which modes the Landlock backend differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    ReadOnly,
    WorkspaceWrite,
    Both,
}

/// Why it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The result reports this gap.
    Reported(Gap),
    /// The kernel's Landlock is older than this ABI, of this Linux; the result reports the gap.
    Before(i32, &'static str, Gap),
    /// Less is possible, so nothing promised is missing.
    Stricter,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) act: Act,
    pub(crate) place: Place,
    read_only: Answer,
    workspace_write: Answer,
    landlock: &'static [(When, Answer, Why)],
    /// The kernel refuses it to an ordinary user anyway.
    pub(crate) root_only: bool,
}

impl Row {
    /// What is expected of this row, and what excuses an answer that is not the namespaces backend's.
    pub(crate) fn expected(&self, mode: SandboxMode, landlock: bool, root: bool) -> (Answer, Option<Why>) {
        let answer = match mode {
            SandboxMode::ReadOnly => self.read_only,
            SandboxMode::WorkspaceWrite => self.workspace_write,
            SandboxMode::DangerFullAccess => return (self.unconfined(root), None),
        };
        let when = if mode == SandboxMode::ReadOnly { ReadOnly } else { WorkspaceWrite };
        match self.landlock.iter().find(|(modes, _, _)| *modes == Both || *modes == when) {
            Some((_, differently, why)) if landlock => (*differently, Some(*why)),
            _ => (answer, None),
        }
    }

    /// What happens without stockade: the control.
    pub(crate) const fn unconfined(&self, root: bool) -> Answer {
        if self.root_only && !root { Refused } else { Lands }
    }
}

const fn row(
    act: Act,
    place: Place,
    read_only: Answer,
    workspace_write: Answer,
    landlock: &'static [(When, Answer, Why)],
) -> Row {
    Row { act, place, read_only, workspace_write, landlock, root_only: false }
}

const fn root_only(row: Row) -> Row {
    Row { root_only: true, ..row }
}

const METADATA: &[(When, Answer, Why)] = &[(WorkspaceWrite, Lands, Reported(Gap::Metadata))];
const PROTECTED: &[(When, Answer, Why)] = &[(WorkspaceWrite, Lands, Reported(Gap::ProtectedPaths))];
const READABLE: &[(When, Answer, Why)] = &[(Both, Lands, Reported(Gap::DenyRead))];
const SOCKETS: &[(When, Answer, Why)] = &[(Both, Lands, Reported(Gap::UnixSockets))];
const NO_NETWORK: &[(When, Answer, Why)] = &[(Both, Refused, Reported(Gap::NetworkIsolation))];
const TRUNCATES: &[(When, Answer, Why)] = &[(Both, Lands, Before(3, "6.2", Gap::Truncate))];
const TRUNCATES_READ_ONLY: &[(When, Answer, Why)] = &[(ReadOnly, Lands, Before(3, "6.2", Gap::Truncate))];
const SIGNALS: &[(When, Answer, Why)] = &[(Both, Lands, Before(6, "6.12", Gap::ProcessIsolation))];
const ABSTRACT: &[(When, Answer, Why)] = &[(Both, Lands, Before(6, "6.12", Gap::UnixSockets))];
const NOT_PRIVATE: &[(When, Answer, Why)] = &[(Both, Refused, Stricter)];
const VISIBLE: &[(When, Answer, Why)] = &[(Both, Lands, Reported(Gap::ProcessIsolation))];
const SAME: &[(When, Answer, Why)] = &[];

/// The matrix: operation, place, read-only, workspace-write, and where the Landlock backend differs.
pub(crate) const MATRIX: &[Row] = &[
    row(Create, Workspace, Refused, Lands, SAME),
    row(Write, Workspace, Refused, Lands, SAME),
    row(Append, Workspace, Refused, Lands, SAME),
    row(Truncate, Workspace, Refused, Lands, TRUNCATES_READ_ONLY),
    row(Rename, Workspace, Refused, Lands, SAME),
    row(HardLink, Workspace, Refused, Lands, SAME),
    row(Symlink, Workspace, Refused, Lands, SAME),
    row(Remove, Workspace, Refused, Lands, SAME),
    row(Mkdir, Workspace, Refused, Lands, SAME),
    row(Rmdir, Workspace, Refused, Lands, SAME),
    row(Mkfifo, Workspace, Refused, Lands, SAME),
    root_only(row(MknodDevice, Workspace, Refused, Refused, SAME)),
    row(Chmod, Workspace, Refused, Lands, SAME),
    row(SetUserId, Workspace, Refused, Refused, SAME),
    row(Chown, Workspace, Refused, Lands, SAME),
    row(Utimes, Workspace, Refused, Lands, SAME),
    row(Xattr, Workspace, Refused, Lands, SAME),
    row(Read, Workspace, Lands, Lands, SAME),
    row(Execute, Workspace, Lands, Lands, SAME),
    row(Create, Outside, Refused, Refused, SAME),
    row(Write, Outside, Refused, Refused, SAME),
    row(Append, Outside, Refused, Refused, SAME),
    row(Truncate, Outside, Refused, Refused, TRUNCATES),
    row(Rename, Outside, Refused, Refused, SAME),
    row(HardLink, Outside, Refused, Refused, SAME),
    row(LinkIntoWorkspace, Outside, Refused, Refused, SAME),
    row(Symlink, Outside, Refused, Refused, SAME),
    row(Remove, Outside, Refused, Refused, SAME),
    row(Mkdir, Outside, Refused, Refused, SAME),
    row(Rmdir, Outside, Refused, Refused, SAME),
    row(Mkfifo, Outside, Refused, Refused, SAME),
    root_only(row(MknodDevice, Outside, Refused, Refused, SAME)),
    row(Chmod, Outside, Refused, Refused, METADATA),
    row(SetUserId, Outside, Refused, Refused, SAME),
    row(Chown, Outside, Refused, Refused, METADATA),
    row(Utimes, Outside, Refused, Refused, METADATA),
    row(Xattr, Outside, Refused, Refused, METADATA),
    row(WriteThroughSymlink, Outside, Refused, Refused, SAME),
    row(Read, Outside, Lands, Lands, SAME),
    row(Create, GitHooks, Refused, Refused, PROTECTED),
    row(Write, GitHooks, Refused, Refused, PROTECTED),
    row(Rename, GitHooks, Refused, Refused, PROTECTED),
    row(Remove, GitHooks, Refused, Refused, PROTECTED),
    row(Chmod, GitHooks, Refused, Refused, PROTECTED),
    row(RenameDirectory, GitHooks, Refused, Refused, PROTECTED),
    row(Write, GitConfig, Refused, Refused, PROTECTED),
    row(RenameDirectory, GitDirectory, Refused, Refused, PROTECTED),
    row(Create, GitObjects, Refused, Lands, SAME),
    row(Create, EditorSettings, Refused, Refused, PROTECTED),
    row(Write, EditorSettings, Refused, Refused, PROTECTED),
    row(Create, Tmpdir, Private, Private, SAME),
    row(Create, Tmp, Private, Private, NOT_PRIVATE),
    row(Create, DevShm, Private, Private, NOT_PRIVATE),
    row(Read, Tmp, Refused, Refused, READABLE),
    row(Write, Tmp, Refused, Refused, SAME),
    row(Read, Secrets, Refused, Refused, READABLE),
    row(Create, Secrets, Refused, Refused, SAME),
    row(Write, Secrets, Refused, Refused, SAME),
    row(Execute, System, Lands, Lands, SAME),
    row(SignalChild, Own, Lands, Lands, SAME),
    row(Signal, Host, Refused, Refused, SIGNALS),
    row(See, Host, Refused, Refused, VISIBLE),
    row(ReadEnvironment, Host, Refused, Refused, SAME),
    row(Renice, Host, Refused, Refused, SAME),
    row(Ptrace, Host, Refused, Refused, SAME),
    row(OwnLoopback, Own, Lands, Lands, NO_NETWORK),
    row(TcpConnect, Host, Refused, Refused, SAME),
    row(UdpSend, Host, Refused, Refused, SAME),
    row(UnixStream, Workspace, Refused, Refused, SOCKETS),
    row(UnixStream, Outside, Refused, Refused, SOCKETS),
    row(UnixDatagram, Outside, Refused, Refused, SOCKETS),
    row(UnixAbstract, Host, Refused, Refused, ABSTRACT),
    root_only(row(Mount, Workspace, Refused, Refused, SAME)),
    row(UnshareUser, Own, Refused, Refused, SAME),
];

/// The table for people.
pub(crate) fn render() -> String {
    let mut text = String::from(
        "# What each mode lets a command do\n\n\
         Generated from `tests/support/matrix_table.rs`; `tests/matrix.rs` tries every cell as root and as an ordinary user,\n\
         with both backends, and looks at the host afterwards. To write this page anew:\n\
         `STOCKADE_WRITE_DOCS=1 cargo test --test matrix the_page_is_current`.\n\n\
         *lands*: it does what it says. *refused*: it fails, and the host is as it was. *private*: it succeeds in a place that\n\
         is the sandbox's own, and the host is as it was. Under `danger-full-access` every operation lands that the kernel\n\
         allows the user anyway; those marked † it allows root only.\n\n\
         The last column is the Landlock backend, used where namespaces are refused: where it answers otherwise, and the gap\n\
         in the result that says so. *stricter* needs none.\n\n\
         | operation | where | read-only | workspace-write | Landlock backend |\n|---|---|---|---|---|\n",
    );
    for row in MATRIX {
        let dagger = if row.root_only { " †" } else { "" };
        let landlock: Vec<String> =
            row.landlock.iter().map(|(when, answer, why)| difference(*when, *answer, *why)).collect();
        let cells = [row.act.text(), row.place.text(), row.read_only.text(), row.workspace_write.text()];
        writeln!(
            text,
            "| {}{dagger} | {} | {} | {} | {} |",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            landlock.join("; ")
        )
        .unwrap();
    }
    text
}

fn difference(when: When, answer: Answer, why: Why) -> String {
    let mode = match when {
        ReadOnly => "read-only: ",
        WorkspaceWrite => "workspace-write: ",
        Both => "",
    };
    let why = match why {
        Reported(gap) => format!("`{}`", gap.as_str()),
        Before(_, linux, gap) => format!("`{}`, before Linux {linux}", gap.as_str()),
        Stricter => "stricter".to_owned(),
    };
    format!("{mode}{} ({why})", answer.text())
}
