//! The proxy of one sandbox: HTTP and SOCKS5 on one listening socket.
//!
//! The socket is made inside the sandbox's network namespace and handed in; the connections the proxy dials belong to the
//! namespace of the process that runs it. The proxy is thereby the sandbox's only way out, and what it lets through is
//! decided by [`RuleSet`] on the very address that is dialled.
#![forbid(unsafe_code)]

mod auth;
mod dial;
mod environment;
mod forward;
mod getent;
mod head;
mod http;
mod refusal;
mod resolve;
mod socks;
mod tunnel;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::refusal::RefusalLog;
use super::rules::RuleSet;

pub use auth::{Token, TokenError};
pub use refusal::{ProxyRefusal, RefusalReason, Refusals};
pub use resolve::{Resolve, SystemResolver};

/// What one proxy may use up. [`Limits::default`] is meant for one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections served at once; further ones wait in the kernel's backlog.
    pub connections: usize,
    /// Of these, tunnels and requests under way. One more is refused at once, and recorded.
    pub tunnels: usize,
    /// Time for the request or the SOCKS greeting to arrive complete.
    pub greeting: Duration,
    /// Bytes of a request's head.
    pub head: usize,
    /// Time for a name look-up.
    pub lookup: Duration,
    /// Time for a connection to one address.
    pub connect: Duration,
    /// A tunnel or request that carried nothing for this long, in either direction, is closed.
    pub idle: Duration,
    /// The same once one side has finished sending.
    pub half_closed_idle: Duration,
    /// Time that [`ProxyHandle::shutdown`] gives connections to end.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            tunnels: 512,
            greeting: Duration::from_secs(20),
            head: 32 * 1024,
            lookup: Duration::from_secs(15),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60 * 60),
            half_closed_idle: Duration::from_secs(10 * 60),
            shutdown: Duration::from_secs(1),
        }
    }
}

/// The proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The descriptor is not a listening TCP socket that this process can use.
    #[error("the proxy cannot use the socket it was handed; hand it a bound and listening TCP socket")]
    Listener(#[source] std::io::Error),
    /// There is no runtime to run in.
    #[error("the proxy was started outside a tokio runtime; call it from async code or enter the runtime first")]
    Runtime(#[source] tokio::runtime::TryCurrentError),
}

/// What all connections of one proxy share.
struct Shared {
    rules: Arc<RuleSet>,
    auth: Token,
    resolver: Arc<dyn Resolve>,
    limits: Limits,
    refusals: RefusalLog,
    tunnels: Semaphore,
    pipes: Semaphore,
}

/// Starts proxies.
#[derive(Debug, Clone, Copy)]
pub struct Proxy;

impl Proxy {
    /// Serves `listener` (a socket that is bound and listening; an `OwnedFd` will do) in the current tokio runtime until
    /// the handle is shut down or dropped.
    ///
    /// # Errors
    /// [`ProxyError`] when the socket cannot be used or there is no runtime.
    pub fn start(
        listener: impl Into<std::net::TcpListener>,
        rules: Arc<RuleSet>,
        auth: Token,
        resolver: Arc<dyn Resolve>,
    ) -> Result<ProxyHandle, ProxyError> {
        Self::start_with(listener, rules, auth, resolver, Limits::default())
    }

    /// As [`start`](Self::start), with other limits.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        listener: impl Into<std::net::TcpListener>,
        rules: Arc<RuleSet>,
        auth: Token,
        resolver: Arc<dyn Resolve>,
        limits: Limits,
    ) -> Result<ProxyHandle, ProxyError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(ProxyError::Runtime)?;
        let listener: std::net::TcpListener = listener.into();
        listener.set_nonblocking(true).map_err(ProxyError::Listener)?;
        let address = listener.local_addr().map_err(ProxyError::Listener)?;
        let listener = TcpListener::from_std(listener).map_err(ProxyError::Listener)?;
        let shared = Arc::new(Shared {
            tunnels: Semaphore::new(limits.tunnels),
            pipes: Semaphore::new(tunnel::MAX_PIPES),
            refusals: RefusalLog::default(),
            rules,
            auth,
            resolver,
            limits,
        });
        let (cancel, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, Arc::clone(&shared), cancel.clone(), tasks.clone());
        tasks.spawn_on(accepting, &runtime);
        Ok(ProxyHandle { shared, address, cancel, tasks })
    }
}

/// The variables that lead clients to a proxy at `address` with the credentials `auth`: needed before there is a proxy,
/// because a command's environment is settled before its sandbox exists.
#[must_use]
pub fn environment_for(address: SocketAddr, auth: &Token) -> BTreeMap<String, String> {
    environment::variables(address, auth)
}

/// A running proxy. Dropping it closes everything without waiting.
pub struct ProxyHandle {
    shared: Arc<Shared>,
    address: SocketAddr,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl ProxyHandle {
    /// The address it listens on, as its own network namespace counts it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was refused so far.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.refusals.snapshot()
    }

    /// The variables that lead clients to the proxy at `address`, credentials included.
    #[must_use]
    pub fn environment(&self, address: SocketAddr) -> BTreeMap<String, String> {
        environment_for(address, &self.shared.auth)
    }

    /// Closes the listening socket and every connection. True when all had ended within the limit (1 s by default); what
    /// had not is closed as soon as the runtime gets to it.
    pub async fn shutdown(&self) -> bool {
        self.cancel.cancel();
        self.tasks.close();
        tokio::time::timeout(self.shared.limits.shutdown, self.tasks.wait()).await.is_ok()
    }
}

impl Drop for ProxyHandle {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl std::fmt::Debug for ProxyHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyHandle").field("address", &self.address).field("connections", &self.tasks.len()).finish()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, cancel: CancellationToken, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(shared.limits.connections));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let (accepted, place) = tokio::select! {
            () = cancel.cancelled() => return,
            next = next => match next {
                Some(next) => next,
                None => return,
            },
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, cancel) = (Arc::clone(&shared), cancel.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = cancel.cancelled() => {}
                        () = serve(stream, &shared) => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // A connection that was reset while it waited, or no descriptors left: the next attempt may succeed.
                tracing::debug!(%error, "the proxy could not accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// One connection. The first byte tells SOCKS5 (its version) from HTTP (a letter).
async fn serve(stream: TcpStream, shared: &Shared) {
    let mut first = [0_u8; 1];
    let greeted = tokio::time::timeout(shared.limits.greeting, stream.peek(&mut first)).await;
    let served = match greeted {
        Ok(Ok(1)) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
            if first[0] == socks::VERSION {
                socks::serve(stream, shared).await
            } else {
                http::serve(stream, shared).await
            }
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(error),
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection through the proxy ended early");
    }
}
