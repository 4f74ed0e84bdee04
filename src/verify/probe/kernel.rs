//! Trying the kernel's services, its shared objects and its files.

#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::mqueue::{MQ_OFlag, mq_close, mq_open, mq_send};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::{Attempt, Refusal};
use crate::kernel::{ForeignTable, MESSAGE_BYTES, foreign_getpid, inert_call, send_message};
use crate::verify::cell::{Act, Cell};
use crate::verify::facts::Facts;

/// Whether the kernel gets to see a call: it says that the arguments are wrong.
pub(super) fn reach(call: &str) -> Attempt {
    match inert_call(call) {
        None => Err(Refusal::new("this architecture has no such call")),
        Some(errno @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EAFNOSUPPORT)) => Err(errno.into()),
        Some(errno) => Ok(format!("it answers {errno:?}, as it must to these arguments")),
    }
}

/// Opens, and neither reads nor writes.
pub(super) fn open(path: &Path, for_writing: bool) -> Attempt {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(!for_writing).write(for_writing).custom_flags(flags).open(path)?;
    Ok("opened".to_owned())
}

pub(super) fn attempt(cell: &Cell, facts: &Facts) -> Attempt {
    match cell.act {
        Act::MountTmpfs => mount_tmpfs(cell, facts),
        Act::UserNamespace => user_namespace(),
        Act::ForeignTable32 => foreign(ForeignTable::I386),
        Act::ForeignTableX32 => foreign(ForeignTable::X32),
        Act::HostKeys => host_keys(facts),
        Act::MessageQueue => {
            let queue = facts.queue.ok_or_else(|| Refusal::new("the host has no such queue"))?;
            send_message(queue, message(&facts.token))?;
            Ok(String::new())
        }
        Act::PosixQueue => {
            let queue = mq_open(facts.queue_name().as_str(), MQ_OFlag::O_WRONLY, Mode::empty(), None)?;
            let sent = mq_send(&queue, &message(&facts.token), 1);
            mq_close(queue)?;
            sent?;
            Ok(String::new())
        }
        _ => Err(Refusal::new("the cell is tried elsewhere")),
    }
}

/// The token, as long as a message is.
pub(in crate::verify) fn message(token: &str) -> [u8; MESSAGE_BYTES] {
    let mut text = [0; MESSAGE_BYTES];
    for (slot, byte) in text.iter_mut().zip(token.bytes()) {
        *slot = byte;
    }
    text
}

/// Unconfined, in a mount namespace of its own: a mount on the host would be everybody's.
fn mount_tmpfs(cell: &Cell, facts: &Facts) -> Attempt {
    let target = facts.target(cell).ok_or_else(|| Refusal::new("the cell names no path"))?;
    let nothing = None::<&str>;
    if facts.unconfined {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    }
    mount(Some("none"), &target, Some("tmpfs"), MsFlags::empty(), nothing)?;
    if statfs(&target)?.filesystem_type() == TMPFS_MAGIC {
        Ok("a tmpfs is there".to_owned())
    } else {
        Err(Refusal::new("no tmpfs is there"))
    }
}

/// Being in another namespace is the proof.
fn user_namespace() -> Attempt {
    let link = "/proc/self/ns/user";
    let before = fs::read_link(link)?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    if fs::read_link(link)? == before {
        Err(Refusal::new("still in the old one"))
    } else {
        Ok("in a new one".to_owned())
    }
}

fn foreign(table: ForeignTable) -> Attempt {
    let answer = foreign_getpid(table)?;
    if answer == i64::from(std::process::id()) {
        Ok("getpid answers".to_owned())
    } else {
        Err(Refusal::new(format!("getpid answers {answer}")))
    }
}

fn host_keys(facts: &Facts) -> Attempt {
    if fs::read_to_string("/proc/keys")?.contains(&facts.token) {
        Ok(facts.token.clone())
    } else {
        Err(Refusal::new("no such key is listed"))
    }
}
