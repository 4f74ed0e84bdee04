//! Everything that can be wrong with a policy, each with its place and its remedy.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::UnknownMode;

/// A position in a policy file. Line and column count from 1; the column counts characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file, or `shipped policy NAME`.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why no policy could be made. Nothing runs under a policy that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{}: the policy file cannot be read: {source}; give a readable file or one of: {shipped}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Names of the shipped policies.
        shipped: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// A name that is no shipped policy, and no such file.
    #[error("no policy '{given}': did you mean '{nearest}'? (shipped: {shipped}; a file is named by a path)")]
    NoSuchPolicy {
        /// What was given.
        given: String,
        /// The nearest shipped name.
        nearest: String,
        /// Names of the shipped policies.
        shipped: String,
    },
    /// The file is larger than a policy can be.
    #[error("{place}: the policy file is larger than {limit} bytes; split it or list directories instead of files")]
    TooLarge {
        /// The place where the limit is passed (always line 1: the file is not parsed).
        place: Place,
        /// The limit, bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("{place}: the policy file is not UTF-8; save it as UTF-8 text")]
    NotUtf8 {
        /// The first byte that is not.
        place: Place,
    },
    /// A key that means nothing here.
    #[error("{place}: {message}; correct the spelling or remove the key")]
    UnknownKey {
        /// Where.
        place: Place,
        /// The parser's words, which list the keys known here.
        message: String,
    },
    /// Not TOML, a value of the wrong type, a key missing or given twice.
    #[error("{place}: {message}; CONTRACT section 4 shows the format")]
    Format {
        /// Where.
        place: Place,
        /// The parser's words.
        message: String,
    },
    /// No such mode.
    #[error("{place}: {source}")]
    Mode {
        /// Where.
        place: Place,
        /// Which.
        #[source]
        source: UnknownMode,
    },
    /// A value that has the right type and makes no sense.
    #[error("{place}: {problem}; {remedy}")]
    Value {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A path that is not absolute once its variables are filled in.
    #[error(
        "{place}: '{path}' is a relative path; begin it with '/', '~/', '${{WORKSPACE}}', '${{HOME}}' or '${{TMP}}'"
    )]
    RelativePath {
        /// Where.
        place: Place,
        /// The path.
        path: String,
    },
    /// `${NAME}` with a name that is none of the three.
    #[error("{place}: unknown variable '{name}'; the variables are ${{WORKSPACE}}, ${{HOME}} and ${{TMP}}")]
    UnknownVariable {
        /// Where.
        place: Place,
        /// The variable as written.
        name: String,
    },
    /// Two entries of one layer say opposite things of one path.
    #[error("{place}: {entry} contradicts {other} for {}; keep one of them", path.display())]
    Contradiction {
        /// Where the second stands.
        place: Origination,
        /// The second, as `deny_write '...'`.
        entry: String,
        /// The first, with its place.
        other: String,
        /// The path both mean.
        path: PathBuf,
    },
    /// A write entry whose path does not exist.
    #[error(
        "{place}: {} cannot be made writable: {reason}; create it or correct it (in a policy file an entry may be optional)",
        path.display()
    )]
    MissingWrite {
        /// Where it is written.
        place: Origination,
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// An entry that opens something leads through a symbolic link which a sandboxed command could have planted.
    #[error(
        "{place}: {} leads through the symbolic link {} to {}, and a command may change that link; name {2} itself",
        written.display(), link.display(), target.display()
    )]
    PlantableLink {
        /// Where it is written.
        place: Origination,
        /// The path as written.
        written: PathBuf,
        /// The link.
        link: PathBuf,
        /// What it leads to.
        target: PathBuf,
    },
    /// A grant that reaches a protected or masked path without naming it.
    #[error(
        "the grant for {} leads to {}, which the policy refuses ({rule}); ask for {1} by that name",
        written.display(), target.display()
    )]
    GrantHidesTarget {
        /// What was asked for.
        written: PathBuf,
        /// What it leads to.
        target: PathBuf,
        /// The rule that refuses.
        rule: String,
    },
    /// The workspace cannot serve.
    #[error("workspace {} cannot be used: {reason}", path.display())]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// Why, with the remedy.
        reason: String,
    },
    /// A path given by option or grant that is not usable text.
    #[error("{place}: path {path:?} cannot be used: {reason}")]
    BadPath {
        /// Where it was given.
        place: Origination,
        /// The path.
        path: PathBuf,
        /// Why, with the remedy.
        reason: String,
    },
    /// Options that exclude each other.
    #[error("{problem}; {remedy}")]
    Conflict {
        /// What collides.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

/// Where an entry was written, for messages: a place in a file, an option, or a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origination {
    /// In a file.
    File(Place),
    /// On the command line, with the option's name.
    Option(String),
    /// In a grant for one call.
    Grant,
    /// Found on this host.
    Discovered,
}

impl fmt::Display for Origination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => place.fmt(f),
            Self::Option(option) => f.write_str(option),
            Self::Grant => f.write_str("additional permission"),
            Self::Discovered => f.write_str("found on this host"),
        }
    }
}
