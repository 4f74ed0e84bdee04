//! Both ends of the launcher's protocol, spoken to by whoever chooses the bytes.

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Call, Control, Event, Order, Request};
use super::wire::{self, Message};

/// In the first byte: what the receiver expects (two bits and the uppermost), whether the rest lies in a file beside the
/// message, and how many descriptors come along (four bits).
const IN_FILE: u8 = 4;

/// One message, over a real socket.
pub fn launcher(data: &[u8]) {
    let Some((way, bytes)) = data.split_first() else { return };
    let kind = SockType::SeqPacket;
    let Ok((ours, theirs)) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_NONBLOCK) else { return };
    let Ok((mut reader, writer)) = std::io::pipe() else { return };
    let mut fds = vec![writer.as_raw_fd(); usize::from(way >> 3 & 15)];
    let payload = (way & IN_FILE != 0).then(|| in_file(bytes)).flatten();
    fds.extend(payload.as_ref().map(AsRawFd::as_raw_fd));
    let frame = if payload.is_some() { &[1] } else { bytes };
    let control = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() { &control[..0] } else { &control };
    if sendmsg::<()>(theirs.as_raw_fd(), &[IoSlice::new(frame)], control, MsgFlags::empty(), None).is_err() {
        return;
    }
    // The other end breaks off in the middle.
    drop(theirs);
    match (way & 3, way >> 7) {
        // The host hears from a sandbox.
        (0, _) => hear::<Event>(&ours),
        // The launcher from whoever holds its socket, a sandbox from the launcher, and from the host.
        (1, _) => hear::<Request>(&ours),
        (2, 0) => hear::<Order>(&ours),
        (2, _) => hear::<Call>(&ours),
        _ => hear::<Control>(&ours),
    }
    drop(writer);
    assert_eq!(reader.read(&mut [0]).ok(), Some(0), "every descriptor that came along is closed again");
}

fn in_file(bytes: &[u8]) -> Option<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create(c"fuzz", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(bytes).ok()?;
    Some(file.into())
}

/// What is understood is the same when it is said again.
fn hear<T: Message + Serialize + DeserializeOwned + std::fmt::Debug>(socket: &OwnedFd) {
    let Ok((message, fds)) = wire::receive::<T>(socket.as_fd()) else { return };
    assert!(fds.len() <= 8, "{fds:?}");
    let again: Option<T> = postcard::to_stdvec(&message).ok().and_then(|said| postcard::from_bytes(&said).ok());
    assert_eq!(again.map(|again| format!("{again:?}")), Some(format!("{message:?}")));
}
