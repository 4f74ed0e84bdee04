//! What one message says: who failed, at what, on which object, and why.

use crate::denial::host_errors::Cause;

/// What the program was trying to do, as its message's shape tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Make a name that must not exist yet (mkdir, link, mknod, a lock file).
    Create,
    /// Open for writing, creating when missing.
    OpenWrite,
    /// Shorten.
    Truncate,
    /// Remove a name.
    Remove,
    /// Move a name.
    Rename,
    /// Change mode, owner, times, attributes.
    Metadata,
    /// Read or list.
    Read,
    /// Execute.
    Execute,
    /// A shell's redirection or command word: its message has the same shape for both.
    Shell,
    /// The message does not tell.
    Unknown,
    /// Reach a network peer.
    Connect,
    /// Listen.
    Bind,
    /// Look a name up.
    Resolve,
    /// Reach a Unix socket.
    Socket,
    /// Change mounts.
    Mount,
    /// Make or enter a namespace.
    Namespace,
    /// Trace a process.
    Ptrace,
    /// Gain privilege.
    Privilege,
}

/// The object a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One path as printed.
    Path(String),
    /// Source and destination.
    Two(String, String),
    /// A network peer or name.
    Host {
        /// Name or address.
        host: String,
        /// Port, where the message has it.
        port: Option<u16>,
    },
    /// The object stands in the command line only (a database, a URL).
    InCommand,
    /// None is named.
    Nothing,
}

/// One message that ends in the words of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// What was tried.
    pub verb: Verb,
    /// On what.
    pub subject: Subject,
    /// Why it failed; `None` for messages that have no errno text (a database's own words).
    pub cause: Option<Cause>,
    /// The program the message begins with, without its directory.
    pub program: Option<String>,
    /// The system call or runtime operation the message names.
    pub call: Option<String>,
    /// The message calls itself a warning.
    pub warning: bool,
    /// The name is a random temporary one, chosen by the program beside its real target.
    pub temporary: bool,
    /// Line number in the text, from 0.
    pub line: usize,
    /// The line itself, at most 4096 bytes.
    pub text: String,
}

impl Mention {
    /// A mention with nothing known but its verb, object and reason.
    #[must_use]
    pub fn new(verb: Verb, subject: Subject, cause: Option<Cause>) -> Self {
        Self {
            verb,
            subject,
            cause,
            program: None,
            call: None,
            warning: false,
            temporary: false,
            line: 0,
            text: String::new(),
        }
    }
}
