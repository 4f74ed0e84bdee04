//! The inside: tries every cell and says how it went. The program that verifies runs itself in the sandbox for this, so
//! no compiler and no other program is needed on the host.

#![forbid(unsafe_code)]

mod files;
mod kernel;
mod network;
mod processes;
mod victim;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

pub(super) use files::{A_TIME, ANOTHER, ATTRIBUTE};
pub(super) use kernel::message;
pub(super) use processes::{CORE_LIMIT, NICE, SCORE};

use super::cell::{Act, Cell};
use super::facts::Facts;
use super::table::cells;

/// First argument of the program's `probe` command, by what is wanted of it.
pub(super) const EVERY_CELL: &str = "cells";
pub(super) const VICTIM: &str = "victim";
const ONE_CELL: &str = "cell";
pub(super) const LINGER: &str = "linger";

/// What the inside says of one cell: one line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    /// Number of the cell in the table.
    pub(super) cell: usize,
    /// It went well.
    pub(super) ok: bool,
    /// What was read, or what went wrong, in words.
    pub(super) detail: String,
    /// The error's number, where there is one.
    pub(super) errno: Option<i32>,
}

/// What went wrong.
#[derive(Debug)]
pub(super) struct Refusal {
    text: String,
    errno: Option<i32>,
}

impl Refusal {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), errno: None }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Errno::from_raw(errno).into(),
            None => Self::new(error.to_string()),
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { text: format!("{} ({errno:?})", errno.desc()), errno: Some(errno as i32) }
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno::from_raw(errno.raw_os_error()).into()
    }
}

type Attempt = Result<String, Refusal>;

/// Does what [`verify`](super::verify()) asks of the program that it runs in the sandbox; `arguments` are what follows the
/// program's `probe`. Not for people.
#[must_use]
pub fn probe(arguments: &[OsString]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let done = match words.as_slice() {
        [EVERY_CELL, root] => every_cell(Path::new(root)),
        [ONE_CELL, root, number] => one_cell(Path::new(root), number),
        [VICTIM, token] => victim::wait_to_be_attacked(token),
        [LINGER, ..] => processes::linger(),
        _ => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "this command is for stockade itself: see stockade verify"))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stockade: {error}");
            ExitCode::from(2)
        }
    }
}

fn facts(root: &Path) -> io::Result<Facts> {
    serde_json::from_slice(&std::fs::read(Facts::file(root))?).map_err(io::Error::other)
}

fn every_cell(root: &Path) -> io::Result<()> {
    let facts = facts(root)?;
    for (number, cell) in cells().iter().enumerate() {
        let said =
            if cell.act.in_a_process_of_its_own() { aside(root, number) } else { said(number, attempt(cell, &facts)) };
        say(&said)?;
    }
    Ok(())
}

fn one_cell(root: &Path, number: &str) -> io::Result<()> {
    let facts = facts(root)?;
    let number: usize = number.parse().map_err(io::Error::other)?;
    let all = cells();
    let cell = all.get(number).ok_or_else(|| io::Error::other("there is no such cell"))?;
    say(&said(number, attempt(cell, &facts)))
}

fn said(cell: usize, attempt: Attempt) -> Said {
    match attempt {
        Ok(detail) => Said { cell, ok: true, detail, errno: None },
        Err(refusal) => Said { cell, ok: false, detail: refusal.text, errno: refusal.errno },
    }
}

fn say(said: &Said) -> io::Result<()> {
    let mut line = serde_json::to_string(said).map_err(io::Error::other)?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Tries one cell in a process of its own; one that is killed was refused.
fn aside(root: &Path, number: usize) -> Said {
    let again = Command::new(match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return said(number, Err(error.into())),
    });
    let output = { again }
        .args(["probe", ONE_CELL])
        .arg(root)
        .arg(number.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return said(number, Err(error.into())),
    };
    match (serde_json::from_slice(&output.stdout), output.status.signal()) {
        (Ok(answer), _) => answer,
        (Err(_), Some(signal)) => said(number, Err(Refusal::new(format!("killed by signal {signal}")))),
        (Err(error), None) => said(number, Err(Refusal::new(format!("no answer: {error}")))),
    }
}

fn attempt(cell: &Cell, facts: &Facts) -> Attempt {
    match cell.act {
        Act::File(act, place) => files::attempt(cell, act, place, facts),
        Act::Reach(call) => kernel::reach(call),
        Act::OpenRead(path) => kernel::open(Path::new(path), false),
        Act::OpenWrite(path) => kernel::open(Path::new(path), true),
        Act::OpenDisk => match &facts.disk {
            Some(disk) => kernel::open(disk, false),
            None => Err(Refusal::new("no disk was found")),
        },
        Act::MountTmpfs
        | Act::UserNamespace
        | Act::ForeignTable32
        | Act::ForeignTableX32
        | Act::HostKeys
        | Act::MessageQueue
        | Act::PosixQueue => kernel::attempt(cell, facts),
        Act::OwnLoopback
        | Act::TcpConnect
        | Act::UdpSend
        | Act::RawSocket
        | Act::PacketSocket
        | Act::AuditSocket
        | Act::UnixStream(_)
        | Act::UnixDatagram(_)
        | Act::AimedSocketPair
        | Act::UnixAbstract => network::attempt(cell, facts),
        _ => processes::attempt(cell, facts),
    }
}
