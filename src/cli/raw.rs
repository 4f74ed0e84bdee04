//! The caller's terminal while another one is shown on it.

use std::io;
use std::os::fd::AsFd;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use stockade::sandboxed::TerminalSize;

use super::exit::say;
use super::guard::Guard;

/// A terminal in raw mode. Dropping it puts the settings back, however its owner is left: by return, error or panic; where
/// its owner is killed, the guard does.
pub(crate) struct Raw<T: AsFd = io::Stdin> {
    terminal: T,
    /// `None` when it is no terminal, or its settings are back.
    before: Option<Termios>,
    guard: Option<Guard>,
}

/// Whether the terminal on standard input is ours to read and set: whoever does so from the background is stopped.
pub(crate) fn is_ours() -> bool {
    match nix::unistd::tcgetpgrp(io::stdin()) {
        Ok(foreground) => foreground == nix::unistd::getpgrp(),
        // No terminal, or not the controlling one, which nobody guards.
        Err(_) => true,
    }
}

impl Raw {
    /// Nothing to make raw and nothing to put back.
    pub(crate) fn none() -> Self {
        Self { terminal: io::stdin(), before: None, guard: None }
    }

    /// Makes the terminal on standard input raw, under the eyes of this guard; does nothing when it is none.
    pub(crate) fn enter(guard: Option<Guard>) -> Self {
        Self::of(io::stdin(), guard)
    }
}

impl<T: AsFd> Raw<T> {
    fn of(terminal: T, mut guard: Option<Guard>) -> Self {
        if let Some(guard) = &mut guard {
            guard.await_start();
        }
        let mut raw = Self { before: tcgetattr(&terminal).ok(), terminal, guard };
        raw.apply();
        raw
    }

    /// What undoes the modes that the screen is in now, for whoever gives the terminal back.
    pub(crate) fn remember(&mut self, reset: &[u8]) {
        if let Some(guard) = &mut self.guard {
            guard.remember(reset);
        }
    }

    /// Makes it raw again after somebody else may have changed the settings. What is put back at the end stays the same.
    pub(crate) fn apply(&mut self) {
        let Some(before) = &self.before else { return };
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        if let Err(errno) = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &raw) {
            say!("stockade: the terminal cannot be made raw ({errno}): keys act on stockade itself");
        }
    }

    /// Puts the settings back.
    pub(crate) fn leave(&mut self) {
        if let Some(before) = self.before.take() {
            // Not draining: a person who stopped the output (Ctrl-S) would be waited for.
            if let Err(errno) = tcsetattr(&self.terminal, SetArg::TCSANOW, &before) {
                say!("stockade: the terminal's settings could not be restored ({errno}); `reset` does it");
            }
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

impl<T: AsFd> Drop for Raw<T> {
    fn drop(&mut self) {
        self.leave();
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

#[cfg(test)]
mod tests {
    use nix::pty::openpty;
    use nix::sys::termios::LocalFlags;

    use super::*;

    #[test]
    fn the_settings_are_back_after_a_panic() {
        let pty = openpty(None, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let slave = pty.slave.try_clone().unwrap();
        let panicked = std::thread::spawn(move || {
            let raw = Raw::of(slave, None);
            assert!(!tcgetattr(&raw.terminal).unwrap().local_flags.contains(LocalFlags::ICANON), "it is raw");
            panic!("made to order");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(tcgetattr(&pty.slave).unwrap(), before);
    }
}
