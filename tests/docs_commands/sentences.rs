//! Commands within sentences, and those of cargo.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::cli::{Prompt, outcome};
use super::user::User;
use super::{documents, gather, is_ci};

/// First words of commands that are for a reader's own machine.
const ELSEWHERE: [&str; 3] = ["docker run ", "sysctl -w ", "systemd-run --user --scope stockade "];

/// Commands of cargo within sentences, and what runs them.
const BY_CARGO: [(&str, &str); 9] = [
    ("cargo install --path .", "cargo_installs_it"),
    ("cargo run --release --", "what_can_be_typed_works"),
    ("cargo run --example harness -- --yes", "the_harness_example_runs_its_story"),
    ("cargo build --example acp_agent", "the_python_client"),
    ("cargo bench --bench trace", "ci/bench"),
    ("cargo test", "ci/test"),
    ("cargo test --doc", "ci/test"),
    ("cargo install cargo-deny --locked", ".ci/run"),
    ("cargo deny check", ".ci/run"),
];

/// Whether a line looks like something to type.
pub(super) fn is_command(line: &str) -> bool {
    const PROGRAMS: [&str; 14] = [
        "stockade ",
        "cargo ",
        "ci/",
        ".ci/",
        "npx ",
        "npm ",
        "pip ",
        "apt",
        "docker ",
        "podman ",
        "sysctl ",
        "sudo ",
        "systemd",
        "git ",
    ];
    let line = line.trim_start().trim_start_matches("$ ");
    // A refusal's line on standard error is no command.
    PROGRAMS.iter().any(|program| line.starts_with(program)) && !line.starts_with("stockade: ")
}

pub(super) fn is_elsewhere(line: &str) -> bool {
    ELSEWHERE.iter().any(|start| line.starts_with(start))
}

/// What stands between backquotes outside fences, with its line; an escaped bar of a table is a bar.
fn spans(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (at + 1, span.replace("\\|", "|"))));
        }
    }
    found
}

/// Why a command within a sentence is wrong.
fn wrong_in_a_sentence(prompt: &Prompt, span: &str) -> Option<String> {
    if let Some(rest) = span.strip_prefix("stockade ") {
        let mut words = rest.split_whitespace();
        let command = words.next().unwrap_or_default();
        if command == "help" || command.starts_with('-') {
            return None;
        }
        let (code, help, _) = outcome(prompt.command(prompt.program()).args([command, "--help"]));
        if code != 0 {
            return Some(format!("no command {command}"));
        }
        let mut options = words.take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
        let below =
            ["show", "verify"].map(|sub| outcome(prompt.command(prompt.program()).args([command, sub, "--help"])).1);
        return options
            .find(|option| {
                let option = option.split('=').next().unwrap_or_default();
                ![help.as_str(), &below[0], &below[1]].iter().any(|help| help.contains(option))
            })
            .map(|option| format!("{command} has no {option}"));
    }
    if span.starts_with("cargo ") {
        let known = BY_CARGO.iter().any(|(command, _)| span == *command || span == "cargo tree -e no-dev");
        return (!known).then(|| "what runs it? name it in BY_CARGO".to_owned());
    }
    if span.starts_with("ci/") || span.starts_with(".ci/") {
        let script = span.split_whitespace().next().unwrap_or_default();
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join(script).exists();
        // A suite of `ci/test` or a group of `ci/bench` that is named in small letters is one.
        let named =
            span.split_whitespace().skip(1).filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        let missing = named.filter(|word| script == "ci/test" && !is_ci(&format!("ci/test {word}"))).count();
        return (!there || missing > 0).then(|| "no such script or suite".to_owned());
    }
    (is_command(span)
        && span.contains(' ')
        && !is_elsewhere(span)
        && !span.starts_with("git ")
        && !span.starts_with("apt"))
    .then(|| "nothing runs it".to_owned())
}

#[test]
fn commands_in_sentences_are_commands() {
    let prompt = Prompt::of(User::current());
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        for (line, span) in spans(&fs::read_to_string(&document).unwrap()) {
            seen += usize::from(is_command(&span));
            if let Some(why) = wrong_in_a_sentence(&prompt, &span) {
                wrong.push(format!("{}:{line}: `{span}`: {why}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 40, "{seen}");
}

/// Whoever runs what is named in [`BY_CARGO`] is there.
#[test]
fn what_runs_the_commands_of_cargo_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    gather(&root.join("tests"), &mut all);
    for (command, by) in BY_CARGO {
        let there = match by {
            script if script.contains('/') => {
                let text = fs::read_to_string(root.join(script)).unwrap();
                let words = command.trim_start_matches("cargo ").split_whitespace();
                words.filter(|word| word.chars().all(char::is_alphabetic)).all(|word| text.contains(word))
            }
            test => all.contains(&format!("fn {test}(")),
        };
        assert!(there, "{command} by {by}");
    }
}

/// `cargo install --path .`, by the profile that is built already: a release build is minutes longer and no different.
#[test]
fn cargo_installs_it() {
    // Held from here on: cargo replaces the program that the other tests here would copy.
    let prompt = Prompt::of(User::current());
    let root = tempfile::tempdir().unwrap();
    let mut install = Command::new(env!("CARGO"));
    install.args(["install", "--path", ".", "--debug", "--offline", "--root"]).arg(root.path());
    let output = install.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let installed: Vec<_> = fs::read_dir(root.path().join("bin")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(installed, ["stockade"]);
    let run = |args: &[&str]| outcome(prompt.command(root.path().join("bin/stockade")).args(args));
    assert_eq!(run(&["run", "-c", "echo oops > ~/oops"]).0, 1);
    let (code, out, err) = run(&["run", "--", "echo", "hello"]);
    assert_eq!((code, out.as_str()), (0, "hello\n"), "{err}");
}
