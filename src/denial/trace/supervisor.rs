//! The supervisor: one thread for all traced runs of an executor.
//!
//! The thread owns every listener. When it ends, for whatever reason, the listeners close and the kernel answers
//! `ENOSYS` to the traced calls of whatever still runs: nothing waits for ever and nothing is let through.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::line::{Bell, gone};
use super::record::TraceRecord;
use super::run::Run;
use super::watch::Watch;
use crate::kernel::notify;

/// Calls answered for a run that is being finished.
const MAX_DRAINED: usize = 1000;
/// How long `finish` waits for the thread, which answers a call in microseconds.
const PATIENCE: Duration = Duration::from_secs(5);
#[derive(Debug)]
enum Command {
    Attach(u64, OwnedFd, Box<Watch>),
    Finish(u64, Sender<TraceRecord>),
    Stop,
}

/// A counter that `poll` sees.
#[derive(Debug)]
struct Wake(EventFd);

impl Bell for Wake {
    fn ring(&self) -> io::Result<()> {
        self.0.write(1)?;
        Ok(())
    }

    fn silence(&self) -> io::Result<()> {
        match self.0.read() {
            // An earlier round has read the counter.
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

type Line = super::line::Line<Command, Wake, TraceRecord>;

/// The supervisor of one executor. Dropping it ends its thread and refuses the traced calls of what still runs.
#[derive(Debug)]
pub struct Supervisor {
    line: Arc<Line>,
    next: std::sync::atomic::AtomicU64,
    /// Started with the first run: before that there is nothing to wait for, and a start takes the time of a dozen calls.
    thread: Mutex<Work>,
}

#[derive(Debug)]
enum Work {
    Waiting(Thread),
    Started(JoinHandle<()>),
    Over,
}

/// One traced run. Dropping it without [`finish`](Self::finish) ends the trace of the run, whose traced calls then
/// fail.
#[derive(Debug)]
pub struct TraceHandle {
    line: Arc<Line>,
    id: u64,
    finished: bool,
}

impl Supervisor {
    /// Prepares what the thread works with.
    ///
    /// # Errors
    /// When the kernel has no seccomp notifications, or a descriptor cannot be had.
    pub fn start() -> io::Result<Self> {
        notify::check_sizes()?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (line, received) = Line::new(Wake(wake));
        let line = Arc::new(line);
        let inner = Thread { line: Arc::clone(&line), received, runs: Vec::new() };
        Ok(Self { line, next: std::sync::atomic::AtomicU64::new(1), thread: Mutex::new(Work::Waiting(inner)) })
    }

    /// Takes over the listener of a trace filter. From here on its calls are answered, as soon as the thread comes to it.
    ///
    /// # Errors
    /// When the thread cannot be started or has ended. The listener is then closed, so the run fails closed.
    pub fn attach(&self, listener: OwnedFd, watch: Watch) -> io::Result<TraceHandle> {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.begin()?;
        self.line.send(Command::Attach(id, listener, Box::new(watch)))?;
        Ok(TraceHandle { line: Arc::clone(&self.line), id, finished: false })
    }
}

impl Supervisor {
    /// Has the thread end by itself, for a program that is about to: its exit would wait for the thread to be woken and
    /// killed. What still runs is refused its traced calls.
    pub fn retire(&self) {
        // An error means that the thread has ended already.
        if self.line.send(Command::Stop).is_err() {
            tracing::debug!("the trace supervisor had ended before it was retired");
        }
    }

    fn begin(&self) -> io::Result<()> {
        let mut work = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Work::Waiting(inner) = std::mem::replace(&mut *work, Work::Over) {
            let thread = std::thread::Builder::new().name("stockade-trace".to_owned());
            *work = Work::Started(thread.spawn(move || inner.work())?);
        }
        Ok(())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.retire();
        let work = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Work::Started(thread) = std::mem::replace(work, Work::Over)
            && thread.join().is_err()
        {
            tracing::error!("the trace supervisor panicked; traced calls were refused since");
        }
    }
}

impl TraceHandle {
    /// Answers what is pending, ends the trace of the run and returns what it saw. To be called when the command has
    /// ended: what still runs is refused its traced calls from here on.
    ///
    /// # Errors
    /// When the thread has ended or does not answer: nothing is then known of the run.
    pub fn finish(mut self) -> io::Result<TraceRecord> {
        self.finished = true;
        if let Some(record) = self.line.take(self.id) {
            return Ok(record);
        }
        let (reply, answer) = channel();
        self.line.send(Command::Finish(self.id, reply))?;
        answer.recv_timeout(PATIENCE).map_err(|_| gone())
    }
}

impl Drop for TraceHandle {
    fn drop(&mut self) {
        if !self.finished && self.line.send(Command::Finish(self.id, channel().0)).is_err() {
            tracing::debug!("the trace supervisor had ended before its run");
        }
    }
}

/// A run that is traced.
struct Traced {
    id: u64,
    run: Run,
    /// Everything in it has let go of the filter: nothing more is to be heard. How each process ended is known only when
    /// `finish` asks.
    silent: bool,
}

struct Thread {
    line: Arc<Line>,
    received: Receiver<Command>,
    runs: Vec<Traced>,
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Thread {
    fn work(mut self) {
        loop {
            match self.wait() {
                Ok((commands, ready)) => {
                    // From the last to the first: a run that is given up leaves its place to the last one.
                    for (at, events) in ready.into_iter().rev() {
                        self.serve(at, events);
                    }
                    if commands && !self.obey() {
                        return;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(error) => {
                    tracing::error!(%error, "the trace supervisor cannot wait; traced calls are refused from here on");
                    return;
                }
            }
        }
    }

    /// Waits for a command or a call: whether there is a command, and which runs have something, by their place.
    ///
    /// This is `poll` and not `epoll`, which does not hand on that the waiting call's own processor is to wake this thread
    /// (Linux 6.18): a switch on one processor takes a fraction of a wake-up of another.
    fn wait(&self) -> Result<(bool, Vec<(usize, PollFlags)>), Errno> {
        let speaking = || self.runs.iter().enumerate().filter(|(_, traced)| !traced.silent);
        let listeners = speaking().map(|(_, traced)| PollFd::new(traced.run.listener(), PollFlags::POLLIN));
        let mut wanted: Vec<PollFd<'_>> = listeners.collect();
        wanted.push(PollFd::new(self.line.bell.0.as_fd(), PollFlags::POLLIN));
        poll(&mut wanted, PollTimeout::NONE)?;
        let commands = wanted.pop().is_some_and(|wake| wake.any().unwrap_or(true));
        let ready = speaking().zip(&wanted).filter_map(|((at, _), fd)| {
            let events = fd.revents().unwrap_or(PollFlags::POLLERR);
            (!events.is_empty()).then_some((at, events))
        });
        Ok((commands, ready.collect()))
    }

    /// Carries out the commands that wait. `false` when the thread is to end.
    fn obey(&mut self) -> bool {
        let goes_on = self.line.obey(&self.received, |command| match command {
            Command::Stop => false,
            Command::Attach(id, listener, watch) => {
                self.runs.push(Traced { id, run: Run::new(listener, *watch), silent: false });
                true
            }
            Command::Finish(id, reply) => {
                if let Some(record) = finish(&mut self.runs, &self.line, id) {
                    answer(&reply, record);
                }
                true
            }
        });
        goes_on.unwrap_or_else(|error| {
            tracing::error!(%error, "the trace supervisor lost its wake-up");
            false
        })
    }

    fn serve(&mut self, at: usize, events: PollFlags) {
        let Some(traced) = self.runs.get_mut(at) else { return };
        if !events.contains(PollFlags::POLLIN) {
            traced.silent = true;
            return;
        }
        if let Err(error) = traced.run.serve() {
            tracing::warn!(%error, "a traced run could not be answered; its traced calls are refused from here on");
            let Traced { id, run, .. } = self.runs.swap_remove(at);
            self.line.put(id, run.finish(true));
        }
    }
}

/// Answers what a run's listener still holds, and ends its trace.
fn finish(runs: &mut Vec<Traced>, line: &Line, id: u64) -> Option<TraceRecord> {
    let Some(at) = runs.iter().position(|traced| traced.id == id) else { return line.take(id) };
    let mut run = runs.swap_remove(at).run;
    for _ in 0..MAX_DRAINED {
        if !pending(&run) || !run.serve().unwrap_or(false) {
            break;
        }
    }
    Some(run.finish(false))
}

fn pending(run: &Run) -> bool {
    let mut wanted = [PollFd::new(run.listener(), PollFlags::POLLIN)];
    poll(&mut wanted, PollTimeout::ZERO).is_ok_and(|n| n > 0)
        && wanted[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
}

/// Takes a listener that the process which installed the filter sends over a Unix socket with one byte.
///
/// # Errors
/// When the message brings no descriptor, `UnexpectedEof` when the other end has closed.
pub fn receive_listener(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    notify::receive_descriptor(socket)
}

/// Whoever asked may have stopped waiting.
fn answer<T>(reply: &Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::debug!("nobody waits for the trace supervisor's answer");
    }
}
