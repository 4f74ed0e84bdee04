//! The command's pipes, served while something else is waited for.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::sleep;

use super::BoxFuture;
use super::engine::Streams;
use super::stop::Stops;
use crate::output::pump;

/// Writes standard input, then closes it. A command that does not read it is not a failure.
pub(crate) async fn feed(fd: OwnedFd, bytes: Vec<u8>) {
    let written = async { Sender::from_owned_fd(fd)?.write_all(&bytes).await };
    match written.await {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            tracing::warn!(%error, "standard input could not be delivered whole");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Both pumps, and whether they have come to the end of file.
pub(crate) struct Reading {
    pumps: BoxFuture<'static, ()>,
    done: bool,
}

impl Reading {
    pub(crate) fn new(stdout: Receiver, stderr: Receiver, streams: Streams) -> Self {
        let pumps = Box::pin(async move {
            for read in <[_; 2]>::from(tokio::join!(pump(&stdout, &streams.stdout), pump(&stderr, &streams.stderr))) {
                if let Err(error) = read {
                    tracing::warn!(%error, "the command's output could not be read to its end");
                }
            }
        });
        Self { pumps, done: false }
    }

    /// Reads for as long as `other` takes.
    pub(crate) async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        if !self.done {
            tokio::select! {
                biased;
                value = &mut other => return value,
                () = &mut self.pumps => self.done = true,
            }
        }
        other.await
    }

    /// Reads to the end of file, but no longer than `limit`: something in the background may hold the pipes.
    pub(crate) async fn drain(&mut self, limit: Duration, stops: &Stops) {
        if !self.done {
            tokio::select! {
                biased;
                () = &mut self.pumps => self.done = true,
                () = sleep(limit) => {}
                () = stops.now.cancelled() => {}
            }
        }
    }
}
