//! The caller's terminal: left as it was found.

use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

use super::exit::say;

/// What a command could change on the descriptors it shares with us: terminal settings and file status flags, which
/// belong to the open file and so outlive the command.
pub(crate) struct Saved {
    flags: [Option<OFlag>; 3],
    termios: [Option<Termios>; 3],
}

impl Saved {
    /// Remembers the settings of standard input, output and error.
    pub(crate) fn take() -> Self {
        with_each(|fd| {
            let flags = fcntl(fd, FcntlArg::F_GETFL).ok().map(OFlag::from_bits_retain);
            let termios = if fd.is_terminal() { tcgetattr(fd).ok() } else { None };
            (flags, termios)
        })
        .into()
    }

    /// Puts back what has changed.
    pub(crate) fn restore(&self) {
        let now = Self::take();
        for (index, fd) in descriptors().iter().enumerate() {
            let fd = fd.as_fd();
            if let (Some(before), true) = (self.flags[index], self.flags[index] != now.flags[index])
                && let Err(errno) = fcntl(fd, FcntlArg::F_SETFL(before))
            {
                say!("stockade: descriptor {index}: its flags could not be restored: {errno}");
            }
            if let (Some(before), true) = (&self.termios[index], self.termios[index] != now.termios[index])
                && let Err(errno) = tcsetattr(fd, SetArg::TCSANOW, before)
            {
                say!("stockade: the terminal's settings could not be restored: {errno}");
            }
        }
    }
}

impl From<[(Option<OFlag>, Option<Termios>); 3]> for Saved {
    fn from(each: [(Option<OFlag>, Option<Termios>); 3]) -> Self {
        let [(f0, t0), (f1, t1), (f2, t2)] = each;
        Self { flags: [f0, f1, f2], termios: [t0, t1, t2] }
    }
}

fn descriptors() -> [Box<dyn AsFd>; 3] {
    [Box::new(std::io::stdin()), Box::new(std::io::stdout()), Box::new(std::io::stderr())]
}

fn with_each<T>(mut look: impl FnMut(BorrowedFd<'_>) -> T) -> [T; 3] {
    descriptors().each_ref().map(|fd| look(fd.as_fd()))
}
