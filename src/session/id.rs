//! Session ids: names that are safe as file names.

#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SessionError;

/// The name of a session: 1 to 64 of `A-Z a-z 0-9 - _ .`, not beginning with a dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// A new id that no other process will come up with: 128 bits from the standard library's per-process random keys.
    #[must_use]
    pub fn generate() -> Self {
        let word = || RandomState::new().build_hasher().finish();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut mixed = RandomState::new().build_hasher();
        mixed.write_u128(now.as_nanos());
        mixed.write_u32(std::process::id());
        Self(format!("s-{:016x}{:016x}", word(), mixed.finish()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = SessionError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if given.is_empty() || given.len() > 64 || given.starts_with('.') || !given.chars().all(plain) {
            return Err(SessionError::Id { given: given.chars().take(80).collect() });
        }
        Ok(Self(given.to_owned()))
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_file_names_are_ids() {
        for good in ["a", "s-1", "A_b.c", &"x".repeat(64)] {
            assert_eq!(good.parse::<SessionId>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "é", "a\0b", &"x".repeat(65)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn generated_ids_are_valid_and_differ() {
        let (a, b) = (SessionId::generate(), SessionId::generate());
        assert_ne!(a, b);
        assert!(a.as_str().parse::<SessionId>().is_ok());
    }
}
