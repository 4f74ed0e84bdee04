//! Which descriptors of the caller's may become a confined command's standard input, output and error.
//!
//! A descriptor keeps the mount and the network it was opened in, so it goes around every wall that is built by name: a
//! directory leads to the whole host beneath it, a file's mode and owner can be changed through it on a mount that is not
//! read-only, an internet socket connects anew from the host's network. What carries bytes and nothing else passes.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockopt, sockopt};
use nix::sys::stat::{SFlag, fstat, major, minor};

use crate::executor::ExecError;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Refuses what would lead out.
pub(super) fn check(stdio: [&OwnedFd; 3]) -> Result<(), ExecError> {
    for (fd, name) in stdio.into_iter().zip(NAMES) {
        if let Err(what) = check_one(fd) {
            let reason = format!("{name} is {what}, which would lead around the sandbox: pass it through a pipe");
            return Err(ExecError::Policy { reason });
        }
    }
    Ok(())
}

fn check_one(fd: &OwnedFd) -> Result<(), &'static str> {
    let unreadable = |_| "a descriptor that cannot be looked at";
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).map_err(unreadable)?);
    if flags.contains(OFlag::O_PATH) {
        return Err("a bare path");
    }
    let stat = fstat(fd).map_err(unreadable)?;
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => Ok(()),
        SFlag::S_IFSOCK if is_connected_stream(fd) => Ok(()),
        SFlag::S_IFSOCK => Err("a socket other than a connected Unix stream"),
        // The command opens its own private copy of these.
        SFlag::S_IFCHR if is_harmless((major(stat.st_rdev), minor(stat.st_rdev))) => Ok(()),
        SFlag::S_IFCHR => Err("a device or terminal of the host"),
        SFlag::S_IFDIR => Err("a directory"),
        SFlag::S_IFREG => Err("a file of the host"),
        _ => Err("neither a pipe nor a connected Unix stream"),
    }
}

/// null, zero, full, random and urandom: the memory devices that the private `/dev` has as well.
fn is_harmless(device: (u64, u64)) -> bool {
    matches!(device, (1, 3 | 5 | 7 | 8 | 9))
}

fn is_connected_stream(fd: &OwnedFd) -> bool {
    let stream = matches!(getsockopt(fd, sockopt::SockType), Ok(SockType::Stream | SockType::SeqPacket));
    let peer = getpeername::<SockaddrStorage>(fd.as_raw_fd());
    stream && peer.is_ok_and(|peer| peer.family() == Some(AddressFamily::Unix))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn bytes_pass_and_ways_out_do_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        for fd in [OwnedFd::from(reader), writer.into(), stream.into(), null.into()] {
            assert_eq!(check_one(&fd), Ok(()), "{fd:?}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (unix_datagram, _peer) = UnixDatagram::pair().unwrap();
        let ways: [OwnedFd; 6] = [
            listener.into(),
            connected.into(),
            datagram.into(),
            unix_datagram.into(),
            File::open("/").unwrap().into(),
            tempfile::tempfile().unwrap().into(),
        ];
        for fd in ways {
            assert!(check_one(&fd).is_err(), "{fd:?}");
        }
    }
}
