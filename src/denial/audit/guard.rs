//! Undoing a change of the host whatever becomes of this process: a child that waits for its end.
//!
//! A destructor runs after a panic and after an orderly end, not after SIGKILL, nor after a SIGTERM that nobody handles.
//! The child holds one end of a pipe; when the other closes without a word, it does what would have been left undone.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, pipe2, read, setsid, write};

use crate::kernel::{self, Cloned};

/// The child, as its parent knows it.
#[derive(Debug)]
pub(super) struct Guard {
    pipe: OwnedFd,
    pid: Pid,
}

impl Guard {
    /// Starts the child, which calls `undo` when this process has ended without calling [`dismiss`](Self::dismiss).
    ///
    /// This process may have many threads, so the child must not touch the heap: `undo` is a plain function that makes
    /// system calls.
    ///
    /// # Errors
    /// When there is no pipe or no process to be had.
    pub(super) fn start(undo: fn()) -> io::Result<Self> {
        let (theirs, ours) = pipe2(OFlag::O_CLOEXEC)?;
        match kernel::clone_process(CloneFlags::empty(), false)? {
            Cloned::Parent { pid, .. } => Ok(Self { pipe: ours, pid }),
            Cloned::Child => {
                if stand_aside(&theirs).is_ok() && closed_without_a_word(&theirs) {
                    undo();
                }
                kernel::exit_now(0)
            }
        }
    }

    /// Tells the child that nothing is left to undo, and waits for its end.
    pub(super) fn dismiss(self) -> io::Result<()> {
        write(&self.pipe, b"x")?;
        waitpid(self.pid, None)?;
        Ok(())
    }
}

/// Out of reach of what ends the parent's group, and holding nothing of the parent's open but the pipe.
fn stand_aside(pipe: &OwnedFd) -> Result<(), Errno> {
    SigSet::all().thread_block()?;
    prctl::set_dumpable(false)?;
    setsid()?;
    dup2_stdin(pipe)?;
    dup2_stdout(pipe)?;
    dup2_stderr(pipe)?;
    kernel::close_all_but(pipe)
}

fn closed_without_a_word(pipe: &OwnedFd) -> bool {
    let mut word = [0_u8; 1];
    loop {
        match read(pipe, &mut word) {
            Err(Errno::EINTR) => {}
            got => return got == Ok(0),
        }
    }
}
