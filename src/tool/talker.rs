//! A process for the tests of [`table`](super::table), here and in `tests/interleavings.rs`, by the locks of whoever compiles it.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::locks::{AtomicBool, AtomicU64};
use crate::executor::{BashProcess, BoxFuture, ExecError, OutputRead, ProcessStatus, RunResult};

/// Writes `x` now and then until it has ended; each is read once.
#[derive(Default)]
pub(crate) struct Talker {
    written: AtomicU64,
    read: AtomicU64,
    over: AtomicBool,
}

impl Talker {
    pub(crate) fn say(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

impl BashProcess for Talker {
    fn status(&self) -> ProcessStatus {
        if self.over.load(Ordering::SeqCst) { ProcessStatus::Failed("over".into()) } else { ProcessStatus::Running }
    }

    fn done(&self) -> BoxFuture<'_, Result<RunResult, ExecError>> {
        Box::pin(std::future::pending())
    }

    fn read_output(&self) -> OutputRead {
        let written = self.written.load(Ordering::SeqCst);
        let fresh = written - self.read.swap(written, Ordering::SeqCst);
        OutputRead { stdout: "x".repeat(usize::try_from(fresh).unwrap()), ..OutputRead::default() }
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    fn owner(&self) -> Option<&str> {
        Some("a")
    }
}
