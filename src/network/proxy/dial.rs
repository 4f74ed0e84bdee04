//! From a destination to a connection: the rules, the look-up, the rules again for each address, the dial.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ProxyRefusal, RefusalReason, Shared};
use crate::network::rules::{Destination, Host, Refused};

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The rules refuse it. Already recorded.
    #[error("{}", .0.reason)]
    Refused(ProxyRefusal),
    /// The name has no address.
    #[error("the name could not be looked up: {0}")]
    Lookup(#[source] io::Error),
    /// No address answered; the last error.
    #[error("the connection failed: {0}")]
    Connect(#[source] io::Error),
}

/// Connects to `destination` where the rules let it. The address that was checked is the address that is dialled: no
/// name is looked up a second time.
pub(super) async fn dial(shared: &Shared, destination: &Destination) -> Result<TcpStream, DialError> {
    let refuse = |refused: Refused| {
        let grant = shared.rules.grant_for(destination, &refused);
        DialError::Refused(shared.refusals.record(destination, RefusalReason::Rule(refused), grant))
    };
    shared.rules.check(destination).map_err(refuse)?;
    let addresses = match &destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => permitted(shared, name, destination.port).await?.map_err(refuse)?,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(shared.limits.connect, TcpStream::connect(SocketAddr::new(address, destination.port))).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(elapsed) => last = io::Error::new(io::ErrorKind::TimedOut, elapsed),
        }
    }
    Err(DialError::Connect(last))
}

/// The addresses of `name` that the rules let through. Refused ones are left out; when nothing else is left, the first
/// refusal is the answer.
async fn permitted(shared: &Shared, name: &str, port: u16) -> Result<Result<Vec<IpAddr>, Refused>, DialError> {
    let found = timeout(shared.limits.lookup, shared.resolver.resolve(name))
        .await
        .unwrap_or_else(|elapsed| Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)))
        .map_err(DialError::Lookup)?;
    let mut first_refusal = None;
    let mut permitted = Vec::new();
    for address in found.into_iter().take(MAX_ADDRESSES) {
        match shared.rules.check_address(address, port) {
            Ok(()) => permitted.push(address.to_canonical()),
            Err(refused) => first_refusal = first_refusal.or(Some(refused)),
        }
    }
    match (permitted.is_empty(), first_refusal) {
        (true, Some(refused)) => Ok(Err(refused)),
        (true, None) => Err(DialError::Lookup(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))),
        (false, _) => Ok(Ok(permitted)),
    }
}
