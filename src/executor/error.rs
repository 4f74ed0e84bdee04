//! Infrastructure failures: the command did not run, or could not be followed to its end.

use std::path::PathBuf;

/// Why an executor could not run a command.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// Nothing to run.
    #[error("the command is empty: give a command to run")]
    EmptyCommand,
    /// A NUL byte cannot be passed to a program.
    #[error("{what} contains a NUL byte, which no program can receive: remove it")]
    NulByte {
        /// Which part.
        what: String,
    },
    /// One argument is longer than the kernel passes to a program.
    #[error("{what} has {bytes} bytes, and the kernel passes {limit} at most: put it in a file, or on standard input")]
    TooLong {
        /// Which part.
        what: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The workdir cannot be used.
    #[error("workdir {path} cannot be used: {source}; give an existing directory that you may enter")]
    Workdir {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The workspace cannot be used.
    #[error("workspace {path} cannot be used: {reason}")]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// Why, with the remedy.
        reason: String,
    },
    /// There is no bash to run the command with.
    #[error("no bash was found in {searched}: install bash or put it on PATH")]
    NoShell {
        /// Where it was looked for.
        searched: String,
    },
    /// The program does not exist (exit status 127 on the command line).
    #[error(
        "{program}: not found: there is no such program {}, or the interpreter that it names is missing",
        if program.contains('/') { "at this path" } else { "on the command's PATH" }
    )]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// The program exists and cannot be executed (exit status 126 on the command line).
    #[error("{program}: cannot be executed: {source}")]
    NotExecutable {
        /// What was asked for.
        program: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The request was cancelled before it began.
    #[error("cancelled before the command started")]
    AlreadyCancelled,
    /// A managed variable outside the managed channel, or an unmanaged one in it.
    #[error("environment variable {name}: {reason}")]
    Environment {
        /// The variable.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// No sandbox can be built. Nothing ran.
    #[error("sandbox unavailable: {reason}")]
    SandboxUnavailable {
        /// Why, with the remedy.
        reason: String,
    },
    /// The policy cannot be applied to this call.
    #[error("policy: {reason}")]
    Policy {
        /// What is wrong, with the remedy.
        reason: String,
    },
    /// A step of building the sandbox failed. The command did not run.
    #[error(transparent)]
    Setup(#[from] crate::launcher::SetupFailure),
    /// The sandbox or its launcher died under the command.
    #[error("the sandbox was lost while the command ran: {reason}")]
    SandboxLost {
        /// What was seen.
        reason: String,
    },
    /// An operating-system call of the executor itself failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The executor was disposed of.
    #[error("the executor has been shut down")]
    Disposed,
}

impl ExecError {
    /// An [`ExecError::Io`] with its circumstances.
    pub fn io(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { doing: doing.into(), source: source.into() }
    }
}
