//! Why and when a command is ended from outside.

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Why a command was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Timeout,
    Abort,
}

/// What may end a command from outside.
pub(crate) struct Stops {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) ask: CancellationToken,
    pub(crate) now: CancellationToken,
}

impl Stops {
    /// The first polite request to end.
    pub(crate) async fn first(&self) -> Cause {
        let cancelled = async {
            match &self.cancel {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled => Cause::Abort,
            () = self.ask.cancelled() => Cause::Abort,
            () = at(self.deadline) => Cause::Timeout,
        }
    }
}

pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
