//! The log read for all runs of an executor, by a thread of its own, so that a long run fills no socket.
#![forbid(unsafe_code)]

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::reader::{AuditReader, AuditRecord};
use super::status::status;

/// How long the end of a run waits for the kernel to send what it has queued. It sends within microseconds; a host that
/// audits so much that it does not is told of as one that lost records.
const PATIENCE: Duration = Duration::from_millis(50);
/// From an empty queue to the last record in the socket: the kernel takes a record out before it sends it.
const LAST_RECORD: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_micros(200);

/// The audit log as an executor reads it. Dropping it ends the thread.
#[derive(Debug)]
pub struct AuditLog {
    reader: Arc<Mutex<AuditReader>>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// Opens the log and starts the thread.
    ///
    /// # Errors
    /// As [`AuditReader::open`]; or when a descriptor or the thread cannot be had.
    pub fn open() -> io::Result<Self> {
        let reader = Arc::new(Mutex::new(AuditReader::open()?));
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let work = (Arc::clone(&reader), Arc::clone(&wake));
        let builder = std::thread::Builder::new().name("stockade-audit".to_owned());
        let thread = builder.spawn(move || follow(&work.0, &work.1))?;
        Ok(Self { reader, wake, thread: Some(thread) })
    }

    /// Begins to collect for a run: the process that has entered its Landlock domain, as the host numbers it.
    pub fn enter(&self, entered: u32) {
        lock(&self.reader).enter(entered);
    }

    /// What the log holds of a run that has ended; what the kernel has not sent by then counts as lost. Blocks for some milliseconds, and not for longer.
    ///
    /// # Errors
    /// When the log cannot be read any longer.
    pub fn finish(&self, entered: u32) -> io::Result<AuditRecord> {
        let deadline = Instant::now() + PATIENCE;
        // Without the right to ask (`CAP_AUDIT_CONTROL`) the wait is for the clock alone.
        let waiting = || status().map_or(0, |status| u64::from(status.backlog));
        let mut unsent = waiting();
        while unsent > 0 && Instant::now() < deadline {
            std::thread::sleep(STEP);
            unsent = waiting();
        }
        std::thread::sleep(LAST_RECORD);
        let mut record = lock(&self.reader).take(entered)?;
        record.lost += unsent;
        Ok(record)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if let Err(error) = self.wake.write(1) {
            tracing::debug!(%error, "the audit log's thread could not be woken");
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the audit log's thread panicked; its runs were told of what was read before");
        }
    }
}

/// Reads what comes until it is told to end.
fn follow(reader: &Mutex<AuditReader>, wake: &EventFd) {
    use std::os::fd::AsFd;
    let Ok(socket) = lock(reader).as_fd().try_clone_to_owned() else { return };
    loop {
        let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                tracing::warn!(%error, "the audit log is no longer followed; its socket holds what it can");
                return;
            }
        }
        let [records, end] = wanted.map(|fd| fd.any().unwrap_or(false));
        if end {
            return;
        }
        if records && let Err(error) = lock(reader).read() {
            tracing::warn!(%error, "the audit log cannot be read any longer");
            return;
        }
    }
}

fn lock(reader: &Mutex<AuditReader>) -> MutexGuard<'_, AuditReader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}
