//! docs/seccomp.md: every call that the shipped filters refuse, why, and the attacks that show it. Generated from
//! policies/seccomp.toml and the table below; a call without a row here, a row that is no attack any more, or an attack whose
//! probe does not make the call fails.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[allow(dead_code, reason = "only the attacks are used")]
#[path = "attacks/files.rs"]
mod files;
#[allow(dead_code, reason = "only the attacks are used")]
#[path = "attacks/network.rs"]
mod network;
#[allow(dead_code, reason = "only the attacks are used")]
#[path = "attacks/processes.rs"]
mod processes;
#[path = "seccomp_page/shown.rs"]
mod shown;
#[allow(dead_code, reason = "only the attacks are used")]
#[path = "attacks/system.rs"]
mod system;
#[allow(dead_code, reason = "only the attacks are used")]
#[path = "attacks/table.rs"]
mod table;

use shown::{SHOWN, Shown};

#[derive(Deserialize)]
struct Shipped {
    refuse: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    set: String,
    calls: Vec<String>,
    #[serde(default)]
    when: Vec<Condition>,
    #[serde(default = "eperm")]
    errno: String,
    kind: String,
    reason: String,
}

#[derive(Deserialize)]
struct Condition {
    arg: u8,
    op: String,
    value: u32,
    #[serde(default)]
    mask: u32,
}

fn eperm() -> String {
    "EPERM".to_owned()
}

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn shipped() -> Vec<Group> {
    toml::from_str::<Shipped>(&fs::read_to_string(at("policies/seccomp.toml")).unwrap()).unwrap().refuse
}

impl Condition {
    /// For people: `argument 2 is 0x5412`.
    fn text(&self) -> String {
        let place = format!("argument {}", self.arg + 1);
        match self.op.as_str() {
            "eq" => format!("{place} is {:#x}", self.value),
            "ne" => format!("{place} is not {}", self.value),
            "any-bit" => format!("{place} has a bit of {:#x}", self.value),
            "masked-eq" => format!("{place} has all of {:#x}", self.mask & self.value),
            other => panic!("unknown operator {other}"),
        }
    }
}

fn shown(call: &str, when: &[Condition]) -> &'static Shown {
    let value = when.first().map_or(0, |condition| condition.value);
    let rows = SHOWN.iter().filter(|row| row.call == call);
    let exact = rows.clone().find(|row| row.value == value);
    exact
        .or_else(|| rows.clone().find(|row| row.value == 0))
        .unwrap_or_else(|| panic!("{call} {value:#x}: shown by nothing"))
}

fn sets() -> [(&'static str, &'static str); 5] {
    [
        ("base", "In every confining mode"),
        ("root", "And where the command runs as uid 0"),
        ("processes", "And without a PID namespace"),
        ("no-inet", "And without a network namespace, with the network off"),
        ("metadata", "And in read-only mode without a mount namespace"),
    ]
}

fn page() -> String {
    let mut text = String::from(
        "# System calls that are refused\n\n\
         Generated from `policies/seccomp.toml` and `tests/seccomp_page/shown.rs`: \
         `STOCKADE_WRITE_DOCS=1 cargo test --test seccomp_page`.\n\n\
         Each call, why it is refused, and attacks of `tests/attacks.rs` that make it: they work unconfined, and in the sandbox\n\
         they fail (`STOCKADE_ATTACK_ONLY='NAME' ci/test attacks`). Conditions compare the low 32 bits of an argument, which is\n\
         all that the kernel reads of it. That each filter answers as its line says, and lets the neighbouring values through, is\n\
         tried by an interpreter in `tests/plan.rs`. Where the answer is ENOSYS, libraries fall back to a call that can be looked\n\
         into. Besides: calls of another architecture or of x32, and calls that this version does not know, are answered ENOSYS\n\
         (`int80 getpid 0`, `x32 getpid 0`).\n",
    );
    let groups = shipped();
    for (set, title) in sets() {
        write!(
            text,
            "\n## {title}\n\n| call | when | answer | reported as | why | shown by |\n|---|---|---|---|---|---|\n"
        )
        .unwrap();
        for group in groups.iter().filter(|group| group.set == set) {
            let when: Vec<String> = group.when.iter().map(Condition::text).collect();
            for call in &group.calls {
                let shown = shown(call, &group.when);
                let rows: Vec<String> =
                    shown.attacks.iter().map(|row| format!("`{}`", row.replace('|', "\\|"))).collect();
                let by = if rows.is_empty() { shown.otherwise.to_owned() } else { rows.join(", ") };
                let (errno, kind, reason) = (&group.errno, &group.kind, &group.reason);
                writeln!(text, "| `{call}` | {} | {errno} | `{kind}` | {reason} | {by} |", when.join("; ")).unwrap();
            }
        }
    }
    text
}

#[test]
fn the_page_is_current() {
    let path = at("docs/seccomp.md");
    if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page(), "docs/seccomp.md is out of date: STOCKADE_WRITE_DOCS=1 cargo test --test seccomp_page");
}

#[test]
fn every_group_is_on_the_page() {
    let known: BTreeSet<&str> = sets().iter().map(|(set, _)| *set).collect();
    let groups = shipped();
    assert!(groups.len() > 30);
    for group in &groups {
        assert!(known.contains(group.set.as_str()), "the page has no part for the set {}", group.set);
    }
}

/// Source of the probes: the word that starts each, and the text of its function.
fn probes() -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(at("tests/probes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // A probe may call helpers of its file: the whole file counts as its source.
        for piece in text.split("PROBE(").skip(1) {
            if let Some(name) = piece.split('"').nth(1) {
                found.entry(name.to_owned()).or_default().push_str(&text);
            }
        }
    }
    found
}

#[test]
fn every_row_is_an_attack_that_makes_the_call() {
    let attacks: BTreeSet<String> = [files::attacks(), network::attacks(), processes::attacks(), system::attacks()]
        .concat()
        .into_iter()
        .map(|row| row.name)
        .collect();
    let probes = probes();
    let mut wrong = Vec::new();
    for row in SHOWN {
        assert_eq!(row.attacks.is_empty(), !row.otherwise.is_empty(), "{}: either attacks or a reason", row.call);
        for attack in row.attacks {
            let word = attack.split(' ').next().unwrap();
            let source = probes.get(word).map(String::as_str).unwrap_or_default();
            let made = [format!("SYS_{}", row.call), format!("{}(", row.call)];
            if !attacks.contains(*attack) {
                wrong.push(format!("{}: '{attack}' is no attack", row.call));
            } else if !made.iter().any(|call| source.contains(call)) {
                wrong.push(format!("'{attack}' does not call {}", row.call));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_row_is_left_over() {
    let refused: BTreeSet<String> = shipped().into_iter().flat_map(|group| group.calls).collect();
    let named: BTreeSet<String> = SHOWN.iter().map(|row| row.call.to_owned()).collect();
    assert_eq!(named.difference(&refused).collect::<Vec<_>>(), Vec::<&String>::new());
}
