//! What happens when a run is dropped before its end.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_util::sync::CancellationToken;

use super::child::Child;
use super::engine::Outcome;
use super::{BoxFuture, ExecError};

type Run = BoxFuture<'static, Result<Outcome, ExecError>>;

/// Kills the command when the loop is dropped before its end.
pub(crate) struct Guard<C: Child> {
    child: C,
    armed: bool,
}

impl<C: Child> Guard<C> {
    pub(crate) const fn new(child: C) -> Self {
        Self { child, armed: true }
    }

    /// The command has ended and left nothing.
    pub(crate) fn disarm(mut self) {
        self.armed = false;
    }
}

impl<C: Child> Deref for Guard<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.child
    }
}

impl<C: Child> Drop for Guard<C> {
    fn drop(&mut self) {
        if self.armed {
            self.child.kill();
        }
    }
}

/// A foreground run. Dropped before its end, it hands the rest (kill, reap, count down) to a task.
pub(crate) struct Attended {
    run: Option<Run>,
    now: CancellationToken,
}

impl Attended {
    /// Follows `run`; `now` ends its command at once.
    pub(crate) const fn new(run: Run, now: CancellationToken) -> Self {
        Self { run: Some(run), now }
    }
}

impl Future for Attended {
    type Output = Result<Outcome, ExecError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(run) = &mut self.run else { return Poll::Pending };
        let polled = run.as_mut().poll(context);
        if polled.is_ready() {
            self.run = None;
        }
        polled
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            self.now.cancel();
            // Without a runtime the future is dropped here, and its guard kills the command.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(run);
            }
        }
    }
}
