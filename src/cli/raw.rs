//! The caller's terminal while another one is shown on it.

use std::io::{self, IsTerminal};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use stockade::sandboxed::TerminalSize;

/// The terminal on standard input in raw mode. Dropping it puts the settings back, however its owner is left.
pub(crate) struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Makes the terminal raw; does nothing when standard input is none.
    pub(crate) fn enter() -> Self {
        let before = if io::stdin().is_terminal() { tcgetattr(io::stdin()).ok() } else { None };
        if let Some(before) = &before {
            set_raw(before);
        }
        Self { before }
    }

    /// After somebody else may have changed the settings: raw again, and back to the same settings at the end.
    pub(crate) fn enter_again(raw: &mut Self) -> Self {
        let before = raw.before.take();
        if let Some(before) = &before {
            set_raw(before);
        }
        Self { before }
    }

    /// Puts the settings back.
    pub(crate) fn leave(&mut self) {
        if let Some(before) = self.before.take() {
            if let Err(errno) = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &before) {
                eprintln!("stockade: the terminal's settings could not be restored ({errno}); `reset` does it");
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.leave();
    }
}

fn set_raw(before: &Termios) {
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    if let Err(errno) = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw) {
        eprintln!("stockade: the terminal cannot be made raw ({errno}): keys act on stockade itself");
    }
}

/// Size of the caller's terminal, by the first of its descriptors that is one.
pub(crate) fn size() -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(io::stdin())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stdout()))
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()))
        .ok()?;
    // A terminal that does not know its size says 0.
    (size.ws_col > 0 && size.ws_row > 0).then_some(TerminalSize { columns: size.ws_col, rows: size.ws_row })
}
