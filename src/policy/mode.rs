//! The three modes and the order among them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a command may do, from narrowest to widest.
///
/// The order is the order of width: `ReadOnly < WorkspaceWrite < DangerFullAccess`, so "strictly wider" is `>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Read the host (secrets excepted), change nothing on it; private `/tmp`; no network but its own loopback.
    ReadOnly,
    /// As [`ReadOnly`](Self::ReadOnly), and write under the workspace, protected paths excepted.
    WorkspaceWrite,
    /// No confinement at all. Nothing is promised.
    DangerFullAccess,
}

impl SandboxMode {
    /// Every mode, narrowest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess];

    /// The name used on the command line, in policy files and in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }

    /// True when the mode confines anything.
    #[must_use]
    pub const fn confines(self) -> bool {
        !matches!(self, Self::DangerFullAccess)
    }

    /// The modes strictly wider than this one, narrowest first.
    pub fn wider(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |mode| *mode > self)
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A mode name that is none of the three.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode '{given}': did you mean '{nearest}'? (modes: read-only, workspace-write, danger-full-access)")]
pub struct UnknownMode {
    /// What was given.
    pub given: String,
    /// The mode whose name holds what was typed, else the nearest by edit distance.
    pub nearest: SandboxMode,
}

impl FromStr for SandboxMode {
    type Err = UnknownMode;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        if let Some(mode) = Self::ALL.into_iter().find(|mode| mode.as_str() == given) {
            return Ok(mode);
        }
        // A name that holds what was typed is nearer than one that takes fewer changes to become it.
        let meant = given.to_lowercase().replace('_', "-");
        let distance =
            |mode: &Self| (!mode.as_str().contains(&meant) || meant.is_empty(), edit_distance(&meant, mode.as_str()));
        let nearest = Self::ALL.into_iter().min_by_key(distance).unwrap_or(Self::ReadOnly);
        Err(UnknownMode { given: given.to_owned(), nearest })
    }
}

/// Levenshtein distance over characters, with the given side bounded so that a huge argument costs nothing.
pub(super) fn edit_distance(given: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (i, a) in given.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in known.iter().enumerate() {
            let substitute = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mode in SandboxMode::ALL {
            assert_eq!(mode.as_str().parse::<SandboxMode>().unwrap(), mode);
        }
    }

    #[test]
    fn misspelling_names_the_nearest() {
        for (given, nearest) in [
            ("workspace_write", SandboxMode::WorkspaceWrite),
            ("readonly", SandboxMode::ReadOnly),
            ("full-access", SandboxMode::DangerFullAccess),
            ("danger", SandboxMode::DangerFullAccess),
            ("write", SandboxMode::WorkspaceWrite),
        ] {
            assert_eq!(given.parse::<SandboxMode>().unwrap_err().nearest, nearest, "{given}");
        }
    }

    #[test]
    fn width_is_ordered() {
        assert!(SandboxMode::ReadOnly < SandboxMode::WorkspaceWrite);
        assert_eq!(SandboxMode::ReadOnly.wider().count(), 2);
        assert_eq!(SandboxMode::DangerFullAccess.wider().count(), 0);
    }
}
