//! Servers and shared objects of the host, and who came to them. Connections wait in the kernel until they are looked for,
//! so no thread serves them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_unlink};
use nix::sys::stat::Mode;

use crate::kernel;
use crate::verify::facts::Facts;
use crate::verify::probe::message;

/// What the host serves. What it cannot serve is missing; the control of its cell shows that.
pub(super) struct Services {
    tcp: Option<TcpListener>,
    udp: Option<UdpSocket>,
    named: Option<UnixListener>,
    streams: BTreeMap<PathBuf, UnixListener>,
    datagrams: BTreeMap<PathBuf, UnixDatagram>,
    queue: Option<i32>,
    posix: Option<(MqdT, String)>,
}

impl Services {
    pub(super) fn start(token: &str) -> Self {
        let key = CString::new(format!("stockade-verify-{token}")).map_err(io::Error::other);
        let added = key.and_then(|key| kernel::add_process_key(&key, token.as_bytes()).map_err(io::Error::from));
        here("a key", added);
        let name = SocketAddr::from_abstract_name(token.as_bytes());
        Self {
            tcp: here("a TCP server", nonblocking(TcpListener::bind("127.0.0.1:0"), TcpListener::set_nonblocking)),
            udp: here("a UDP server", nonblocking(UdpSocket::bind("127.0.0.1:0"), UdpSocket::set_nonblocking)),
            named: here(
                "an abstract socket",
                nonblocking(name.and_then(|name| UnixListener::bind_addr(&name)), UnixListener::set_nonblocking),
            ),
            queue: here("a message queue", kernel::make_message_queue().map_err(io::Error::from)),
            streams: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            posix: None,
        }
    }

    pub(super) fn make_queue(&mut self, facts: &Facts) {
        let name = facts.queue_name();
        let size = i64::try_from(kernel::MESSAGE_BYTES).unwrap_or(0);
        let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDONLY | MQ_OFlag::O_NONBLOCK;
        let attributes = MqAttr::new(0, 4, size, 0);
        let made = mq_open(name.as_str(), flags, Mode::from_bits_truncate(0o600), Some(&attributes));
        self.posix = here("a POSIX message queue", made.map_err(io::Error::from)).map(|queue| (queue, name));
    }

    pub(super) fn listen(&mut self, path: &Path) -> io::Result<()> {
        let listener = nonblocking(UnixListener::bind(path), UnixListener::set_nonblocking)?;
        self.streams.insert(path.to_path_buf(), listener);
        Ok(())
    }

    pub(super) fn receive(&mut self, path: &Path) -> io::Result<()> {
        let socket = nonblocking(UnixDatagram::bind(path), UnixDatagram::set_nonblocking)?;
        self.datagrams.insert(path.to_path_buf(), socket);
        Ok(())
    }

    /// 0 where there is no server: nothing can be reached there.
    pub(super) fn tcp_port(&self) -> u16 {
        self.tcp.as_ref().and_then(|server| server.local_addr().ok()).map_or(0, |address| address.port())
    }

    pub(super) fn udp_port(&self) -> u16 {
        self.udp.as_ref().and_then(|server| server.local_addr().ok()).map_or(0, |address| address.port())
    }

    pub(super) const fn queue(&self) -> Option<i32> {
        self.queue
    }

    pub(super) fn connected(&self) -> bool {
        self.tcp.as_ref().is_some_and(|server| server.accept().is_ok())
    }

    pub(super) fn datagram_came(&self) -> bool {
        self.udp.as_ref().is_some_and(|server| server.recv(&mut [0; 8]).is_ok())
    }

    pub(super) fn abstract_connected(&self) -> bool {
        self.named.as_ref().is_some_and(|server| server.accept().is_ok())
    }

    pub(super) fn came_to(&self, path: &Path) -> bool {
        let stream = self.streams.get(path).is_some_and(|server| server.accept().is_ok());
        stream || self.datagrams.get(path).is_some_and(|server| server.recv(&mut [0; 8]).is_ok())
    }

    pub(super) fn message_came(&self, token: &str) -> bool {
        self.queue.is_some_and(|queue| kernel::take_message(queue) == Ok(message(token)))
    }

    pub(super) fn posix_message_came(&self, token: &str) -> bool {
        let Some((queue, _)) = &self.posix else { return false };
        let mut text = [0; kernel::MESSAGE_BYTES];
        mq_receive(queue, &mut text, &mut 0).is_ok() && text == message(token)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            here("the end of a message queue", kernel::remove_message_queue(queue).map_err(io::Error::from));
        }
        if let Some((queue, name)) = self.posix.take() {
            let removed = mq_unlink(name.as_str()).and(mq_close(queue));
            here("the end of a POSIX message queue", removed.map_err(io::Error::from));
        }
    }
}

fn nonblocking<T>(made: io::Result<T>, set: impl Fn(&T, bool) -> io::Result<()>) -> io::Result<T> {
    let made = made?;
    set(&made, true)?;
    Ok(made)
}

fn here<T>(what: &str, made: io::Result<T>) -> Option<T> {
    made.inspect_err(|error| tracing::debug!(%error, what, "not on this host")).ok()
}
