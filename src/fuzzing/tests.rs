//! Every target over its inputs in `tests/data/fuzz` and some thousand mutations of them, always the same ones: what
//! nobody has seen yet is for `ci/fuzz` to find.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// The inputs of a target, by name so that the mutations are the same everywhere.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 3, "{target} has inputs to begin with");
    inputs
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Splice(Index, Index, Index),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>, all: &[(String, Vec<u8>)]) {
        let at = |index: &Index, bytes: &Vec<u8>| index.index(bytes.len() + 1);
        match self {
            Self::Set(index, byte) if !bytes.is_empty() => *index.get_mut(bytes) = *byte,
            Self::Flip(index, bit) if !bytes.is_empty() => *index.get_mut(bytes) ^= 1 << (bit & 7),
            Self::Set(..) | Self::Flip(..) => {}
            Self::Insert(index, more) => {
                let at = at(index, bytes);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(index, length) => {
                let at = at(index, bytes);
                bytes.drain(at..at.saturating_add(*length).min(bytes.len()));
            }
            Self::Repeat(index, length, times) => {
                let at = at(index, bytes);
                let piece = bytes[at..at.saturating_add(*length).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, piece);
            }
            Self::Splice(index, other, from) => {
                let other = &other.get(all).1;
                let at = at(index, bytes);
                bytes.truncate(at);
                bytes.extend(&other[from.index(other.len() + 1)..]);
            }
        }
    }
}

fn an_edit() -> impl Strategy<Value = Edit> {
    let telling =
        prop::sample::select(vec![0_u8, 1, b'\n', b'"', b'\'', b'\\', b'/', b':', b'[', b'=', 0x1b, 0x80, 0xff]);
    let byte = prop_oneof![telling, any::<u8>()];
    let bytes = prop::collection::vec(byte.clone(), 1..12);
    prop_oneof![
        (any::<Index>(), byte).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (any::<Index>(), bytes).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), 1_usize..64).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<Index>(), 1_usize..64, 1_usize..200).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

/// Runs a target over its inputs, and over so many mutations.
fn run(name: &str, mutations: usize) {
    let (_, target) = TARGETS.into_iter().find(|(known, _)| *known == name).unwrap();
    let all = inputs(name);
    // A failure inside says nothing of the input; the name of the one at work is printed when the test fails.
    for (input, bytes) in &all {
        eprintln!("{name}/{input}");
        target(bytes);
    }
    target(b"");
    let edits = (any::<Index>(), prop::collection::vec(an_edit(), 1..6));
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        prop::test_runner::TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha),
    );
    for _ in 0..mutations {
        let (first, edits) = edits.new_tree(&mut runner).unwrap().current();
        let mut bytes = first.get(&all).1.clone();
        edits.iter().for_each(|edit| edit.apply(&mut bytes, &all));
        let shown = bytes.escape_ascii().to_string();
        let survived = std::panic::catch_unwind(|| target(&bytes)).is_ok();
        assert!(survived, "{name} fails on this input; keep it in tests/data/fuzz/{name}: {shown}");
    }
}

#[test]
fn audit_records() {
    run("audit", 4000);
}

#[test]
fn journals() {
    run("journal", 1000);
}

#[test]
fn launcher_messages() {
    run("launcher", 4000);
}

#[test]
fn mcp_requests() {
    run("mcp", 400);
}

#[test]
fn command_output() {
    run("output", 3000);
}

#[test]
fn policy_files() {
    run("policy", 400);
}

#[test]
fn proxy_requests() {
    run("proxy", 600);
}

#[test]
fn standard_error() {
    run("stderr", 2000);
}

#[test]
fn traced_calls() {
    run("trace", 3000);
}
