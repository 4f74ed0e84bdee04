//! The way to the supervisor's thread: commands that wake it, and what it leaves for those who come too late to ask.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::sync::PoisonError;

use super::locks::{Mutex, Receiver, Sender, channel};

/// What the thread waits on, beside its listeners.
pub(super) trait Bell {
    /// Wakes the thread, now or the next time it is about to wait.
    fn ring(&self) -> io::Result<()>;

    /// Takes back every ring so far.
    fn silence(&self) -> io::Result<()>;
}

/// The way to the thread. `C` are its commands, `R` is what is left of a run.
#[derive(Debug)]
pub(super) struct Line<C, B, R> {
    commands: Sender<C>,
    pub(super) bell: B,
    /// What is left of runs whose listener had to be closed.
    over: Mutex<HashMap<u64, R>>,
}

impl<C, B: Bell, R> Line<C, B, R> {
    /// Both ends.
    pub(super) fn new(bell: B) -> (Self, Receiver<C>) {
        let (commands, received) = channel();
        (Self { commands, bell, over: Mutex::default() }, received)
    }

    /// Gives the thread a command and wakes it.
    pub(super) fn send(&self, command: C) -> io::Result<()> {
        self.commands.send(command).map_err(|_| gone())?;
        self.bell.ring()
    }

    /// Carries out the commands that wait, until `carry_out` says that it was the last: `false` then.
    ///
    /// The bell is silenced first: a command that comes after the last look rings it again.
    pub(super) fn obey(&self, received: &Receiver<C>, mut carry_out: impl FnMut(C) -> bool) -> io::Result<bool> {
        self.bell.silence()?;
        while let Ok(command) = received.try_recv() {
            if !carry_out(command) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the thread had to leave of a run; once.
    pub(super) fn take(&self, id: u64) -> Option<R> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// Leaves it.
    pub(super) fn put(&self, id: u64, left: R) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).insert(id, left);
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the trace supervisor has ended")
}
