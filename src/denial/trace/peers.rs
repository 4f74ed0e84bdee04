//! Whether a socket call or a signal is refused by the sandbox.
//!
//! A network namespace refuses by having nothing there, so the host is asked whether it has: an address or a socket
//! that nobody has is an ordinary failure.
#![forbid(unsafe_code)]

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::socket::{SockType, SockaddrStorage, getpeername, getsockopt, sockopt};
use nix::unistd::Pid;

use super::process::{self, Identity};
use super::watch::{SignalBackend, Watch};
use crate::denial::host_view::{reached, serves};
use crate::denial::{DenialKind, NetBackend, Target};
use crate::kernel::notify;

/// The port of the domain name system.
const DNS: u16 = 53;
/// Ports below this need `CAP_NET_BIND_SERVICE` in a fresh network namespace.
const FIRST_FREE_PORT: u16 = 1024;
/// Bit of `CAP_NET_BIND_SERVICE`.
const NET_BIND_SERVICE: u64 = 1 << 10;
/// A number this far above any that was seen is not one that the sandbox's own PID namespace has handed out.
const PID_SLACK: u32 = 1024;

/// A refused call on a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerRefusal {
    pub(crate) kind: DenialKind,
    pub(crate) target: Target,
    pub(crate) errno: Errno,
}

/// What is known of the socket of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Socket {
    pub(crate) stream: bool,
    pub(crate) peer: Option<(IpAddr, u16)>,
}

/// Looks at another process's socket.
pub(crate) fn socket(who: &Identity, fd: i32) -> Option<Socket> {
    let process = notify::pidfd_open(who.tgid).ok()?;
    let copy = notify::pidfd_getfd(process.as_fd(), fd).ok()?;
    let stream = getsockopt(&copy, sockopt::SockType).ok()? == SockType::Stream;
    let peer = getpeername::<SockaddrStorage>(std::os::fd::AsRawFd::as_raw_fd(&copy)).ok().and_then(|name| {
        let v4 = name.as_sockaddr_in().map(|a| (IpAddr::from(a.ip()), a.port()));
        v4.or_else(|| name.as_sockaddr_in6().map(|a| (IpAddr::from(a.ip()).to_canonical(), a.port())))
    });
    Some(Socket { stream, peer })
}

fn net(kind: DenialKind, host: String, port: Option<u16>, errno: Errno) -> PeerRefusal {
    PeerRefusal { kind, target: Target::Net { host, port }, errno }
}

/// An address of the sandbox's own loopback, or the unspecified one, which leads there.
fn stays_inside(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

/// What is sent to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing yet: a connection.
    None,
    /// A question for the domain name system, about this name.
    Question(String),
    /// Something else.
    Other,
}

/// `connect` to an internet address, or a datagram sent to one.
pub(crate) fn reach(
    watch: &Watch,
    ip: IpAddr,
    port: u16,
    socket: Option<Socket>,
    content: Content,
    tid: u32,
) -> Option<PeerRefusal> {
    if !watch.network_closed() {
        return None;
    }
    let stream = socket.is_some_and(|s| s.stream);
    match watch.network {
        NetBackend::None => None,
        NetBackend::Landlock => {
            let refused = stream && !watch.open_ports.contains(&port);
            refused.then(|| net(DenialKind::NetConnect, ip.to_string(), Some(port), Errno::EACCES))
        }
        NetBackend::Namespace if stays_inside(ip) => {
            // The host's resolver on the loopback does not exist here; the question is sent, and nobody answers.
            match content {
                Content::Question(name) if port == DNS => {
                    Some(net(DenialKind::NetResolve, name, None, Errno::ECONNREFUSED))
                }
                _ => (stream && listens_outside_only(ip, port, tid))
                    .then(|| net(DenialKind::NetConnect, ip.to_string(), Some(port), Errno::ECONNREFUSED)),
            }
        }
        NetBackend::Namespace if port == DNS && !stream && content != Content::Other => {
            let host = if let Content::Question(name) = content { name } else { ip.to_string() };
            Some(net(DenialKind::NetResolve, host, None, Errno::ENETUNREACH))
        }
        NetBackend::Namespace => Some(net(DenialKind::NetConnect, ip.to_string(), Some(port), Errno::ENETUNREACH)),
    }
}

/// Somebody listens on this port of the host's loopback, and nobody on the same of the sandbox's.
fn listens_outside_only(ip: IpAddr, port: u16, tid: u32) -> bool {
    let inside = i32::try_from(tid).ok().and_then(|tid| procfs::process::Process::new(tid).ok());
    let Some(inside) = inside else { return false };
    let address = reached(ip);
    let listens = |tables: [procfs::ProcResult<Vec<procfs::net::TcpNetEntry>>; 2]| {
        tables.into_iter().flatten().flatten().any(|entry| serves(&entry, address, port))
    };
    // The sandbox's own table first: it is short, and most connections find somebody there.
    !listens([inside.tcp(), inside.tcp6()]) && listens([procfs::net::tcp(), procfs::net::tcp6()])
}

/// `bind` to an internet address.
pub(crate) fn bind(watch: &Watch, ip: IpAddr, port: u16, who: &Identity, stream: bool) -> Option<PeerRefusal> {
    let refusal = |errno| Some(net(DenialKind::NetBind, ip.to_string(), Some(port), errno));
    match watch.network {
        NetBackend::Namespace if !stays_inside(ip) => {
            let host_has_it = !ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok();
            host_has_it.then(|| refusal(Errno::EADDRNOTAVAIL)).flatten()
        }
        NetBackend::Namespace if (1..FIRST_FREE_PORT).contains(&port) => {
            let host_could = process::identity(std::process::id())?.capabilities & NET_BIND_SERVICE != 0;
            let could = who.capabilities & NET_BIND_SERVICE != 0;
            (host_could && !could).then(|| refusal(Errno::EACCES)).flatten()
        }
        NetBackend::Landlock if watch.network_closed() && stream && !watch.open_ports.contains(&port) => {
            refusal(Errno::EACCES)
        }
        _ => None,
    }
}

/// `connect` or a datagram to a Unix socket by path, where the process sees a socket, or something else, or nothing.
pub(crate) fn unix_path(path: &Path, here: Option<bool>) -> Option<PeerRefusal> {
    if here == Some(true) {
        return None;
    }
    let on_host = fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let errno = if here.is_some() { Errno::ECONNREFUSED } else { Errno::ENOENT };
    on_host.then(|| PeerRefusal { kind: DenialKind::UnixConnect, target: Target::Path(path.to_owned()), errno })
}

/// `connect` or a datagram to a Unix socket by abstract name.
pub(crate) fn unix_abstract(watch: &Watch, name: &[u8], tid: u32) -> Option<PeerRefusal> {
    let shown = format!("@{}", String::from_utf8_lossy(name).replace('\0', "@"));
    let errno = match watch.network {
        NetBackend::Namespace => Errno::ECONNREFUSED,
        NetBackend::Landlock => Errno::EPERM,
        NetBackend::None => return None,
    };
    let inside = watch.network == NetBackend::Namespace && listed(&format!("/proc/{tid}/net/unix"), &shown);
    let refused = !inside && listed("/proc/self/net/unix", &shown);
    refused.then(|| PeerRefusal { kind: DenialKind::UnixConnect, target: Target::Path(PathBuf::from(shown)), errno })
}

fn listed(table: &str, name: &str) -> bool {
    fs::read(table).is_ok_and(|text| String::from_utf8_lossy(&text).lines().any(|line| socket_name(line) == Some(name)))
}

/// The name in a line of `/proc/net/unix`: what follows the seventh column, which is padded.
fn socket_name(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_start_matches(' ');
        rest = &rest[rest.find(' ')?..];
    }
    rest.strip_prefix(' ')
}

/// `kill` of a process outside. `highest` is the highest process number seen inside.
pub(crate) fn signal(watch: &Watch, pid: i32, who: &Identity, highest: u32) -> Option<PeerRefusal> {
    let number = u32::try_from(pid).ok().filter(|&n| n > 1)?;
    let outcome = kill(Pid::from_raw(pid), None);
    let errno = match watch.signals {
        SignalBackend::Namespace => {
            let exists = matches!(outcome, Ok(()) | Err(Errno::EPERM));
            (exists && number > highest.saturating_add(PID_SLACK)).then_some(Errno::ESRCH)?
        }
        SignalBackend::Landlock => (outcome.is_ok() && outside(number, who)?).then_some(Errno::EPERM)?,
        SignalBackend::None => return None,
    };
    Some(PeerRefusal { kind: DenialKind::Signal, target: Target::None, errno })
}

/// Everything inside carries at least the filters that its first process began with; a process with fewer than the
/// caller was not started by it.
fn outside(pid: u32, who: &Identity) -> Option<bool> {
    Some(process::filters(pid)? < process::filters(who.tgid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets_are_read_whole() {
        let line = "ffff8880: 00000002 00000000 00010000 0001 01  7301 @a name";
        assert_eq!(socket_name(line), Some("@a name"));
        assert_eq!(socket_name("ffff8880: 00000003 00000000 00000000 0001 03 73012"), None);
        assert_eq!(socket_name(""), None);
    }
}
