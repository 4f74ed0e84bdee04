//! Looking names up, behind a trait so that tests (and hosts with their own resolver) give the answers.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::sync::{Semaphore, oneshot};

use super::getent;

/// Looks names up for the proxy. Its answers are not trusted: each address is checked before it is dialled.
pub trait Resolve: Send + Sync {
    /// The addresses of `name` (lower-case ASCII, no final dot), in the order to try them.
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// The host's own resolver, `getaddrinfo(3)`.
#[derive(Debug)]
pub struct SystemResolver {
    /// `getaddrinfo` blocks a thread and cannot be cancelled: this many at once and no more.
    turns: Semaphore,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { turns: Semaphore::new(32) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
            let (name, (done, answer)) = (name.to_owned(), oneshot::channel());
            // Not the runtime's own threads, which panic where the host has none to give.
            std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
                let found = if getent::is_needed() { getent::look_up(&name) } else { look_up(&name) };
                // The proxy may have given up waiting.
                drop(done.send(found));
            })?;
            answer.await.map_err(io::Error::other)?
        })
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}
