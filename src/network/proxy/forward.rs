//! Passing one plain HTTP request on, and its response back.
//!
//! The head was judged in [`head`](super::head) by the same parser that hyper has; hyper reads it again and takes care
//! of the bodies. Client and server never share a byte stream: what the server gets is written anew.

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::Limits;
use super::tunnel::{Activity, Watched};
use crate::network::rules::Destination;

type Body = Either<Incoming, Full<Bytes>>;

/// Headers that concern one connection only (RFC 9110, 7.6.1), and the proxy's own.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];
const HOP_BY_HOP_OTHER: [&str; 2] = ["keep-alive", "proxy-connection"];

/// `seen` is what was read from `client` already: the head and perhaps some of the body.
pub(super) async fn forward(
    client: TcpStream,
    seen: Vec<u8>,
    upstream: TcpStream,
    destination: &Destination,
    path: &str,
    limits: &Limits,
) -> io::Result<()> {
    let activity = Activity::default();
    let (from_client, to_client) = client.into_split();
    let client = tokio::io::join(Cursor::new(seen).chain(from_client), to_client);
    let (sender, connection) = hyper::client::conn::http1::Builder::new()
        .handshake(TokioIo::new(Watched::new(upstream, activity.clone())))
        .await
        .map_err(io::Error::other)?;
    let sender = Mutex::new(Some(sender));
    let service = service_fn(|request: Request<Incoming>| {
        // One request a connection: the sender is there for the first and gone for any other.
        let sender = sender.lock().ok().and_then(|mut sender| sender.take());
        async {
            let response = match sender {
                Some(mut sender) => match outgoing(request, destination, path) {
                    Ok(request) => sender.send_request(request).await.map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                None => Err("only one request is served on a connection".to_owned()),
            };
            Ok::<_, Infallible>(response.map_or_else(|error| bad_gateway(destination, &error), incoming))
        }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Watched::new(client, activity.clone())), service);
    let both = async {
        // The upstream side must be driven while the response is awaited; the client's side decides when it is over.
        let driving = async {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the server's connection ended early");
            }
            std::future::pending::<()>().await
        };
        tokio::select! {
            served = serving => served.map_err(io::Error::other),
            () = driving => Ok(()),
        }
    };
    tokio::select! {
        result = both => result,
        () = activity.idle_for(limits.idle, limits.half_closed_idle) => Ok(()),
    }
}

/// The request as the server gets it: origin form, the judged host, nothing of this connection.
fn outgoing(request: Request<Incoming>, destination: &Destination, path: &str) -> Result<Request<Incoming>, String> {
    let (mut parts, body) = request.into_parts();
    parts.uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
    parts.version = hyper::Version::HTTP_11;
    strip(&mut parts.headers);
    let host = match destination.port {
        80 => destination.to_string().trim_end_matches(":80").to_owned(),
        _ => destination.to_string(),
    };
    parts.headers.insert(header::HOST, HeaderValue::from_str(&host).map_err(|error| error.to_string())?);
    Ok(Request::from_parts(parts, body))
}

fn incoming(response: Response<Incoming>) -> Response<Body> {
    let mut response = response.map(Either::Left);
    strip(response.headers_mut());
    response
}

fn bad_gateway(destination: &Destination, error: &str) -> Response<Body> {
    let text = format!("stockade: {destination} is allowed, but the request failed: {error}.\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named.iter().map(String::as_str).chain(HOP_BY_HOP_OTHER) {
        // The length is not the connection's to take away: a body would change its meaning.
        if name != header::CONTENT_LENGTH.as_str() && name != header::HOST.as_str() {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}
