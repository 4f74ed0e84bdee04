//! The HTTP side: one request a connection, so that nothing that follows it can be taken for another.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::{DialError, dial};
use super::head::{self, Head, Kind, RawHead};
use super::{ProxyRefusal, RefusalReason, Shared, forward, tunnel};
use crate::denial::DenialKind;
use crate::network::rules::Destination;

/// What a client that was answered early may go on sending before its connection is cut.
const MAX_DISCARDED: u64 = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// An answer of the proxy itself.
struct Answer {
    status: &'static str,
    header: &'static str,
    body: String,
}

pub(super) async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4096);
    let reading = read_head(&mut stream, &mut bytes, shared.limits.head);
    match timeout(shared.limits.greeting, reading).await {
        Ok(Ok(Arrived::Complete)) => {}
        Ok(Ok(Arrived::Nothing)) => return Ok(()),
        Ok(Ok(Arrived::TooLarge)) => {
            return refuse_text(stream, shared, "", RefusalReason::TooLarge).await;
        }
        Ok(Ok(Arrived::Bad(reason))) => return refuse_text(stream, shared, "", reason).await,
        Ok(Err(error)) => return Err(error),
        Err(_) => return answer(stream, plain("408 Request Timeout", "the request did not arrive in time")).await,
    }
    let raw = match head::read(&bytes) {
        Ok(Some(raw)) => raw,
        Ok(None) => return Ok(()),
        Err(reason) => return refuse_text(stream, shared, "", reason).await,
    };
    let judged = raw.judge();
    if let Err(reason) = authenticate(shared, &raw) {
        let refusal = match &judged {
            Ok(head) => shared.refusals.record(&head.destination, reason, None),
            Err(_) => shared.refusals.record_text(raw.target(), reason),
        };
        return answer(stream, unauthenticated(&refusal)).await;
    }
    let head = match judged {
        Ok(head) => head,
        Err(reason) => {
            let target = raw.target().to_owned();
            return refuse_text(stream, shared, &target, reason).await;
        }
    };
    shared.refusals.forgive_no_credentials(&head.destination);
    let rest = bytes.split_off(raw.length);
    pass_on(stream, shared, head, bytes, rest).await
}

async fn pass_on(stream: TcpStream, shared: &Shared, head: Head, bytes: Vec<u8>, rest: Vec<u8>) -> io::Result<()> {
    let Ok(_place) = shared.tunnels.try_acquire() else {
        shared.refusals.record(&head.destination, RefusalReason::TooMany, None);
        return answer(stream, plain("503 Service Unavailable", &RefusalReason::TooMany.to_string())).await;
    };
    let upstream = match dial(shared, &head.destination).await {
        Ok(upstream) => upstream,
        Err(error) => return answer(stream, unreachable(&head.destination, &error)).await,
    };
    match head.kind {
        Kind::Tunnel => {
            let mut stream = stream;
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tunnel::relay(stream, upstream, &rest, shared).await
        }
        Kind::Forward(path) => {
            let mut seen = bytes;
            seen.extend_from_slice(&rest);
            forward::forward(stream, seen, upstream, &head.destination, &path, &shared.limits).await
        }
    }
}

enum Arrived {
    Complete,
    Nothing,
    TooLarge,
    Bad(RefusalReason),
}

/// Reads until the head is complete. What comes with it stays in `bytes`.
async fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>, limit: usize) -> io::Result<Arrived> {
    loop {
        let before = bytes.len();
        if stream.read_buf(bytes).await? == 0 {
            return Ok(if before == 0 {
                Arrived::Nothing
            } else {
                Arrived::Bad(RefusalReason::Malformed("it ended in the middle of its head"))
            });
        }
        // Only a new line can complete it: a head that comes byte by byte is not read again for each.
        if bytes[before..].contains(&b'\n') || bytes[before..].contains(&0) {
            match head::read(bytes) {
                Ok(Some(raw)) if raw.length <= limit => return Ok(Arrived::Complete),
                Ok(Some(_)) => return Ok(Arrived::TooLarge),
                Ok(None) => {}
                Err(reason) => return Ok(Arrived::Bad(reason)),
            }
        }
        if bytes.len() >= limit {
            return Ok(Arrived::TooLarge);
        }
    }
}

fn authenticate(shared: &Shared, raw: &RawHead<'_>) -> Result<(), RefusalReason> {
    match raw.credentials() {
        None => Err(RefusalReason::NoCredentials),
        Some(value) if shared.auth.accepts_basic(value) => Ok(()),
        Some(_) => Err(RefusalReason::WrongCredentials),
    }
}

fn unauthenticated(refusal: &ProxyRefusal) -> Answer {
    Answer {
        status: "407 Proxy Authentication Required",
        header: "Proxy-Authenticate: Basic realm=\"stockade\"\r\n",
        body: refusal.explain(),
    }
}

fn plain(status: &'static str, text: &str) -> Answer {
    Answer { status, header: "", body: format!("stockade: {text}.\n") }
}

/// The answer for a destination that was refused or did not respond. `Proxy-Status` is RFC 9209's.
fn unreachable(destination: &Destination, error: &DialError) -> Answer {
    let (status, header) = match error {
        DialError::Refused(refusal) => match refusal.kind() {
            DenialKind::NetResolve => ("403 Forbidden", "Proxy-Status: stockade; error=destination_ip_prohibited\r\n"),
            _ => ("403 Forbidden", "Proxy-Status: stockade; error=http_request_denied\r\n"),
        },
        DialError::Lookup(_) => ("502 Bad Gateway", "Proxy-Status: stockade; error=dns_error\r\n"),
        DialError::Connect(_) => ("502 Bad Gateway", "Proxy-Status: stockade; error=destination_unavailable\r\n"),
    };
    let body = match error {
        DialError::Refused(refusal) => refusal.explain(),
        _ => format!("stockade: {destination} is allowed, but {error}.\n"),
    };
    Answer { status, header, body }
}

async fn refuse_text(stream: TcpStream, shared: &Shared, target: &str, reason: RefusalReason) -> io::Result<()> {
    let status = match reason {
        RefusalReason::TooLarge => "431 Request Header Fields Too Large",
        _ => "400 Bad Request",
    };
    let body = shared.refusals.record_text(target, reason).explain();
    answer(stream, Answer { status, header: "", body }).await
}

/// Answers and closes. A close with unread data would reset the connection and take the answer with it: what still
/// comes is read and dropped for a while.
async fn answer(mut stream: TcpStream, answer: Answer) -> io::Result<()> {
    let Answer { status, header, body } = answer;
    let text = format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let finish = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MAX_DISCARDED), &mut tokio::io::sink()).await
    };
    match timeout(LINGER, finish).await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}
