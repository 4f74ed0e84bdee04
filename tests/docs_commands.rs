//! Types what the documents say can be typed. In a fence that begins with ```` ```sh run ````, each command is run by
//! bash as every user, in a workspace of its own, in order; `# exit N` at the end of a command is the status that it
//! must end with, 0 when there is none. `sh build` is the same with the program that cargo builds; `sh ci` runs what
//! continuous integration runs. There are no other fences for a shell. Policies in the documents are parsed, and the
//! settings of clients start a server. A command within a sentence is one that there is, with options that it has.
//!
//! What is not run is named in `ELSEWHERE`: commands that administer the host, and programs that are not here.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "support/cli.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod cli;
#[path = "docs_commands/sentences.rs"]
mod sentences;
#[path = "docs_commands/settings.rs"]
mod settings;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod user;

use std::fs;
use std::path::{Path, PathBuf};

use cli::{Prompt, outcome};
use sentences::{is_command, is_elsewhere};
use stockade::policy::PolicyFile;

/// A fence: its info string, the line it begins on, its text.
struct Fence {
    info: String,
    line: usize,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let markdown = |directory: &Path| {
        fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect::<Vec<_>>()
    };
    let mut found = [markdown(root), markdown(&root.join("docs"))].concat();
    found.sort();
    assert!(found.iter().any(|path| path.ends_with("README.md")), "{found:?}");
    found
}

fn fences(text: &str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut open: Option<Fence> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Fence { info: info.trim().to_owned(), line: at + 1, text: String::new() });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(fence), None) => {
                fence.text.push_str(line);
                fence.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// The commands of a fence with their line and status; a line that ends with a backslash goes on.
fn commands(fence: &Fence) -> Vec<(usize, String, i32)> {
    let mut found = Vec::new();
    let mut so_far = String::new();
    for (at, line) in fence.text.lines().enumerate() {
        so_far.push_str(line);
        if line.ends_with('\\') {
            so_far.push('\n');
            continue;
        }
        let command = std::mem::take(&mut so_far);
        if command.trim().is_empty() || command.starts_with('#') {
            continue;
        }
        let status = command.rsplit_once("# exit ").map_or(0, |(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or_else(|_| panic!("{command}: no status after '# exit'"))
        });
        found.push((fence.line + at + 1, command, status));
    }
    found
}

#[test]
fn what_can_be_typed_works() {
    let mut typed = 0;
    for document in documents() {
        let fences = fences(&fs::read_to_string(&document).unwrap());
        for mut prompt in Prompt::all() {
            for fence in fences.iter().filter(|fence| ["sh run", "sh build"].contains(&fence.info.as_str())) {
                typed += type_fence(&document, fence, &mut prompt);
            }
        }
    }
    assert!(typed > 10, "the documents hold commands: {typed}");
}

/// Types one fence and says how many commands it held.
fn type_fence(document: &Path, fence: &Fence, prompt: &mut Prompt) -> usize {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", prompt.program().parent().unwrap().display());
    let commands = commands(fence);
    for (line, text, status) in &commands {
        let text = &text.replace("cargo run --release -- ", "stockade ");
        let mut command = prompt.command("bash");
        let (code, stdout, stderr) = outcome(command.arg("-c").arg(text).env("PATH", &path));
        assert_eq!(
            code,
            *status,
            "{}:{line}: {text} as {}\n{stdout}\n{stderr}",
            document.display(),
            prompt.user.name()
        );
        // Where it is refused, it is by us and not for want of anything else.
        if text.starts_with("stockade run ") && *status == 1 {
            assert!(stderr.contains("stockade: denied "), "{}:{line}: {text}\n{stderr}", document.display());
        }
    }
    commands.len()
}

/// What continuous integration runs: itself, `ci/test`, and suites of it by name.
fn is_ci(command: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut words = command.split('#').next().unwrap_or_default().split_whitespace();
    match words.next() {
        Some(".ci/run") => words.next().is_none(),
        Some("ci/test") => words.all(|suite| tests.join(format!("{suite}.rs")).exists()),
        _ => false,
    }
}

#[test]
fn every_fence_for_a_shell_is_run() {
    let mut wrong = Vec::new();
    for document in documents() {
        for fence in fences(&fs::read_to_string(&document).unwrap()) {
            let run = match fence.info.as_str() {
                "sh run" | "sh build" => true,
                "sh ci" => commands(&fence).iter().all(|(_, command, _)| is_ci(command)),
                // Doctests; settings, which other tests here parse and try.
                "rust,no_run" | "json" | "toml" | "yaml" | "ini" => true,
                "text" => fence.text.lines().all(|line| !is_command(line) || is_elsewhere(line)),
                _ => false,
            };
            if !run {
                wrong.push(format!("{}:{}: {}", document.display(), fence.line, fence.info));
            }
        }
    }
    assert!(wrong.is_empty(), "nothing runs these fences:\n{}", wrong.join("\n"));
}

#[test]
fn policies_in_documents_are_policies() {
    let mut seen = 0;
    for document in documents() {
        for fence in fences(&fs::read_to_string(&document).unwrap()) {
            if fence.info == "toml" && fence.text.contains("[filesystem]") {
                seen += 1;
                let parsed = PolicyFile::from_bytes(&document, fence.text.as_bytes());
                assert!(parsed.is_ok(), "{}:{}: {}", document.display(), fence.line, parsed.unwrap_err());
            }
        }
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut seen = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            seen += 1;
            assert!(document.parent().unwrap().join(file).exists(), "{}: {target}", document.display());
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The name of every test file and every shipped policy that a document mentions exists.
#[test]
fn files_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let ours = ["src/", "tests/", "policies/", "docs/", "ci/", "examples/", "benches/"];
            if ours.iter().any(|start| word.starts_with(start)) && !word.contains([' ', '*', '{', '<']) {
                seen += 1;
                assert!(root.join(word).exists(), "{} names {word}", document.display());
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Every test that the security document names as `test:NAME` is there: claims and their proofs do not drift.
#[test]
fn tests_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    gather(&root.join("tests"), &mut all);
    gather(&root.join("src"), &mut all);
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let mut seen = 0;
    for word in text.split('`').skip(1).step_by(2).filter_map(|word| word.strip_prefix("test:")) {
        seen += 1;
        assert!(all.contains(&format!("fn {word}(")), "SECURITY.md names the test {word}, which there is not");
    }
    assert!(seen > 10, "{seen}");
}

fn gather(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
