//! Failures of the command line itself, and their exit statuses.

use std::fmt::Arguments;
use std::io::Write;
use std::process::ExitCode;

use stockade::executor::ExecError;

/// Says a line on standard error, as `eprintln!` does; where nothing can be written there (a full disk, a reader that has
/// gone), it goes unsaid, and that is no reason to panic.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::exit::say_line(format_args!($($text)*)) };
}
pub(crate) use say;

/// What [`say!`] does.
pub(crate) fn say_line(text: Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stderr(), "{text}") {
        tracing::debug!(%error, "standard error cannot be written");
    }
}

/// stockade itself could not run the command.
pub(crate) const CANNOT_RUN: u8 = 125;
/// The program exists and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The program does not exist.
const NOT_FOUND: u8 = 127;
/// Bad usage.
const USAGE: u8 = 2;

/// Why nothing came of it.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// The arguments make no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: USAGE, message: message.into() }
    }

    /// The status alone, where there is nothing to complain of.
    pub(crate) fn status_of_usage() -> ExitCode {
        ExitCode::from(USAGE)
    }

    /// The arguments make sense and stockade cannot do it.
    pub(crate) fn cannot(message: impl Into<String>) -> Self {
        Self { status: CANNOT_RUN, message: message.into() }
    }

    /// With `--json`, 125 and 2 are the only failures: the other statuses belong to commands run in the open.
    pub(crate) fn without_program_statuses(self) -> Self {
        if matches!(self.status, NOT_EXECUTABLE | NOT_FOUND) { Self { status: CANNOT_RUN, ..self } } else { self }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Says it on standard error and gives the status.
    pub(crate) fn report(self) -> ExitCode {
        say!("stockade: {}", self.message);
        ExitCode::from(self.status)
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        let status = match &error {
            ExecError::NotFound { .. } => NOT_FOUND,
            ExecError::NotExecutable { .. } => NOT_EXECUTABLE,
            ExecError::EmptyCommand | ExecError::NulByte { .. } | ExecError::Environment { .. } => USAGE,
            _ => CANNOT_RUN,
        };
        let hint = match &error {
            ExecError::NotFound { program } if program.contains(char::is_whitespace) => {
                "; a command line for a shell goes with -c"
            }
            _ => "",
        };
        Self { status, message: format!("{error}{hint}") }
    }
}
