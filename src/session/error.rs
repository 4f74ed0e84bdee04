//! What can go wrong with a session's log.

use std::path::PathBuf;

/// Why a session could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The id cannot name a file.
    #[error("session id {given:?} is unusable: give 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'")]
    Id {
        /// What was given.
        given: String,
    },
    /// The working directory cannot be the workspace.
    #[error("session directory {path} cannot be used: {source}; give an existing directory that you may enter")]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The directory in the log now leads somewhere else.
    #[error("session directory {logged} now resolves to {found}: it was replaced since; start a new session there")]
    CwdMoved {
        /// The workspace the log names.
        logged: PathBuf,
        /// What it, or the directory asked for, resolves to now.
        found: PathBuf,
    },
    /// There is such a session already.
    #[error("session {id} already exists: resume it, or choose another id")]
    Exists {
        /// The id.
        id: String,
    },
    /// There is no such session.
    #[error("there is no session {id} in {dir}")]
    NotFound {
        /// The id.
        id: String,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// Somebody else has it open.
    #[error("session log {path} is open elsewhere: a session has one writer; close the other")]
    Busy {
        /// The log.
        path: PathBuf,
    },
    /// Others could read or change the log.
    #[error("{path} is {problem}: session logs must belong to you alone; use a directory of mode 0700")]
    Exposed {
        /// The log or its directory.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A line that is not the torn last one cannot be read. The session is not opened, because a lost line might be the
    /// one that narrowed its mode.
    #[error("session log {path}, line {line}: {reason}; restore the log or start a new session")]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An earlier write failed half-way and could not be undone.
    #[error("session log {path} could not be restored after a failed write: resume the session to recover it")]
    Broken {
        /// The log.
        path: PathBuf,
    },
    /// An operating-system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl SessionError {
    pub(super) fn io(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { doing: doing.into(), source: source.into() }
    }
}
