//! Path rules and where each came from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a path rule says of its path and everything beneath it, until a more specific rule says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathAccess {
    /// Readable and writable.
    Write,
    /// Readable again beneath a masked directory; does not change writing.
    Read,
    /// A private, empty, writable directory stands here in place of the host's (`/tmp`, `/dev/shm`).
    Private,
    /// Not writable; reading is left as it was.
    DenyWrite,
    /// Masked: neither readable nor writable.
    DenyRead,
}

/// Where a rule was written down; later variants override earlier ones at the same path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Origin {
    /// A policy shipped with the crate.
    Default {
        /// Its name: a mode's own, `confined` for what both confining modes share, or an example's.
        policy: String,
        /// Line in the shipped file, from 1.
        line: u32,
    },
    /// A protected path or mount fact found on this host when the policy was resolved.
    Discovered {
        /// What was found, in a few words.
        what: String,
    },
    /// A policy file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u32,
    },
    /// An option on the command line.
    CommandLine {
        /// The option, as `--write`.
        option: String,
    },
    /// A permission approved for one call.
    Grant,
}

/// One path rule, resolved against this host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathRule {
    /// Absolute path with every symbolic link resolved as far as it exists.
    pub path: PathBuf,
    /// The path as written after variables were filled in, when it differs from `path` (it led through a link).
    pub written: Option<PathBuf>,
    /// What the rule says.
    pub access: PathAccess,
    /// A write rule whose path may be missing.
    pub optional: bool,
    /// The path did not exist when the policy was resolved. The rule is kept.
    pub missing: bool,
    /// Where it came from.
    pub origin: Origin,
    /// Why, in the words of whoever wrote it.
    pub reason: Option<String>,
}
