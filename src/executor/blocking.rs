//! Work that blocks, off the runtime's threads.
//!
//! The runtime's own pool panics where the host has no thread to give (`RLIMIT_NPROC`, `pids.max`), which is no reason
//! for this process to end: the work is then done where it was asked for, and holds up what else runs there.

#![forbid(unsafe_code)]

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Does `work` on a thread of its own.
///
/// # Errors
/// When it panicked.
pub(crate) async fn blocking<T, W>(work: W) -> io::Result<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let slot = Arc::new(Mutex::new(Some(work)));
    let take = |slot: &Mutex<Option<W>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (done, result) = oneshot::channel();
    let theirs = Arc::clone(&slot);
    let spawned = std::thread::Builder::new().name("blocking".to_owned()).spawn(move || {
        if let Some(work) = take(&theirs) {
            // Nobody waits for it any more when this fails.
            drop(done.send(work()));
        }
    });
    if let Err(error) = spawned
        && let Some(work) = take(&slot)
    {
        tracing::debug!(%error, "no thread for work that blocks");
        return Ok(work());
    }
    result.await.map_err(|_| io::Error::other("a thread of this program panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_a_panic_is_an_error() {
        let here = std::thread::current().id();
        assert_ne!(blocking(|| std::thread::current().id()).await.unwrap(), here);
        assert!(blocking(|| std::panic::resume_unwind(Box::new(()))).await.is_err());
    }
}
