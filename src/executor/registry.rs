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
