//! What the executor has learned of its host, and its one launcher.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::denial::trace::Supervisor;
use crate::executor::ExecError;
use crate::executor::blocking::blocking;
use crate::host::HostSupport;
use crate::launcher::{LauncherClient, LauncherError, LauncherPath, SetupFailure};

/// Host and launcher of one executor.
#[derive(Debug)]
pub(super) struct HostState {
    support: Mutex<Arc<HostSupport>>,
    path: LauncherPath,
    launcher: Mutex<Slot>,
    /// The trace supervisor, started with the first traced command.
    supervisor: Mutex<Option<Arc<Supervisor>>>,
    /// A filter around us has a listener already, and a task can have one only.
    untraceable: AtomicBool,
}

#[derive(Debug)]
enum Slot {
    NotStarted,
    Running(Arc<LauncherClient>),
    Closed,
}

impl HostState {
    pub(super) fn detect(path: LauncherPath) -> Result<Self, ExecError> {
        let support =
            HostSupport::detect().map_err(|error| ExecError::SandboxUnavailable { reason: error.to_string() })?;
        Ok(Self {
            support: Mutex::new(Arc::new(support)),
            path,
            launcher: Mutex::new(Slot::NotStarted),
            supervisor: Mutex::new(None),
            untraceable: AtomicBool::new(false),
        })
    }

    pub(super) fn support(&self) -> Arc<HostSupport> {
        Arc::clone(&lock(&self.support))
    }

    /// Learns from a refused step what the host lacks; false when the refusal tells of no such thing. `seen` is what
    /// the refused plan was made for: another call may have learned the same in the meantime.
    pub(super) fn learn(&self, seen: &Arc<HostSupport>, failure: &SetupFailure) -> bool {
        let mut support = lock(&self.support);
        if !Arc::ptr_eq(&support, seen) {
            return true;
        }
        match support.without(failure) {
            Some(less) => {
                tracing::info!(%failure, "this host lacks something; planning again without it");
                *support = Arc::new(less);
                true
            }
            None => false,
        }
    }

    /// The launcher, started when there is none yet.
    pub(super) fn launcher(&self) -> Result<Arc<LauncherClient>, ExecError> {
        let mut slot = lock(&self.launcher);
        match &*slot {
            Slot::Running(client) => Ok(Arc::clone(client)),
            Slot::Closed => Err(ExecError::Disposed),
            Slot::NotStarted => {
                let client = Arc::new(LauncherClient::start(&self.path).map_err(unavailable)?);
                *slot = Slot::Running(Arc::clone(&client));
                Ok(client)
            }
        }
    }

    /// Whether commands can be traced, as far as is known.
    pub(super) fn traceable(&self) -> bool {
        !self.untraceable.load(Ordering::Relaxed)
    }

    /// Learns that no command can be traced here.
    pub(super) fn cannot_trace(&self) {
        self.untraceable.store(true, Ordering::Relaxed);
    }

    /// The supervisor, started when there is none yet.
    pub(super) fn supervisor(&self) -> std::io::Result<Arc<Supervisor>> {
        let mut slot = lock(&self.supervisor);
        if let Some(supervisor) = &*slot {
            return Ok(Arc::clone(supervisor));
        }
        let started = Arc::new(Supervisor::start()?);
        *slot = Some(Arc::clone(&started));
        Ok(started)
    }

    /// Gives up a launcher that cannot be reached, so that the next call starts another.
    pub(super) fn discard(&self, dead: &Arc<LauncherClient>) {
        let mut slot = lock(&self.launcher);
        if matches!(&*slot, Slot::Running(client) if Arc::ptr_eq(client, dead)) {
            *slot = Slot::NotStarted;
        }
    }

    /// Closes the launcher and the trace for good without waiting for their end.
    pub(super) fn release(&self) {
        if let Slot::Running(client) = std::mem::replace(&mut *lock(&self.launcher), Slot::Closed) {
            client.release();
        }
        if let Some(supervisor) = &*lock(&self.supervisor) {
            supervisor.retire();
        }
    }

    /// Closes the launcher for good and waits until it and its sandboxes are gone.
    pub(super) async fn close(&self) {
        let slot = std::mem::replace(&mut *lock(&self.launcher), Slot::Closed);
        if let Slot::Running(client) = slot
            && let Err(error) = blocking(move || client.close()).await
        {
            tracing::warn!(%error, "closing the launcher failed");
        }
    }
}

pub(super) fn unavailable(error: LauncherError) -> ExecError {
    ExecError::SandboxUnavailable { reason: error.to_string() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
