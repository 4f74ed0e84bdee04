//! Looking at the host afterwards: what has become of each target.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::state::{attribute, state};
use super::victims::end_survivors;
use super::{PARTNER, Scene};
use crate::verify::cell::{Act, Cell, FileAct, Outcome, Place};
use crate::verify::facts::{NEW, OLD};
use crate::verify::probe::{A_TIME, ANOTHER, CORE_LIMIT, LINGER, NICE, SCORE, Said};

/// What was seen of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::verify) struct Seen {
    pub(in crate::verify) outcome: Outcome,
    /// What the command said.
    pub(in crate::verify) inside: String,
    /// What the host shows; empty where only the command can tell.
    pub(in crate::verify) host: &'static str,
}

/// How long something that must arrive may take: the end of a process, mostly.
const PATIENCE: Duration = Duration::from_secs(3);

impl Scene {
    /// Looks at every cell's target.
    pub(in crate::verify) fn look(&mut self, said: &BTreeMap<usize, Said>) -> Vec<Seen> {
        let cells = self.cells.clone();
        let seen = cells.iter().enumerate().map(|(number, cell)| self.look_at(number, cell, said.get(&number)));
        seen.collect()
    }

    fn look_at(&mut self, number: usize, cell: &Cell, said: Option<&Said>) -> Seen {
        // Also of a command that says nothing, or that it failed: the host is what counts.
        let ok = said.is_some_and(|said| said.ok);
        let landed = self.landed(number, cell, said, ok);
        let changed = self.changed(number, cell);
        let private = matches!(cell.act, Act::File(FileAct::Create, _));
        let outcome = match (said, landed, changed) {
            (_, true, _) if ok || tells_by_itself(cell.act) => Outcome::Lands,
            (None, false, false) => Outcome::NoAnswer,
            (Some(_), false, false) if ok && private => Outcome::Private,
            // A daemon that was started, and ended with its command.
            (Some(_), false, false) if !ok || cell.act == Act::Outlive => Outcome::Refused,
            _ => Outcome::Unclear,
        };
        let inside = match (said, self.unprepared.get(&number)) {
            (_, Some(why)) => why.clone(),
            (None, None) => "no answer".to_owned(),
            (Some(said), None) if said.ok && said.detail.is_empty() => "no error".to_owned(),
            (Some(said), None) if said.ok && said.detail == self.facts.token => match cell.act {
                Act::File(FileAct::Execute, _) => "it ran".to_owned(),
                _ => "the content was read".to_owned(),
            },
            (Some(said), None) => said.detail.clone(),
        };
        let host = match () {
            () if !tells_by_itself(cell.act) => "",
            () if landed && cell.act == Act::Outlive => "it went on (and was ended by verify)",
            () if landed => "shows it",
            () if changed => "changed otherwise",
            () => "as it was",
        };
        Seen { outcome, inside, host }
    }

    fn changed(&self, number: usize, cell: &Cell) -> bool {
        // The lists of sockets and of the victims' own files change by being used.
        let quiet = matches!(cell.act, Act::File(..) | Act::MountTmpfs | Act::WalkItsRoot);
        let now = || self.paths(cell).map(|path| state(path.as_deref()));
        // A file that was only read or executed may have another time of access, which is not looked at.
        quiet && self.before.get(number).is_some_and(|before| *before != now())
    }

    fn landed(&mut self, number: usize, cell: &Cell, said: Option<&Said>, hopeful: bool) -> bool {
        let leaked = said.is_some_and(|said| said.detail == self.facts.token);
        match cell.act {
            Act::File(act, place) => self.file_landed(number, cell, act, place, leaked),
            Act::Terminate => wait(hopeful, || self.processes.terminated()),
            Act::KillByDescriptor => wait(hopeful, || self.processes.killed()),
            Act::Trace => wait(hopeful, || self.processes.traced()),
            Act::Stop => wait(hopeful, || self.processes.stopped()),
            Act::See
            | Act::ReadEnvironment
            | Act::ReadMemoryByCall
            | Act::ReadMemoryByFile
            | Act::ReadDescriptorByFile
            | Act::TakeDescriptor
            | Act::HostKeys
            | Act::SecretVariable => leaked,
            Act::WriteMemoryByCall => self.processes.written(),
            Act::WriteMemoryByFile => self.processes.second_written(),
            Act::WalkItsRoot => self.facts.target(cell).is_some_and(|path| contains(&path, NEW)),
            Act::Renice => self.processes.niceness() == Some(i64::from(NICE)),
            Act::Affinity => self.processes.processors_changed(),
            Act::ResourceLimit => self.processes.core_limit() == Some(CORE_LIMIT.to_string()),
            Act::OutOfMemoryScore => self.processes.score().as_deref() == Some(SCORE),
            Act::MessageQueue => self.services.message_came(&self.facts.token),
            Act::PosixQueue => self.services.posix_message_came(&self.facts.token),
            Act::TcpConnect => wait(hopeful, || self.services.connected()),
            Act::UdpSend => wait(hopeful, || self.services.datagram_came()),
            Act::UnixAbstract => wait(hopeful, || self.services.abstract_connected()),
            Act::UnixStream(_) | Act::UnixDatagram(_) | Act::AimedSocketPair => {
                self.facts.target(cell).is_some_and(|path| wait(hopeful, || self.services.came_to(&path)))
            }
            Act::Outlive => end_survivors([LINGER, &self.facts.token]) > 0,
            _ => hopeful,
        }
    }

    fn file_landed(&self, number: usize, cell: &Cell, act: FileAct, place: Place, leaked: bool) -> bool {
        let [Some(path), Some(second)] = self.paths(cell) else { return false };
        let meta = path.symlink_metadata();
        let kind = |test: fn(&fs::FileType) -> bool| meta.as_ref().is_ok_and(|meta| test(&meta.file_type()));
        let mode = |bits: u32| meta.as_ref().is_ok_and(|meta| meta.mode() & 0o7777 == bits);
        match act {
            FileAct::Create | FileAct::WriteThroughSymlink => contains(&path, NEW),
            // What stood there was longer where it is git's own file.
            FileAct::Write if place == Place::GitConfig => fs::read(&path).is_ok_and(|b| b.starts_with(NEW.as_bytes())),
            FileAct::Write => contains(&path, NEW),
            FileAct::Append => contains(&path, &format!("{OLD}{NEW}")),
            FileAct::Truncate => contains(&path, ""),
            FileAct::Rename => contains(&second, OLD) && meta.is_err(),
            FileAct::RenameDirectory => second.is_dir() && meta.is_err(),
            FileAct::Exchange => contains(&second, OLD) && contains(&path, PARTNER),
            FileAct::HardLink | FileAct::LinkIntoWorkspace => contains(&second, OLD),
            FileAct::Symlink => fs::read_link(&path).is_ok_and(|to| to == Path::new("elsewhere")),
            FileAct::Remove | FileAct::Rmdir => meta.is_err(),
            FileAct::Mkdir => kind(fs::FileType::is_dir),
            FileAct::Mkfifo => kind(|kind| kind.is_fifo()),
            FileAct::MknodDevice => kind(|kind| kind.is_char_device()),
            FileAct::Chmod => mode(0o600),
            FileAct::SetUserId => mode(0o4755),
            FileAct::Chown if nix::unistd::geteuid().is_root() => meta.is_ok_and(|meta| meta.uid() == ANOTHER),
            FileAct::Chown => self.before.get(number).is_some_and(|before| before[0] != state(Some(&path))),
            FileAct::Utimes => meta.is_ok_and(|meta| u64::try_from(meta.mtime()) == Ok(A_TIME)),
            FileAct::Xattr => attribute(&path) == NEW.as_bytes(),
            FileAct::Read | FileAct::Execute => leaked,
        }
    }
}

/// Whether the host shows by itself what was done, whatever the command says.
const fn tells_by_itself(act: Act) -> bool {
    !matches!(
        act,
        Act::Reach(_)
            | Act::OpenRead(_)
            | Act::OpenWrite(_)
            | Act::OpenDisk
            | Act::SignalChild
            | Act::OwnLoopback
            | Act::RawSocket
            | Act::PacketSocket
            | Act::AuditSocket
            | Act::UserNamespace
            | Act::MountTmpfs
            | Act::ForeignTable32
            | Act::ForeignTableX32
            | Act::Capabilities
            | Act::GainPrivileges
            | Act::BecomeAnother
            | Act::CoreFile
            | Act::ManyProcesses
            | Act::LargeTmp
            | Act::See
            | Act::ReadEnvironment
            | Act::ReadMemoryByCall
            | Act::ReadMemoryByFile
            | Act::ReadDescriptorByFile
            | Act::TakeDescriptor
            | Act::HostKeys
            | Act::SecretVariable
            | Act::File(FileAct::Read | FileAct::Execute, _)
    )
}

fn contains(path: &Path, text: &str) -> bool {
    fs::read(path).is_ok_and(|content| content == text.as_bytes())
}

/// What was said to have been done is waited for; otherwise one look is enough.
fn wait(hopeful: bool, mut test: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + if hopeful { PATIENCE } else { Duration::ZERO };
    while !test() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
