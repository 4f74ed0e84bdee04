//! The policies that come with the crate.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};

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

/// The policies that every run begins with, read already: reading their text takes as long as all the rest of a
/// decision. A test compares them with the text and writes the file anew when `STOCKADE_WRITE_DOCS` is set.
const READ: &[u8] = include_bytes!("shipped.bin");

/// What [`READ`] holds.
#[derive(Serialize, Deserialize)]
struct Read {
    /// Where the policy of each mode begins, in the order of [`SandboxMode::ALL`].
    modes: Vec<PolicyFile>,
    /// What the confining modes share.
    confined: PolicyFile,
}

/// Each parsed when it is asked for.
static PARSED: [OnceLock<Result<PolicyFile, PolicyError>>; TEXTS.len()] = [const { OnceLock::new() }; TEXTS.len()];

static BASE: LazyLock<Result<Read, PolicyError>> = LazyLock::new(|| match postcard::from_bytes::<Read>(READ) {
    Ok(mut read) => {
        read.confined.shipped = Some("confined");
        for (file, mode) in read.modes.iter_mut().zip(SandboxMode::ALL) {
            file.shipped = Some(mode.as_str());
        }
        Ok(read)
    }
    // A build of a changed tree: the texts hold.
    Err(_) => parse_base(),
});

fn parse_base() -> Result<Read, PolicyError> {
    let modes = SandboxMode::ALL.iter().filter_map(|mode| TEXTS.iter().find(|(name, _)| *name == mode.as_str()));
    Ok(Read {
        modes: modes.map(|(name, text)| parse(name, text)).collect::<Result<_, _>>()?,
        confined: parse("confined", CONFINED)?,
    })
}

fn parse(name: &'static str, text: &str) -> Result<PolicyFile, PolicyError> {
    PolicyFile::parse(Path::new(&format!("shipped policy {name}")), Some(name), text)
}

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
    Some(PARSED[at].get_or_init(|| parse(name, text)).as_ref())
}

/// The layers beneath everything else in a mode, lowest first.
pub(super) fn base(mode: SandboxMode) -> Result<Vec<&'static PolicyFile>, &'static PolicyError> {
    let base = BASE.as_ref()?;
    let own = base.modes.iter().filter(|file| file.mode == Some(mode));
    Ok(mode.confines().then_some(&base.confined).into_iter().chain(own).collect())
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
    fn what_was_read_is_what_the_texts_say() {
        let now = postcard::to_stdvec(&parse_base().unwrap()).unwrap();
        if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/policy/shipped.bin"), &now).unwrap();
        } else {
            assert!(
                now == READ,
                "policies/ changed: STOCKADE_WRITE_DOCS=1 cargo test --lib what_was_read, and build again"
            );
        }
        for mode in SandboxMode::ALL {
            let own = base(mode).unwrap();
            assert_eq!(own.len(), 1 + usize::from(mode.confines()), "{mode}");
            assert_eq!(own.last().unwrap().shipped, Some(mode.as_str()));
            assert_eq!(own[own.len() - 1], named(mode.as_str()).unwrap().unwrap());
        }
    }

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
        let secrets = &BASE.as_ref().unwrap().confined;
        assert!(secrets.rules.len() > 30 && secrets.rules.iter().all(|rule| rule.reason.is_some()));
    }
}
