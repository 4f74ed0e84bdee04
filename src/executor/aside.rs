//! Work that may take a while, off the runtime's threads.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Does `work` on a thread of its own, and on this one where none can be had: a machine out of processes is no reason to
/// fail, as tokio's own threads for blocking work do, by panicking. `None` when the work itself panicked.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (done, outcome) = oneshot::channel();
    let theirs = Arc::clone(&work);
    let thread = std::thread::Builder::new().name("aside".to_owned()).spawn(move || {
        if let Some(work) = take(&theirs) {
            // Whoever asked may have stopped waiting.
            drop(done.send(work()));
        }
    });
    match thread {
        Ok(_) => outcome.await.ok(),
        Err(error) => {
            tracing::debug!(%error, "no thread could be had");
            take(&work).map(|work| work())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_done_elsewhere_and_a_panic_stays_there() {
        let here = std::thread::current().id();
        assert_ne!(aside(|| std::thread::current().id()).await, Some(here));
        assert_eq!(aside(|| -> () { panic!("on purpose") }).await, None);
    }
}
