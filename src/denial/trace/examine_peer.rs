//! Socket calls and signals: reads addresses and datagrams, and asks whether the peer is out of reach.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::address::{self, SocketAddress};
use super::calls::{AT_FDCWD, PathArg, Request};
use super::dns;
use super::examine::{FullPath, Outcome, Trouble};
use super::files;
use super::peers::{self, Content, PeerRefusal};
use super::privilege::{self, Privilege};
use super::process;
use super::resolve::Located;
use super::run::Run;
use crate::denial::{DenialKind, Target};

/// A question and its header fit; what lies behind them does not matter.
const MAX_DATAGRAM: usize = 512;
/// Messages of one `sendmmsg` that are looked at. Resolvers send two.
const MAX_MESSAGES: u64 = 16;
/// `sizeof(struct msghdr)` and, with the count behind it, of `struct mmsghdr`.
const MSGHDR: usize = 56;
const MMSGHDR: u64 = 64;

impl From<Option<PeerRefusal>> for Outcome {
    fn from(refusal: Option<PeerRefusal>) -> Self {
        refusal.map_or(Self::Allowed, |r| Self::Refused(r.kind, r.target, r.errno))
    }
}

/// A message on its way: where to, and what.
struct Message {
    address: u64,
    length: u64,
    data: u64,
    size: u64,
}

impl Run {
    pub(crate) fn examine_peer(&mut self, tid: u32, request: Request, now: Instant) -> Result<Outcome, Trouble> {
        match request {
            Request::Connect { fd, address, length } => {
                let to = read_address(tid, address, length)?;
                self.examine_reach(tid, fd, &to, Content::None, now)
            }
            Request::Bind { fd, address, length } => self.examine_bind(tid, fd, address, length, now),
            Request::SendTo { fd, data, size, address, length, .. } => {
                self.examine_message(tid, fd, &Message { address, length, data, size }, now)
            }
            Request::SendMsg { fd, header, .. } => self.examine_header(tid, fd, header, now),
            Request::SendMmsg { fd, headers, count, .. } => {
                for index in 0..count.min(MAX_MESSAGES) {
                    let header = headers.wrapping_add(index * MMSGHDR);
                    let outcome = self.examine_header(tid, fd, header, now)?;
                    if matches!(outcome, Outcome::Refused(..)) {
                        return Ok(outcome);
                    }
                }
                Ok(Outcome::Allowed)
            }
            Request::Kill { pid } => {
                let who = process::identity(tid).ok_or(Trouble::Fails)?;
                self.highest = self.highest.max(who.inner);
                if u32::try_from(pid) == Ok(who.inner) {
                    // Ending itself is no further work.
                    return Err(Trouble::Fails);
                }
                Ok(peers::signal(&self.watch, pid, &who, self.highest).into())
            }
            Request::Privilege(asked) => self.examine_privilege(tid, asked),
            _ => Ok(Outcome::Allowed),
        }
    }

    /// A call that takes a capability: refused by us where the executor holds it and the command does not.
    fn examine_privilege(&mut self, tid: u32, asked: Privilege) -> Result<Outcome, Trouble> {
        let (capability, errno) = asked.needs();
        let host = self.host_capabilities();
        let who = process::identity(tid).ok_or(Trouble::Fails)?;
        let taken = host & capability != 0 && who.capabilities & capability == 0;
        if !taken || !privilege::exceeds(asked, tid)? {
            return Ok(Outcome::Allowed);
        }
        Ok(Outcome::Refused(DenialKind::Capability, Target::Syscall, errno))
    }

    fn host_capabilities(&mut self) -> u64 {
        let read = || process::identity(std::process::id()).map_or(0, |own| own.capabilities);
        *self.host_capabilities.get_or_insert_with(read)
    }

    fn examine_header(&mut self, tid: u32, fd: i32, header: u64, now: Instant) -> Result<Outcome, Trouble> {
        let bytes: [u8; MSGHDR] = process::exactly(tid, header).map_err(Trouble::of_memory)?;
        let word = |at: usize| bytes[at..].first_chunk::<8>().map_or(0, |b| u64::from_ne_bytes(*b));
        let (address, length) = (word(0), word(8) & 0xFFFF_FFFF);
        let (vector, pieces) = (word(16), word(24));
        let (data, size) = if pieces == 0 {
            (0, 0)
        } else {
            let piece: [u8; 16] = process::exactly(tid, vector).map_err(Trouble::of_memory)?;
            let word = |at: usize| piece[at..].first_chunk::<8>().map_or(0, |b| u64::from_ne_bytes(*b));
            (word(0), word(8))
        };
        self.examine_message(tid, fd, &Message { address, length, data, size }, now)
    }

    fn examine_message(&mut self, tid: u32, fd: i32, message: &Message, now: Instant) -> Result<Outcome, Trouble> {
        if !self.watch.network_closed() {
            return Ok(Outcome::Allowed);
        }
        let size = usize::try_from(message.size).unwrap_or(usize::MAX).min(MAX_DATAGRAM);
        let content = match process::bytes(tid, message.data, size) {
            Ok(data) if size > 0 => dns::question(&data).map_or(Content::Other, Content::Question),
            _ => Content::None,
        };
        if message.address != 0 && message.length != 0 {
            let to = read_address(tid, message.address, message.length)?;
            return self.examine_reach(tid, fd, &to, content, now);
        }
        // A connected socket: only a question for the domain name system is of interest, and its peer has to be
        // looked up.
        if !matches!(content, Content::Question(_)) {
            return Ok(Outcome::Allowed);
        }
        let socket = process::identity(tid).and_then(|who| peers::socket(&who, fd));
        let Some((ip, port)) = socket.and_then(|s| s.peer) else { return Ok(Outcome::Allowed) };
        Ok(peers::reach(&self.watch, ip, port, socket, content, tid).into())
    }

    fn examine_reach(
        &mut self,
        tid: u32,
        fd: i32,
        to: &SocketAddress,
        content: Content,
        now: Instant,
    ) -> Result<Outcome, Trouble> {
        match to {
            SocketAddress::Ip { ip, port } => {
                if !self.watch.network_closed() {
                    return Ok(Outcome::Allowed);
                }
                let socket = process::identity(tid).and_then(|who| peers::socket(&who, fd));
                Ok(peers::reach(&self.watch, *ip, *port, socket, content, tid).into())
            }
            SocketAddress::UnixPath(path) => self.examine_unix(tid, path, now),
            SocketAddress::UnixAbstract(name) => Ok(peers::unix_abstract(&self.watch, name, tid).into()),
            SocketAddress::Unnamed | SocketAddress::Other(_) => Ok(Outcome::Allowed),
        }
    }

    fn examine_unix(&mut self, tid: u32, path: &Path, now: Instant) -> Result<Outcome, Trouble> {
        let full = self.socket_path(tid, path, now)?;
        let (shown, here) = match self.locate(tid, &full, true) {
            Ok(Located::Name(place)) => (place.path(), place.target.map(|t| t.kind())),
            Ok(Located::Object { found, path }) => (path.unwrap_or_default(), Some(found.kind())),
            Err(Trouble::Fails) => (PathBuf::from(OsString::from_vec(full.absolute.clone())), None),
            Err(other) => return Err(other),
        };
        let is_socket = here.map(|kind| kind == nix::sys::stat::SFlag::S_IFSOCK);
        Ok(peers::unix_path(&shown, is_socket).into())
    }

    fn examine_bind(&mut self, tid: u32, fd: i32, address: u64, length: u64, now: Instant) -> Result<Outcome, Trouble> {
        match read_address(tid, address, length)? {
            SocketAddress::Ip { ip, port } => {
                let who = process::identity(tid).ok_or(Trouble::Fails)?;
                let stream = peers::socket(&who, fd).is_some_and(|s| s.stream);
                Ok(peers::bind(&self.watch, ip, port, &who, stream).into())
            }
            SocketAddress::UnixPath(path) => {
                let full = self.socket_path(tid, &path, now)?;
                let found = self.locate(tid, &full, false)?;
                Ok(files::make(&self.watch, &found, false).into())
            }
            _ => Ok(Outcome::Allowed),
        }
    }

    fn socket_path(&mut self, tid: u32, path: &Path, now: Instant) -> Result<FullPath, Trouble> {
        self.full_path(tid, PathArg { dirfd: AT_FDCWD, text: 0 }, path.as_os_str().as_bytes().to_vec(), now)
    }
}

fn read_address(tid: u32, address: u64, length: u64) -> Result<SocketAddress, Trouble> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > address::MAX_LENGTH {
        return Err(Trouble::Fails);
    }
    let bytes = process::bytes(tid, address, length).map_err(Trouble::of_memory)?;
    address::parse(&bytes).ok_or(Trouble::Fails)
}
