//! The SOCKS5 side (RFC 1928, user name and password after RFC 1929): `CONNECT` only.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::{DialError, dial};
use super::{RefusalReason, Shared, tunnel};
use crate::network::rules::{Destination, Host, HostError};

/// The first byte of every SOCKS5 connection.
pub(super) const VERSION: u8 = 5;
const AUTH_VERSION: u8 = 1;
const METHOD_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const COMMAND_CONNECT: u8 = 1;

/// The answers of RFC 1928, section 6.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Reply {
    Succeeded = 0,
    Failure = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

pub(super) async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let greeting =
        async { if authenticate(&mut stream, shared).await? { request(&mut stream, shared).await } else { Ok(None) } };
    let destination = match timeout(shared.limits.greeting, greeting).await {
        Ok(Ok(Some(destination))) => destination,
        Ok(Ok(None)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    };
    let Ok(_place) = shared.tunnels.try_acquire() else {
        shared.refusals.record(&destination, RefusalReason::TooMany, None);
        return reply(&mut stream, Reply::Failure).await;
    };
    match dial(shared, &destination).await {
        Ok(upstream) => {
            reply(&mut stream, Reply::Succeeded).await?;
            tunnel::relay(stream, upstream, &[], shared).await
        }
        Err(error) => {
            let code = match error {
                DialError::Refused(_) => Reply::NotAllowed,
                DialError::Lookup(_) => Reply::HostUnreachable,
                DialError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    Reply::ConnectionRefused
                }
                DialError::Connect(_) => Reply::HostUnreachable,
            };
            reply(&mut stream, code).await
        }
    }
}

/// True when the client may go on.
async fn authenticate(stream: &mut TcpStream, shared: &Shared) -> io::Result<bool> {
    let _version = stream.read_u8().await?;
    let methods = read_counted(stream).await?;
    if !methods.contains(&METHOD_PASSWORD) {
        shared.refusals.record_text("", RefusalReason::NoCredentials);
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(false);
    }
    stream.write_all(&[VERSION, METHOD_PASSWORD]).await?;
    let version = stream.read_u8().await?;
    let user = read_counted(stream).await?;
    let password = read_counted(stream).await?;
    let accepted = version == AUTH_VERSION && shared.auth.accepts(&user, &password);
    if !accepted {
        shared.refusals.record_text("", RefusalReason::WrongCredentials);
    }
    stream.write_all(&[AUTH_VERSION, u8::from(!accepted)]).await?;
    Ok(accepted)
}

/// Where the client wants to go; `None` when it was refused already.
async fn request(stream: &mut TcpStream, shared: &Shared) -> io::Result<Option<Destination>> {
    let [version, command, _, kind] = {
        let mut header = [0_u8; 4];
        stream.read_exact(&mut header).await?;
        header
    };
    let host = match kind {
        1 => Ok(Host::Address(Ipv4Addr::from(stream.read_u32().await?).into())),
        4 => Ok(Host::from(Ipv6Addr::from(stream.read_u128().await?))),
        3 => {
            let name = read_counted(stream).await?;
            let text = String::from_utf8_lossy(&name);
            Host::parse(&text).map_err(|problem| (text.into_owned(), problem))
        }
        _ => {
            shared.refusals.record_text("", RefusalReason::Malformed("its address type is unknown"));
            reply(stream, Reply::AddressNotSupported).await?;
            return Ok(None);
        }
    };
    let port = stream.read_u16().await?;
    let host = match host {
        Ok(host) if port != 0 => host,
        Ok(host) => {
            shared.refusals.record_text(&host.to_string(), RefusalReason::Target(HostError::Port("0".to_owned())));
            reply(stream, Reply::NotAllowed).await?;
            return Ok(None);
        }
        Err((text, problem)) => {
            shared.refusals.record_text(&text, RefusalReason::Target(problem));
            reply(stream, Reply::NotAllowed).await?;
            return Ok(None);
        }
    };
    let destination = Destination { host, port };
    if version != VERSION || command != COMMAND_CONNECT {
        let reason = RefusalReason::Malformed("only the SOCKS5 command CONNECT is served");
        shared.refusals.record(&destination, reason, None);
        reply(stream, Reply::CommandNotSupported).await?;
        return Ok(None);
    }
    Ok(Some(destination))
}

/// One byte that says how many follow, and these.
async fn read_counted(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The bound address is always `0.0.0.0:0`: it would tell the sandbox about the host's network.
async fn reply(stream: &mut TcpStream, code: Reply) -> io::Result<()> {
    stream.write_all(&[VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
