//! Moves a pipe into a [`Capture`].

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{FcntlArg, fcntl};
use tokio::net::unix::pipe::Receiver;

use super::capture::Capture;

/// Bytes taken in one read.
const CHUNK: usize = 256 * 1024;

thread_local! {
    /// What a read goes into, on its way to the capture: one buffer a thread, since most pipes of a host that has many
    /// commands in the background are silent.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// A pipe's size unless changed: a read that brings this much found the pipe full.
const DEFAULT_PIPE: usize = 64 * 1024;

/// What a pipe that was found full is grown to: the most an ordinary user may ask for (`fs.pipe-max-size`).
const LARGE_PIPE: i32 = 1024 * 1024;

/// Reads before the task lets others run.
const TURN: u32 = 16;

/// The read end of a pipe, for use with [`pump`]. Call it within a runtime.
pub(crate) fn readable_end(fd: OwnedFd) -> io::Result<Receiver> {
    Receiver::from_owned_fd(fd)
}

/// Reads until end of file. Dropping the future between reads loses nothing that was read.
pub(crate) async fn pump(pipe: &Receiver, capture: &Mutex<Capture>) -> io::Result<()> {
    let mut grown = false;
    let mut reads = 0;
    loop {
        match read_once(pipe, capture) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                if !grown && read >= DEFAULT_PIPE {
                    grown = true;
                    grow(pipe);
                }
                reads += 1;
                if reads % TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pipe.readable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One read, and how much it brought.
fn read_once(pipe: &Receiver, capture: &Mutex<Capture>) -> io::Result<usize> {
    BUFFER.with_borrow_mut(|buffer| {
        let read = pipe.try_read(buffer)?;
        capture.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..read]);
        Ok(read)
    })
}

/// Gives a busy stream a larger pipe. Only busy ones: an ordinary user's pipes share `fs.pipe-user-pages-soft` (64 MiB),
/// and beyond it the kernel gives every new pipe of that user two pages.
fn grow(pipe: &Receiver) {
    if let Err(errno) = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(LARGE_PIPE)) {
        tracing::debug!(%errno, "the output pipe keeps its size");
    }
}
