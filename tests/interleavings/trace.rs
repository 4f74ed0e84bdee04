//! Those who command, and a thread that waits for them.

use std::io;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::every_order;

use line::{Bell, Line};
use locks::{Sender, channel};

mod locks {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::mpsc::{Receiver, Sender, channel};
}
#[path = "../../src/denial/trace/line.rs"]
mod line;

/// An eventfd that is waited for with `poll`, in loom's terms.
#[derive(Default)]
struct Counter {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Counter {
    /// `poll(2)`: until it has rung; taking the rings back is another step.
    fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
    }
}

impl Bell for Counter {
    fn ring(&self) -> io::Result<()> {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_one();
        Ok(())
    }

    fn silence(&self) -> io::Result<()> {
        *self.rings.lock().unwrap() = 0;
        Ok(())
    }
}

enum Command {
    /// Nothing but a number to add up.
    Add(u64),
    /// What is left of a run, please.
    Finish(u64, Sender<&'static str>),
    Stop,
}

/// No command is left lying while the thread sleeps: loom calls that a deadlock.
#[test]
fn no_command_is_slept_through() {
    every_order(|| {
        let (line, received) = Line::<Command, Counter, ()>::new(Counter::default());
        let line = Arc::new(line);
        let commander = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.send(Command::Add(1)).unwrap())
        };
        let worker = {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                let mut sum = 0;
                while sum < 3 {
                    line.bell.wait();
                    let add = |command| {
                        let Command::Add(number) = command else { return false };
                        sum += number;
                        true
                    };
                    assert!(line.obey(&received, add).unwrap());
                }
                (sum, received)
            })
        };
        line.send(Command::Add(2)).unwrap();
        commander.join().unwrap();
        let (sum, _received) = worker.join().unwrap();
        assert_eq!(sum, 3);
    });
}

/// A run whose listener is closed while its owner finishes it: the owner gets what is left, once, by one of the two ways.
#[test]
fn what_is_left_of_a_run_reaches_its_owner() {
    every_order(|| {
        let (line, received) = Line::<Command, Counter, &'static str>::new(Counter::default());
        let line = Arc::new(line);
        let worker = {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                // Its listener failed, at some moment.
                line.put(1, "record");
                let mut goes_on = true;
                while goes_on {
                    line.bell.wait();
                    let left = |command| match command {
                        Command::Finish(id, reply) => {
                            if let Some(left) = line.take(id) {
                                reply.send(left).unwrap();
                            }
                            true
                        }
                        _ => false,
                    };
                    goes_on = line.obey(&received, left).unwrap();
                }
                received
            })
        };
        // As `TraceHandle::finish` does it.
        let record = line.take(1).unwrap_or_else(|| {
            let (reply, answer) = channel();
            line.send(Command::Finish(1, reply)).unwrap();
            answer.recv().unwrap()
        });
        assert_eq!(record, "record");
        assert_eq!(line.take(1), None, "once");
        line.send(Command::Stop).unwrap();
        drop(worker.join().unwrap());
    });
}
