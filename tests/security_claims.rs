//! SECURITY.md: every claim names a test, and what is named exists.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of the functions that a test attribute stands before.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for directory in ["src", "tests"] {
        sources(&root().join(directory), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" || line.starts_with("#[tokio::test") {
                marked = true;
            } else if line.starts_with("#[ignore") {
                marked = false;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| marked) {
                names.insert(rest.split(['(', '<']).next().unwrap().to_owned());
                marked = false;
            }
        }
    }
    names
}

/// The rows of the table below a heading, without its head.
fn rows(text: &str, heading: &str) -> Vec<String> {
    let part = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no part '{heading}'"));
    let part = part.split("\n## ").next().unwrap();
    part.lines().filter(|line| line.starts_with('|')).skip(2).map(str::to_owned).collect()
}

/// What stands between back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What stands in the tables of attacks.
fn attacks() -> String {
    let mut files = Vec::new();
    sources(&root().join("tests/attacks"), &mut files);
    files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_claim_names_a_test_that_is_there() {
    every_row_of("Claims and their tests", 15);
}

#[test]
fn every_kind_of_break_has_an_answer_with_a_test() {
    every_row_of("What has broken others", 30);
}

/// Each row of that table, of which there are more than `least`, names tests or attacks that are there.
fn every_row_of(heading: &str, least: usize) {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (tests, attacks) = (tests(), attacks());
    let claims = rows(&text, heading);
    assert!(claims.len() > least, "{claims:?}");
    for claim in &claims {
        let evidence = claim.trim_end_matches('|').rsplit(" | ").next().unwrap();
        let mut named = 0;
        for word in quoted(evidence) {
            if let Some(test) = word.strip_prefix("test:") {
                assert!(tests.contains(test), "there is no test {test}: {claim}");
                named += 1;
            } else if let Some(attack) = word.strip_prefix("attack:") {
                assert!(attacks.contains(attack), "no attack is called {attack}: {claim}");
                named += 1;
            } else if word.contains('/') {
                let path = root().join(word);
                assert!(path.exists(), "there is no {word}: {claim}");
                named += usize::from(path.is_dir() || fs::read_to_string(&path).unwrap().contains("#[test]"));
            }
        }
        assert!(named > 0, "no test is named: {claim}");
    }
}

/// Every gap that a result can name is in the table of limits.
#[test]
fn every_gap_has_its_line() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let limits = rows(&text, "Known limits").join("\n");
    for gap in [
        "metadata",
        "protected-paths",
        "deny-read",
        "network-udp",
        "network-isolation",
        "unix-sockets",
        "process-isolation",
        "truncate",
        "ioctl",
        "limits",
    ] {
        assert!(limits.contains(&format!("`{gap}`")), "{gap} is in no line of the known limits");
    }
}
