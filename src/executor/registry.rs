//! Everything an executor has running, so that disposal can end it and wait.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::ExecError;

/// The running commands of one executor.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    running: TaskTracker,
    ending: CancellationToken,
}

/// Leave to run one command. Disposal waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// Cancelled when the command must end at once: disposal, or its future was dropped.
    pub(crate) now: CancellationToken,
    _running: TaskTrackerToken,
}

impl Registry {
    /// Admits a command, or refuses it after disposal.
    pub(crate) fn admit(&self) -> Result<Ticket, ExecError> {
        // Counted first: a disposal that begins after the check then waits for this command.
        let running = self.running.token();
        if self.ending.is_cancelled() {
            return Err(ExecError::Disposed);
        }
        Ok(Ticket { now: self.ending.child_token(), _running: running })
    }

    /// Ends every command and admits no more.
    pub(crate) fn end(&self) {
        self.ending.cancel();
        self.running.close();
    }

    /// Waits until every admitted command is gone.
    pub(crate) async fn wait(&self) {
        self.running.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Every order in which threads happen to come: what was admitted is waited for, and nothing is admitted after.
    #[test]
    fn disposal_waits_for_whoever_was_admitted_before_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut admitted, mut refused) = (0, 0);
        for round in 0..3000_u32 {
            let registry = Arc::new(Registry::default());
            let running = Arc::new(AtomicUsize::new(0));
            let callers: Vec<_> = (0..2)
                .map(|_| {
                    let (registry, running) = (Arc::clone(&registry), Arc::clone(&running));
                    std::thread::spawn(move || {
                        let Ok(ticket) = registry.admit() else { return false };
                        running.fetch_add(1, Ordering::SeqCst);
                        if round % 2 == 0 {
                            std::thread::yield_now();
                        }
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(ticket);
                        true
                    })
                })
                .collect();
            for _ in 0..round % 64 {
                std::hint::spin_loop();
            }
            registry.end();
            runtime.block_on(registry.wait());
            assert_eq!(running.load(Ordering::SeqCst), 0, "round {round}: disposal did not wait");
            assert!(registry.admit().is_err());
            for caller in callers {
                if caller.join().unwrap() { admitted += 1 } else { refused += 1 }
            }
        }
        assert!(admitted > 0 && refused > 0, "both were met: {admitted} admitted, {refused} refused");
    }
}
