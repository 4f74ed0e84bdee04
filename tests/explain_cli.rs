//! `stockade explain`: what decides, and the line it came from.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::fs;
use std::path::Path;
use std::process::Command;

fn explain(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    let output = command.arg("explain").args(arguments).current_dir(dir).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn answers(dir: &Path, arguments: &[&str]) -> Vec<String> {
    let (code, out, err) = explain(dir, arguments);
    assert_eq!(code, Some(0), "{err}");
    out.lines().map(str::to_owned).collect()
}

fn scene() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("sub/open")).unwrap();
    let policy = r#"mode = "workspace-write"
[filesystem]
deny_write = [
  { path = "${WORKSPACE}/sub", reason = "kept" },
]
[network]
allow = [
  "*.example.org:443",
]
deny = [
  "bad.example.org",
]
"#;
    fs::write(dir.path().join("my.toml"), policy).unwrap();
    dir
}

#[test]
fn paths_are_decided_by_the_most_specific_rule_and_its_line() {
    let dir = scene();
    let answers =
        answers(dir.path(), &["--policy", "my.toml", "--write", "sub/open", "sub/x", "sub/open/y", "/usr/bin/env"]);
    assert!(answers[0].contains("write denied") && answers[0].contains("my.toml:4)"), "{answers:#?}");
    assert!(answers[1].contains("write allowed") && answers[1].contains("(--write)"), "{answers:#?}");
    assert!(answers[2].contains("read allowed, write denied; no rule names it"), "{answers:#?}");
}

#[test]
fn hosts_are_decided_by_their_entry_and_its_line() {
    let dir = scene();
    let asked = ["a.example.org:443", "a.example.org:80", "bad.example.org:443", "crates.io:443", "127.0.0.1:443"];
    let arguments = [&["--policy", "my.toml", "--allow-host", "crates.io:443"], &asked[..]].concat();
    let answers = answers(dir.path(), &arguments);
    let expected = [
        ("connect allowed", "allow *.example.org:443 (file "),
        ("connect denied", "no allow rule covers it"),
        ("connect denied", "deny bad.example.org (file "),
        ("connect allowed", "allow crates.io:443 (--allow-host)"),
        ("connect denied", "no allow rule covers it"),
    ];
    for ((answer, asked), (word, why)) in answers.iter().zip(asked).zip(expected) {
        assert!(answer.starts_with(asked) && answer.contains(word) && answer.contains(why), "{answer}");
    }
    assert!(answers[0].contains("my.toml:8)") && answers[2].contains("my.toml:11)"), "{answers:#?}");
}

#[test]
fn without_an_allowlist_the_mode_of_the_network_decides() {
    let dir = scene();
    let off = answers(dir.path(), &["crates.io:443"]);
    assert_eq!(off, ["crates.io:443: connect denied; decided by: network off (default of the mode)"]);
    let full = answers(dir.path(), &["--network", "full", "crates.io:443"]);
    assert_eq!(full, ["crates.io:443: connect allowed; decided by: network full (--network)"]);
}

#[test]
fn a_word_with_a_dot_is_a_host_unless_a_file_has_that_name() {
    let dir = scene();
    assert!(answers(dir.path(), &["example.org"])[0].contains("connect"));
    assert!(answers(dir.path(), &["my.toml"])[0].contains("read allowed"));
    assert!(answers(dir.path(), &["./example.org"])[0].contains("read allowed"));
    let (code, _, err) = explain(dir.path(), &["host:notaport"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("stockade: host:notaport:"), "{err}");
}

#[test]
fn the_whole_policy_as_text_and_json() {
    let dir = scene();
    let text = answers(dir.path(), &["--policy", "my.toml"]).join("\n");
    assert!(text.contains("mode workspace-write") && text.contains("my.toml:4) kept"), "{text}");
    assert!(text.contains("*.example.org:443") && text.contains("--all shows them"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&answers(dir.path(), &["--policy", "my.toml", "--json"])[0]).unwrap();
    assert_eq!(json["mode"], "workspace-write");
    assert_eq!(json["network"]["mode"], "allowlist");
    assert_eq!(json["digest"].as_str().unwrap().len(), 64);
    assert!(json["rules"].as_array().unwrap().iter().any(|rule| rule["reason"] == "kept"));
}
