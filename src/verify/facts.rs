//! What the outside tells the inside: where the throw-away targets are.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cell::{Act, Cell, FileAct, Place};

/// Variable that holds a token in the environment which commands inherit, by a name that the scrub knows for a secret.
pub(super) const SECRET_VARIABLE: &str = "AWS_SECRET_ACCESS_KEY";
/// What a file holds before and after it was written.
pub(super) const OLD: &str = "old";
pub(super) const NEW: &str = "new";

/// The throw-away targets of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Directory of the scene.
    pub(super) root: PathBuf,
    /// A word that occurs nowhere else.
    pub(super) token: String,
    /// Nothing confines this run: what would change the host for others is tried aside.
    pub(super) unconfined: bool,
    pub(super) tcp_port: u16,
    pub(super) udp_port: u16,
    /// Processes of the host, by what is tried on them.
    pub(super) victims: Victims,
    /// A System V message queue of the host.
    pub(super) queue: Option<i32>,
    /// A block device.
    pub(super) disk: Option<PathBuf>,
    /// Processes that the policy lets a sandbox have.
    pub(super) processes: Option<u64>,
    /// Bytes that the policy lets `/tmp` hold.
    pub(super) tmp_size: Option<u64>,
}

/// Processes that were started to be attacked.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Victims {
    pub(super) terminate: Victim,
    pub(super) stop: Victim,
    pub(super) kill: Victim,
    pub(super) trace: Victim,
    /// Read, written and tuned.
    pub(super) other: Victim,
    /// Written by the other way.
    pub(super) second: Victim,
}

/// One of them.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Victim {
    pub(super) pid: i32,
    /// Where its memory holds the token.
    pub(super) secret: usize,
    /// Where its memory holds [`OLD`], for others to write over.
    pub(super) written: usize,
    /// A descriptor without a name that holds the token.
    pub(super) descriptor: i32,
}

impl Facts {
    pub(super) fn file(root: &Path) -> PathBuf {
        root.join("facts.json")
    }

    /// Name of a POSIX message queue of the host.
    pub(super) fn queue_name(&self) -> String {
        format!("/stockade-{}", self.token)
    }

    /// The path that a cell is about. `/tmp` and `/dev/shm` are shared with the host's users, so names there are unique.
    pub(super) fn target(&self, cell: &Cell) -> Option<PathBuf> {
        let (place, act) = match cell.act {
            Act::File(act, place) => (place, Some(act)),
            Act::UnixStream(place) | Act::UnixDatagram(place) => (place, None),
            Act::MountTmpfs | Act::AimedSocketPair | Act::WalkItsRoot => (Place::Outside, None),
            _ => return None,
        };
        let name = match cell.act {
            // The path of a socket has 108 bytes.
            Act::UnixStream(_) => "stream.sock".to_owned(),
            Act::UnixDatagram(_) => "datagram.sock".to_owned(),
            Act::AimedSocketPair => "pair.sock".to_owned(),
            _ => cell.id(),
        };
        let at = |directory: &str| self.root.join(directory).join(&name);
        Some(match (place, act) {
            // Repositories of their own: what is renamed away would take the other targets along.
            (Place::GitHooks, Some(FileAct::RenameDirectory)) => self.root.join("work/second/.git/hooks"),
            (Place::GitDirectory, _) => self.root.join("work/third/.git"),
            (Place::GitConfig, _) => self.root.join("work/.git/config"),
            (Place::GitHooks, _) => at("work/.git/hooks"),
            (Place::GitObjects, _) => at("work/.git/objects"),
            (Place::EditorSettings, _) => at("work/.vscode"),
            (Place::AgentSettings, _) => at("work/.claude"),
            (Place::ShellSettings, _) => self.root.join("work/.envrc"),
            (Place::Outside | Place::OutsideByProc, _) => at("outside"),
            (Place::Secrets | Place::SecretsByProc, _) => at("home/.ssh"),
            (Place::CloudSecrets, _) => self.root.join("home/.aws/credentials"),
            (Place::PasswordFile, _) => self.root.join("home/.netrc"),
            (Place::Tmp, _) => self.unique(Path::new("/tmp"), &name),
            (Place::DevShm, _) => self.unique(Path::new("/dev/shm"), &name),
            (Place::Tmpdir, _) => self.unique(&std::env::temp_dir(), &name),
            (Place::System, _) => PathBuf::from("/bin/sh"),
            (Place::Workspace, _) => at("work"),
        })
    }

    fn unique(&self, directory: &Path, name: &str) -> PathBuf {
        directory.join(format!("stockade-verify-{}-{name}", self.token))
    }

    /// The path as the inside names it.
    pub(super) fn named(&self, cell: &Cell) -> Option<PathBuf> {
        let target = self.target(cell)?;
        match cell.act {
            Act::File(_, Place::OutsideByProc | Place::SecretsByProc) => {
                Some(Path::new("/proc/self/root").join(target.strip_prefix("/").ok()?))
            }
            Act::File(FileAct::WriteThroughSymlink, _) => Some(self.symlink()),
            _ => Some(target),
        }
    }

    /// A symbolic link in the workspace that leads out of it.
    pub(super) fn symlink(&self) -> PathBuf {
        self.root.join("work/leads-outside")
    }

    /// Where an operation with a second path puts it.
    pub(super) fn second(&self, cell: &Cell) -> Option<PathBuf> {
        if cell.act == Act::File(FileAct::LinkIntoWorkspace, Place::Outside) {
            return Some(self.root.join("work/linked"));
        }
        let mut name = self.target(cell)?.into_os_string();
        name.push("-to");
        Some(name.into())
    }
}
