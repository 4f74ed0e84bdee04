//! The host's end of one run.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::io::unix::AsyncFd;

use super::LauncherError;
use super::protocol::{Call, Control, Event};
use super::wire::{self, WireError};
use crate::kernel;

/// The socket between the host and one sandbox. Dropping it ends the sandbox.
#[derive(Debug)]
pub(crate) struct RunChannel {
    run: u64,
    socket: AsyncFd<OwnedFd>,
}

impl RunChannel {
    /// The two ends of a run's socket: ours, and the sandbox's.
    pub(super) fn ends() -> Result<(OwnedFd, OwnedFd), LauncherError> {
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(|errno| LauncherError::Socket(errno.into()))
    }

    /// To be made before the sandbox gets its order: nothing may run that nobody hears.
    pub(super) fn new(run: u64, socket: OwnedFd) -> Result<Self, LauncherError> {
        let nonblocking = fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        nonblocking.map_err(|errno| LauncherError::Socket(errno.into()))?;
        Ok(Self { run, socket: kernel::watch(socket).map_err(LauncherError::Socket)? })
    }

    /// The same, for a run whose number is known only now.
    pub(super) fn numbered(self, run: u64) -> Self {
        Self { run, ..self }
    }

    /// Sends ahead of everything else where the command's process enters its control group.
    pub(super) fn show_cgroup(&self, entrance: Option<BorrowedFd<'_>>) -> Result<(), LauncherError> {
        let Some(entrance) = entrance else { return Ok(()) };
        wire::send(self.socket.get_ref().as_fd(), &Control::Cgroup, &[entrance.as_raw_fd()])
            .map_err(|error| LauncherError::Unreachable(error.to_string()))
    }

    /// Gives a sandbox that waits for it its call, with standard input, output and error.
    pub(super) fn order(&self, call: &Call, stdio: &[i32; 3]) -> Result<(), WireError> {
        wire::send(self.socket.get_ref().as_fd(), call, stdio)
    }

    /// Number of the run, for [`LauncherClient::kill`].
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// The next event, with the descriptors it carries.
    ///
    /// # Errors
    /// [`WireError::Closed`] when the sandbox is gone without having said so.
    pub(crate) async fn next(&self) -> Result<(Event, Vec<OwnedFd>), WireError> {
        loop {
            let mut ready = self.socket.readable().await?;
            match wire::receive::<Event>(self.socket.get_ref()) {
                Err(WireError::NotReady) => ready.clear_ready(),
                received => return received,
            }
        }
    }

    /// Tells the sandbox something; an ended one does not mind.
    pub(crate) fn tell(&self, control: Control) -> Result<(), WireError> {
        match wire::send(self.socket.get_ref().as_fd(), &control, &[]) {
            Err(WireError::Closed) => Ok(()),
            sent => sent,
        }
    }
}
