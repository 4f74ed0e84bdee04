//! Trying sockets of every kind.

#![forbid(unsafe_code)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, UnixAddr, bind, sendto, socket, socketpair,
};

use super::{Attempt, Refusal};
use crate::verify::cell::{Act, Cell};
use crate::verify::facts::{Facts, NEW};

pub(super) fn attempt(cell: &Cell, facts: &Facts) -> Attempt {
    let target = || facts.target(cell).ok_or_else(|| Refusal::new("the cell names no path"));
    let close = SockFlag::SOCK_CLOEXEC;
    match cell.act {
        Act::OwnLoopback => return own_loopback(),
        Act::TcpConnect => {
            TcpStream::connect(("127.0.0.1", facts.tcp_port))?;
        }
        Act::UdpSend => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", facts.udp_port))?;
            socket.send(NEW.as_bytes())?;
            // Where nobody listens, the answer to the first comes back on the second.
            socket.send(NEW.as_bytes())?;
        }
        Act::RawSocket => {
            socket(AddressFamily::Inet, SockType::Raw, close, SockProtocol::Icmp)?;
        }
        Act::PacketSocket => {
            socket(AddressFamily::Packet, SockType::Raw, close, None)?;
        }
        Act::AuditSocket => listen_to_audit()?,
        Act::UnixStream(_) => {
            UnixStream::connect(target()?)?;
        }
        Act::UnixDatagram(_) => {
            UnixDatagram::unbound()?.send_to(NEW.as_bytes(), target()?)?;
        }
        Act::AimedSocketPair => {
            let (one, _other) = socketpair(AddressFamily::Unix, SockType::Datagram, None, close)?;
            sendto(one.as_raw_fd(), NEW.as_bytes(), &UnixAddr::new(&target()?)?, MsgFlags::empty())?;
        }
        Act::UnixAbstract => {
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(facts.token.as_bytes())?)?;
        }
        _ => return Err(Refusal::new("the cell is tried elsewhere")),
    }
    Ok(String::new())
}

/// What it hears of itself.
fn own_loopback() -> Attempt {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    server.write_all(NEW.as_bytes())?;
    drop(server);
    let mut heard = String::new();
    client.read_to_string(&mut heard)?;
    Ok(heard)
}

/// Joins the multicast group of audit records (`AUDIT_NLGRP_READLOG`).
fn listen_to_audit() -> Result<(), Refusal> {
    const READ_LOG: u32 = 1;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkAudit)?;
    Ok(bind(fd.as_raw_fd(), &NetlinkAddr::new(0, READ_LOG))?)
}
