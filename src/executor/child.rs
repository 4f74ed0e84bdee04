//! What the run loop needs of whatever runs the command.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{BoxFuture, ExecError};

/// A started command, as the run loop sees it.
pub(crate) trait Child: Send + Sync + 'static {
    /// Asks the command's process group to end (SIGTERM).
    fn terminate(&self);

    /// Ends everything the command started (SIGKILL). Harmless when nothing is left.
    fn kill(&self);

    /// Resolves when the command itself has ended; it may be dropped and called again before that.
    fn wait(&self) -> BoxFuture<'_, Result<ExitReport, ExecError>>;

    /// Whether anything the command started still runs after it ended. Asked only after [`Self::wait`]. A backend that
    /// takes everything down with the command answers `false`.
    fn survivors(&self) -> bool {
        false
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExitReport {
    /// Exit code; `None` when a signal ended it.
    pub(crate) exit_code: Option<i32>,
    /// Number of the ending signal.
    pub(crate) signal: Option<i32>,
    /// What it used, where the backend can tell.
    pub(crate) resources: Option<ResourceUse>,
}

/// What a command and all it waited for used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResourceUse {
    /// Processor time in user mode.
    pub(crate) user: Duration,
    /// Processor time in the kernel.
    pub(crate) system: Duration,
    /// Largest resident set of one process, bytes.
    pub(crate) max_resident: u64,
}

/// The name of a signal (`SIGKILL`); real-time signals count from the C library's `SIGRTMIN`.
pub(crate) fn signal_name(number: i32) -> String {
    // SIGRTMIN is 34 in glibc and 35 in musl, which keep the first ones for themselves.
    let first = if cfg!(target_env = "musl") { 35 } else { 34 };
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if (first..=64).contains(&number) => format!("SIGRTMIN+{}", number - first),
        Err(_) => format!("SIG{number}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn signals_have_their_names() {
        let names: Vec<_> = [1, 9, 11, 15, 36, 33].map(super::signal_name).into();
        assert_eq!(names, ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGRTMIN+2", "SIG33"]);
    }
}
