//! What a client can make the server hold, counted.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Requests that may wait for their answers at once.
pub(super) const REQUESTS: usize = 1024;
/// Bytes of request text that may wait for answers at once. Parsed, they may take some sixteen times as much.
pub(super) const REQUEST_BYTES: usize = 8 << 20;
/// Calls that may work at once; others wait their turn.
const CALLS: usize = 64;
/// Bytes of messages nobody has read yet above which no more is read and no more commands are started.
const UNREAD_BYTES: usize = 4 << 20;

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its id is that of a request still waiting: running it would answer one of them twice.
    Duplicate,
    /// Too much waits already.
    Busy,
}

/// The counts of one connection.
pub(super) struct Budget {
    requests: Mutex<Requests>,
    unread: watch::Sender<usize>,
    calls: Semaphore,
}

#[derive(Default)]
struct Requests {
    waiting: HashMap<RequestId, usize>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { requests: Mutex::default(), unread: watch::Sender::new(0), calls: Semaphore::new(CALLS) }
    }

    /// Counts a request in.
    pub(super) fn admit(&self, id: &RequestId, bytes: usize) -> Result<(), Refused> {
        let mut requests = self.lock();
        if requests.waiting.contains_key(id) {
            return Err(Refused::Duplicate);
        }
        if requests.waiting.len() >= REQUESTS || requests.bytes.saturating_add(bytes) > REQUEST_BYTES {
            return Err(Refused::Busy);
        }
        requests.waiting.insert(id.clone(), bytes);
        requests.bytes += bytes;
        Ok(())
    }

    /// Counts a request out: it is answered, or its client no longer wants the answer.
    pub(super) fn settle(&self, id: &RequestId) {
        let mut requests = self.lock();
        if let Some(bytes) = requests.waiting.remove(id) {
            requests.bytes -= bytes;
        }
    }

    /// Counts bytes that are to be written.
    pub(super) fn queued(&self, bytes: usize) {
        self.unread.send_modify(|unread| *unread = unread.saturating_add(bytes));
    }

    /// Counts bytes that the client has taken, or never will.
    pub(super) fn written(&self, bytes: usize) {
        self.unread.send_modify(|unread| *unread = unread.saturating_sub(bytes));
    }

    /// Resolves while the client keeps up with reading.
    pub(super) async fn room(&self) {
        // It fails only when the sender is gone, and that is `self`.
        if self.unread.subscribe().wait_for(|unread| *unread < UNREAD_BYTES).await.is_err() {
            tracing::error!("the count of unread bytes is gone");
        }
    }

    /// A turn to work, once there is room for what comes of it.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.calls.acquire().await.ok();
        self.room().await;
        permit
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_in_number_in_size_and_by_id() {
        let budget = Budget::new();
        for id in 0..1024 {
            assert_eq!(budget.admit(&RequestId::Number(id), 1), Ok(()));
        }
        assert_eq!(budget.admit(&RequestId::Number(7), 1), Err(Refused::Duplicate));
        assert_eq!(budget.admit(&RequestId::Number(2000), 1), Err(Refused::Busy));
        budget.settle(&RequestId::Number(7));
        budget.settle(&RequestId::Number(7));
        assert_eq!(budget.admit(&RequestId::Number(2000), REQUEST_BYTES), Err(Refused::Busy));
        assert_eq!(budget.admit(&RequestId::Number(7), 1), Ok(()));
    }

    #[tokio::test]
    async fn unread_bytes_close_the_door_and_reading_opens_it() {
        let budget = Budget::new();
        budget.queued(UNREAD_BYTES);
        assert!(futures_poll(budget.room()).await.is_none());
        budget.written(1);
        assert!(futures_poll(budget.room()).await.is_some());
    }

    async fn futures_poll<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(std::time::Duration::from_millis(20), future).await.ok()
    }
}
