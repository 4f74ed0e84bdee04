//! Messages over `SOCK_SEQPACKET` sockets: a compact encoding, descriptors beside it, large payloads in a memfd.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kernel;

/// Payloads up to this size travel in the message; larger ones in a memfd. Well under the 208 KiB that a socket buffer
/// holds by default, so that several can be queued.
const INLINE_LIMIT: usize = 32 * 1024;

/// Most descriptors in one message: status socket, three of stdio, one payload.
const MAX_FDS: usize = 8;

const INLINE: u8 = 0;
const IN_MEMFD: u8 = 1;

/// What is sent over these sockets.
pub(crate) trait Message {
    /// Most bytes of one, encoded. What the host hears from a sandbox fits in the frame itself, so that nothing there can
    /// make it read a file of any size.
    const MOST: usize = INLINE_LIMIT;
}

/// Why a message could not be passed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The other end is gone.
    #[error("the other end of the socket is closed")]
    Closed,
    /// Nothing to read yet, or no room to write, on a non-blocking socket.
    #[error("the socket is not ready")]
    NotReady,
    /// The kernel refused.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    /// The bytes are no message of ours.
    #[error("a message could not be understood: {0}")]
    Codec(#[from] postcard::Error),
    /// The frame itself is wrong: truncated, or announcing a payload that is not there.
    #[error("a message was malformed")]
    Malformed,
    /// Longer than any message of its kind.
    #[error("a message of {length} bytes is longer than {most}, the most of its kind")]
    TooLong {
        /// Bytes of it.
        length: u64,
        /// Bytes that it may have.
        most: usize,
    },
}

impl From<Errno> for WireError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EAGAIN => Self::NotReady,
            Errno::EPIPE | Errno::ECONNRESET => Self::Closed,
            errno => Self::Io(errno.into()),
        }
    }
}

/// Sends one message with descriptors.
pub(crate) fn send<T: Message + Serialize>(socket: impl AsFd, message: &T, fds: &[RawFd]) -> Result<(), WireError> {
    let mut frame = vec![INLINE];
    frame = postcard::to_extend(message, frame)?;
    if frame.len() - 1 > T::MOST {
        return Err(WireError::TooLong { length: frame.len() as u64 - 1, most: T::MOST });
    }
    let payload;
    let mut all = fds.to_vec();
    if frame.len() - 1 > INLINE_LIMIT {
        payload = in_memfd(&frame[1..])?;
        all.push(payload.as_raw_fd());
        frame = vec![IN_MEMFD];
    }
    let socket = socket.as_fd().as_raw_fd();
    loop {
        // Without descriptors `send` does, which the trace filter lets pass where it would stop `sendmsg`.
        let sent = if all.is_empty() {
            nix::sys::socket::send(socket, &frame, MsgFlags::MSG_NOSIGNAL)
        } else {
            let (iov, control) = ([IoSlice::new(&frame)], [ControlMessage::ScmRights(&all)]);
            sendmsg::<SockaddrStorage>(socket, &iov, &control, MsgFlags::MSG_NOSIGNAL, None)
        };
        match sent {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends a small message with one descriptor through a filter that stops `sendmsg` but for the call with `token`.
pub(crate) fn send_past_filter<T: Serialize>(
    socket: &OwnedFd,
    message: &T,
    fd: &OwnedFd,
    token: u64,
) -> Result<(), WireError> {
    let frame = postcard::to_extend(message, vec![INLINE])?;
    Ok(kernel::send_descriptor(socket, fd, &frame, token)?)
}

fn in_memfd(bytes: &[u8]) -> Result<OwnedFd, WireError> {
    const NAME: &CStr = c"stockade-message";
    let fd = memfd_create(NAME, MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Receives one message and its descriptors, all close-on-exec.
pub(crate) fn receive<T: Message + DeserializeOwned>(socket: impl AsFd) -> Result<(T, Vec<OwnedFd>), WireError> {
    let mut buffer = vec![0_u8; INLINE_LIMIT + 1];
    let (length, truncated, mut fds) = receive_raw(socket, &mut buffer)?;
    if length == 0 {
        return Err(WireError::Closed);
    }
    // The room for descriptors is rounded up, so more than was meant may fit.
    if truncated || fds.len() > MAX_FDS {
        return Err(WireError::Malformed);
    }
    match buffer[0] {
        INLINE => Ok((postcard::from_bytes(&buffer[1..length])?, fds)),
        IN_MEMFD if T::MOST > INLINE_LIMIT => {
            let payload = fds.pop().ok_or(WireError::Malformed)?;
            Ok((postcard::from_bytes(&read_payload(payload, T::MOST)?)?, fds))
        }
        _ => Err(WireError::Malformed),
    }
}

/// Reads a payload, which is a file in memory and not what may block or never end.
fn read_payload(payload: OwnedFd, most: usize) -> Result<Vec<u8>, WireError> {
    let mut file = std::fs::File::from(payload);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(WireError::Malformed);
    }
    let length = about.len();
    if usize::try_from(length).map_or(true, |length| length > most) {
        return Err(WireError::TooLong { length, most });
    }
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut file)?;
    // Its end may move while it is read.
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes of the message, whether anything of it was cut off, and its descriptors: closed with the list, also when some
/// found no room.
fn receive_raw(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, bool, Vec<OwnedFd>), WireError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(buffer)];
        match recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => {
                let mut fds = Vec::new();
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = part {
                        fds.extend(received);
                    }
                }
                let truncated = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
                return Ok((message.bytes, truncated, fds));
            }
            // The other end closed without reading all that it was sent. The kernel says so once, ahead of what it had
            // sent itself (its last word among it): that is still there to be read, and then the end.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            Err(errno) => return Err(Errno::from_raw(errno.raw_os_error()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    impl Message for String {
        const MOST: usize = 6_000_000;
    }
    impl Message for &str {}
    impl Message for u32 {}

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    #[test]
    fn small_and_large_messages_arrive_with_their_descriptors() {
        let (a, b) = pair();
        for size in [0, 1, INLINE_LIMIT - 8, INLINE_LIMIT - 3, INLINE_LIMIT, 5_000_000] {
            let text = "x".repeat(size);
            let (file, _) = pair();
            send(&a, &text, &[file.as_raw_fd()]).unwrap();
            let (got, fds): (String, _) = receive(&b).unwrap();
            assert_eq!(got.len(), size);
            assert_eq!(fds.len(), 1);
        }
    }

    #[test]
    fn a_closed_end_is_told_from_an_empty_message() {
        let (a, b) = pair();
        drop(a);
        assert!(matches!(receive::<u32>(&b), Err(WireError::Closed)));
    }

    #[test]
    fn the_last_word_of_an_end_that_did_not_listen_is_heard() {
        let (host, sandbox) = pair();
        send(&host, &"never read", &[]).unwrap();
        send(&sandbox, &"last word", &[]).unwrap();
        drop(sandbox);
        assert_eq!(receive::<String>(&host).unwrap().0, "last word");
        assert!(matches!(receive::<String>(&host), Err(WireError::Closed)));
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        let (a, b) = pair();
        for bytes in [&[7_u8, 1, 2][..], &[INLINE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[IN_MEMFD]] {
            nix::unistd::write(&a, bytes).unwrap();
            assert!(receive::<String>(&b).is_err(), "{bytes:?}");
        }
    }
    /// A message that says where its payload is, and that payload.
    fn elsewhere(payload: &impl AsRawFd) -> OwnedFd {
        let (a, b) = pair();
        let (iov, control) = ([IoSlice::new(&[IN_MEMFD])], [payload.as_raw_fd()]);
        let control = [ControlMessage::ScmRights(&control)];
        sendmsg::<SockaddrStorage>(a.as_raw_fd(), &iov, &control, MsgFlags::empty(), None).unwrap();
        b
    }

    #[test]
    fn a_payload_is_bounded_and_a_file() {
        let memory = |length: u64| {
            let file = std::fs::File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap());
            file.set_len(length).unwrap();
            file
        };
        // As much memory as the host has would be read into it.
        let huge = receive::<String>(elsewhere(&memory(1 << 46)));
        assert!(matches!(huge, Err(WireError::TooLong { .. })), "{huge:?}");
        let endless = std::fs::File::open("/dev/zero").unwrap();
        assert!(matches!(receive::<String>(elsewhere(&endless)), Err(WireError::Malformed)));
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(matches!(receive::<String>(elsewhere(&reader)), Err(WireError::Malformed)));
        // A small kind has none at all.
        assert!(matches!(receive::<u32>(elsewhere(&memory(1))), Err(WireError::Malformed)));
        assert_eq!(receive::<String>(elsewhere(&memory(1))).unwrap().0, "", "the control");
        let too_long = send(pair().0, &"x".repeat(7_000_000), &[]);
        assert!(matches!(too_long, Err(WireError::TooLong { .. })), "{too_long:?}");
    }

    #[test]
    fn descriptors_of_a_refused_message_are_closed() {
        let (a, b) = pair();
        let (mut reader, writer) = std::io::pipe().unwrap();
        for count in [1, MAX_FDS, MAX_FDS + 1, 40] {
            let fds = vec![writer.as_raw_fd(); count];
            let control = [ControlMessage::ScmRights(&fds)];
            sendmsg::<SockaddrStorage>(a.as_raw_fd(), &[IoSlice::new(&[7])], &control, MsgFlags::empty(), None)
                .unwrap();
            assert!(matches!(receive::<u32>(&b), Err(WireError::Malformed)), "{count}");
        }
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody else holds the pipe open");
    }
}
