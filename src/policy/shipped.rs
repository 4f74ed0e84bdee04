//! The policies that come with the crate.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use super::error::PolicyError;
use super::mode::edit_distance;
use super::{PolicyFile, SandboxMode};

const TEXTS: [(&str, &str); 9] = [
    ("read-only", include_str!("../../policies/read-only.toml")),
    ("workspace-write", include_str!("../../policies/workspace-write.toml")),
    ("danger-full-access", include_str!("../../policies/danger-full-access.toml")),
    ("rust", include_str!("../../policies/rust.toml")),
    ("node", include_str!("../../policies/node.toml")),
    ("python", include_str!("../../policies/python.toml")),
    ("go", include_str!("../../policies/go.toml")),
    ("ci", include_str!("../../policies/ci.toml")),
    ("untrusted-tests", include_str!("../../policies/untrusted-tests.toml")),
];

/// What both confining modes share: masked secrets, private directories, protected names, limits.
const CONFINED: &str = include_str!("../../policies/confined.toml");

/// Each parsed when it is asked for.
static PARSED: [OnceLock<Result<PolicyFile, PolicyError>>; TEXTS.len()] = [const { OnceLock::new() }; TEXTS.len()];

static COMMON: LazyLock<Result<PolicyFile, PolicyError>> =
    LazyLock::new(|| PolicyFile::parse(Path::new("shipped policy confined"), Some("confined"), CONFINED));

/// Names of the shipped policies, for `--policy NAME`.
#[must_use]
pub fn names() -> Vec<&'static str> {
    TEXTS.iter().map(|(name, _)| *name).collect()
}

/// The shipped policy of that name; `None` when there is none.
///
/// # Errors
/// Never in a build whose tests pass: the shipped texts are parsed by one of them.
pub fn named(name: &str) -> Option<Result<&'static PolicyFile, &'static PolicyError>> {
    let at = TEXTS.iter().position(|(known, _)| *known == name)?;
    let (name, text) = TEXTS[at];
    let parse = || PolicyFile::parse(Path::new(&format!("shipped policy {name}")), Some(name), text);
    Some(PARSED[at].get_or_init(parse).as_ref())
}

/// The layers beneath everything else in a mode, lowest first.
pub(super) fn base(mode: SandboxMode) -> Result<Vec<&'static PolicyFile>, &'static PolicyError> {
    let mut layers = Vec::new();
    if mode.confines() {
        layers.push(COMMON.as_ref()?);
    }
    if let Some(own) = named(mode.as_str()) {
        layers.push(own?);
    }
    Ok(layers)
}

/// True when the policy of that name is the one every run of its mode begins with.
pub(super) fn is_base(name: &str) -> bool {
    SandboxMode::ALL.iter().any(|mode| mode.as_str() == name)
}

/// The error for a name that is none, with the nearest that is one.
pub(super) fn no_such(given: &str) -> PolicyError {
    let nearest = TEXTS.iter().map(|(name, _)| *name).min_by_key(|name| edit_distance(given, name)).unwrap_or_default();
    PolicyError::NoSuchPolicy { given: given.to_owned(), nearest: nearest.to_owned(), shipped: names().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_policy_parses() {
        for name in names() {
            let file = named(name).unwrap().unwrap();
            assert_eq!(file.shipped, Some(name));
            for rule in &file.rules {
                assert!(
                    rule.reason.as_ref().is_some_and(|reason| !reason.is_empty()),
                    "{name}: {} has no reason",
                    rule.text
                );
            }
        }
        let secrets = COMMON.as_ref().unwrap();
        assert!(secrets.rules.len() > 30 && secrets.rules.iter().all(|rule| rule.reason.is_some()));
    }
}
