//! A command in its sandbox, as the run loop sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::Notify;

use super::aftermath::Aftermath;
use super::lookups::Lookups;
use crate::executor::child::{Child, ExitReport, ResourceUse};
use crate::executor::{BoxFuture, ExecError};
use crate::launcher::{Control, Event, Exit, LauncherClient, RunChannel, WireError};

/// How long init may take to end everything and say so before the launcher ends init itself.
const INIT_PATIENCE: Duration = Duration::from_millis(500);

/// A running sandbox.
pub(super) struct SandboxChild {
    channel: RunChannel,
    launcher: Arc<LauncherClient>,
    killed: AtomicBool,
    lookups: Lookups,
    /// Held until the sandbox is gone, however that comes about.
    _aftermath: Arc<Aftermath>,
    kill_noticed: Notify,
}

impl SandboxChild {
    pub(super) fn new(
        channel: RunChannel,
        launcher: Arc<LauncherClient>,
        aftermath: Arc<Aftermath>,
        lookups: Lookups,
    ) -> Self {
        let (killed, kill_noticed) = (AtomicBool::new(false), Notify::new());
        Self { channel, launcher, killed, kill_noticed, lookups, _aftermath: aftermath }
    }

    /// Sends a signal to the command's process group.
    pub(super) fn signal(&self, signal: Signal) {
        self.tell(Control::Signal(signal as i32));
    }

    /// A sandbox that cannot be told is beyond telling: its end of the socket is closed, which the wait reports.
    fn tell(&self, control: Control) {
        if let Err(error) = self.channel.tell(control) {
            tracing::warn!(%error, "a sandbox could not be told to end; killing it from outside");
            self.kill_from_outside();
        }
    }

    fn kill_from_outside(&self) {
        if let Err(error) = self.launcher.kill(self.channel.run()) {
            tracing::debug!(%error, "the launcher is gone, and its sandboxes with it");
        }
    }

    async fn report(&self) -> Result<ExitReport, ExecError> {
        loop {
            match self.channel.next().await {
                Ok((Event::Exited(exit), _)) => return Ok(exit_report(exit)),
                Ok((Event::Lookup(question), _)) => self.lookups.note(&question),
                Ok(_) => {}
                // Killed from outside before it could report: SIGKILL is what the command died of.
                Err(WireError::Closed) if self.killed.load(Ordering::Acquire) => {
                    return Ok(ExitReport { signal: Some(Signal::SIGKILL as i32), ..ExitReport::default() });
                }
                Err(error) => return Err(ExecError::SandboxLost { reason: error.to_string() }),
            }
        }
    }

    /// Resolves never; ends init from outside when it was told to end and does not.
    async fn enforce_kill(&self) -> std::convert::Infallible {
        loop {
            if self.killed.load(Ordering::Acquire) {
                tokio::time::sleep(INIT_PATIENCE).await;
                self.kill_from_outside();
            }
            self.kill_noticed.notified().await;
        }
    }
}

impl Child for SandboxChild {
    fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.tell(Control::KillAll);
        self.kill_noticed.notify_one();
    }

    fn wait(&self) -> BoxFuture<'_, Result<ExitReport, ExecError>> {
        Box::pin(async {
            tokio::select! {
                biased;
                report = self.report() => report,
                never = self.enforce_kill() => match never {},
            }
        })
    }
}

fn exit_report(exit: Exit) -> ExitReport {
    ExitReport {
        exit_code: exit.code,
        signal: exit.signal,
        resources: Some(ResourceUse {
            user: Duration::from_micros(exit.cpu_micros.0),
            system: Duration::from_micros(exit.cpu_micros.1),
            max_resident: exit.max_rss_kib.saturating_mul(1024),
        }),
    }
}
