//! `stockade verify`: that it finds what is broken, that it finds nothing where nothing is, and what it leaves behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "verify/broken.rs"]
mod broken;
#[path = "support/cli.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod cli;
#[path = "verify/page.rs"]
mod page;
#[path = "verify/terminal.rs"]
mod terminal;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod user;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cli::{Prompt, outcome};
use serde_json::Value;

/// One at a time: each keeps two processors busy, and what one leaves must not be taken for another's.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `stockade verify`, its throw-away files beneath the prompt's own directory.
pub(crate) fn verify(prompt: &Prompt, args: &[&str]) -> Command {
    let mut command = prompt.command(prompt.program());
    command.args(["verify", "--workspace"]).arg(prompt.work()).args(args).env_remove("TMPDIR");
    command
}

fn report(prompt: &Prompt, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = outcome(verify(prompt, args).arg("--json"));
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is no list: {value}"))
}

/// Names of the cells that came to this under any mode.
fn with_status(report: &Value, status: &str) -> BTreeSet<String> {
    let cells = list(report, "cells").iter();
    let such = cells.filter(|cell| list(cell, "results").iter().any(|result| result["status"] == status));
    such.map(|cell| cell["id"].as_str().unwrap().to_owned()).collect()
}

/// What verify makes on the host, by the names it gives it.
fn left(prompt: &Prompt) -> Vec<String> {
    let mut found = Vec::new();
    for directory in [prompt.work(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()] {
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        found.extend(names.filter(|name| name.contains("stockade-verify-")));
    }
    for process in procfs::process::all_processes().unwrap().flatten() {
        let words = process.cmdline().unwrap_or_default();
        if words.get(1).is_some_and(|word| word == "probe") {
            found.push(words.join(" "));
        }
    }
    let queues = std::fs::read_to_string("/proc/sysvipc/msg").unwrap_or_default();
    found.extend(queues.lines().skip(1).map(str::to_owned));
    found
}

#[test]
fn every_promise_is_kept_or_a_named_gap_covers_it_and_nothing_is_left() {
    let _alone = alone();
    for prompt in Prompt::all() {
        let before = left(&prompt);
        for backend in ["namespaces", "landlock"] {
            let title = format!("{} {backend}", prompt.user.name());
            let (code, report) = report(&prompt, &["--backend", backend]);
            assert_eq!(with_status(&report, "broken"), BTreeSet::new(), "{title}");
            assert_eq!((code, &report["kept"]), (0, &Value::Bool(true)), "{title}");
            has_the_form(&report, backend);
            let gaps = with_status(&report, "gap");
            assert_eq!(gaps.is_empty(), backend == "namespaces", "{title}: {gaps:?}");
            // What a user is refused anyway proves little; most of it must land where nothing confines.
            let landed = list(&report, "cells").iter().filter(|cell| cell["control"]["outcome"] == "lands").count();
            let enough = if prompt.user.is_root() { 200 } else { 160 };
            assert!(landed >= enough, "{title}: {landed} controls landed");
            // No control may be unclear: then the table or the scene is wrong.
            for cell in list(&report, "cells") {
                let control = cell["control"]["outcome"].as_str().unwrap();
                assert!(["lands", "refused"].contains(&control), "{title}: {cell}");
            }
        }
        assert_eq!(left(&prompt), before, "{}", prompt.user.name());
    }
}

/// The form of the report, which other programs read.
fn has_the_form(report: &Value, backend: &str) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let top = ["schema", "version", "began", "durationMs", "kept", "host", "modes", "cells"];
    assert_eq!(keys(report), top);
    assert_eq!(report["schema"], 1);
    assert!(report["durationMs"].as_u64().is_some_and(|ms| ms < 120_000), "{}", report["durationMs"]);
    assert!(list(&report["host"], "features").len() > 10);
    let modes: Vec<&str> = list(report, "modes").iter().map(|mode| mode["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["read-only", "workspace-write"]);
    for mode in list(report, "modes") {
        assert_eq!(keys(mode), ["mode", "backend", "enforcement", "gaps", "counts", "policy"]);
        assert_eq!(mode["backend"], backend);
        assert_eq!(keys(&mode["counts"]), ["kept", "gap", "broken", "notPromised", "notHere"]);
        let counted: u64 = mode["counts"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, list(report, "cells").len() as u64);
        assert!(list(&mode["policy"], "rules").len() > 20);
        for gap in list(mode, "gaps") {
            assert!(gap["name"].is_string() && gap["meaning"].as_str().is_some_and(|text| text.len() > 20), "{gap}");
        }
    }
    for cell in list(report, "cells") {
        assert_eq!(keys(cell), ["id", "group", "operation", "place", "control", "results"]);
        let results = list(cell, "results");
        assert_eq!(results.len(), modes.len(), "{cell}");
        for result in results {
            let evidence = &result["evidence"];
            assert_eq!(keys(evidence), ["outcome", "inside", "host"]);
            assert!(!evidence["inside"].as_str().unwrap().is_empty(), "{cell}");
            // A gap that covers a cell is one that the mode reports.
            if result["status"] == "gap" {
                let reported = list(report, "modes").iter().find(|mode| mode["mode"] == result["mode"]).unwrap();
                assert!(list(reported, "gaps").iter().any(|gap| gap["name"] == result["gap"]), "{cell}");
            }
        }
    }
}

/// A policy that gives more than its mode promises is found, and the rule is named.
#[test]
fn a_policy_that_gives_too_much_is_found() {
    let _alone = alone();
    for prompt in Prompt::all() {
        let everything = prompt.work().display().to_string();
        let (code, found) = report(&prompt, &["--mode", "read-only", "--write", &everything]);
        assert_eq!((code, &found["kept"]), (1, &Value::Bool(false)));
        let broken = with_status(&found, "broken");
        for expected in ["create-a-file-in-the-workspace", "write-a-file-in-another-directory-of-the-user"] {
            assert!(broken.contains(expected), "{broken:?}");
        }
        let cells = list(&found, "cells");
        let cell = cells.iter().find(|cell| cell["id"] == "create-a-file-in-the-workspace").unwrap();
        let result = &list(cell, "results")[0];
        assert_eq!(result["evidence"]["outcome"], "lands");
        assert!(result["rule"].as_str().is_some_and(|rule| rule.contains("(--write)")), "{result}");
        // The same in the table for people, and the masks are still what they were.
        assert!(!broken.iter().any(|id| id.contains("ssh")), "{broken:?}");
        let (code, text, _) = outcome(&mut verify(&prompt, &["--mode", "read-only", "--write", &everything]));
        assert_eq!(code, 1);
        assert!(text.contains("\nNOT KEPT\n") && text.contains("promises are NOT kept on this host."), "{text}");
    }
}

#[test]
fn a_mode_that_cannot_run_is_no_success() {
    let _alone = alone();
    let prompt = Prompt::of(user::User::current());
    let (code, report) = report(&prompt, &["--backend", "landlock", "--require", "full", "--mode", "workspace-write"]);
    assert_eq!((code, &report["kept"]), (1, &Value::Bool(false)));
    let mode = &list(&report, "modes")[0];
    assert!(mode["enforcement"].is_null() && mode["refused"].as_str().unwrap().contains("metadata"), "{mode}");
    let (code, text, _) = outcome(&mut verify(&prompt, &["--backend", "landlock", "--require", "full"]));
    assert_eq!(code, 1);
    assert!(text.contains("cannot run: ") && text.contains("Not every mode can run on this host"), "{text}");
}

/// What the policy opens by name is not promised, and what it leaves shut is.
#[test]
fn an_open_network_is_not_promised() {
    let _alone = alone();
    let prompt = Prompt::of(user::User::current());
    let (code, report) = report(&prompt, &["--mode", "read-only", "--network", "full"]);
    assert_eq!(with_status(&report, "broken"), BTreeSet::new());
    assert_eq!(code, 0);
    let open = with_status(&report, "not-promised");
    assert!(open.contains("connect-to-a-tcp-server-on-127-0-0-1-of-the-host"), "{open:?}");
    assert!(open.iter().all(|id| id.contains("127-0-0-1")), "{open:?}");
}

/// The program lies where no sandbox sees it.
#[test]
fn a_program_under_tmp_verifies_too() {
    let _alone = alone();
    let prompt = Prompt::of(user::User::current());
    let hidden = tempfile::Builder::new().prefix("hidden-").tempdir_in("/tmp").unwrap();
    let program = hidden.path().join("stockade");
    // Copied by another process: what this one has open for writing, a fork of another thread holds too (ETXTBSY).
    assert!(std::process::Command::new("cp").arg(prompt.program()).arg(&program).status().unwrap().success());
    let mut command = prompt.command(&program);
    command.args(["verify", "--mode", "read-only", "--json", "--workspace"]).arg(prompt.work()).env_remove("TMPDIR");
    let (code, out, err) = outcome(&mut command);
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(with_status(&report, "broken"), BTreeSet::new());
}

#[test]
fn wrong_usage_and_places_are_said() {
    let prompt = Prompt::of(user::User::current());
    let missing = prompt.root().join("missing").display().to_string();
    for (args, code, words) in [
        (&["verify", "--json", "--html", "x"] as &[&str], 2, "cannot be used with"),
        (&["verify", "--policy", "no-such-policy"], 2, "no-such-policy"),
        (&["verify", "--workspace", "/tmp"], 125, "a sandbox has a /tmp of its own"),
        (&["verify", "--workspace", &missing], 125, &missing),
        (&["probe"], 2, "stockade verify"),
        (&["completions", "klingon"], 2, "klingon"),
    ] {
        let (status, out, err) = outcome(prompt.command(prompt.program()).args(args));
        assert_eq!((status, out.as_str()), (code, ""), "{args:?}: {err}");
        assert!(err.starts_with("stockade: ") && err.contains(words), "{args:?}: {err}");
    }
    let (status, out, err) = outcome(prompt.command(prompt.program()).args(["completions", "bash"]));
    assert_eq!((status, err.as_str()), (0, ""));
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/stockade.bash");
    assert_eq!(out, std::fs::read_to_string(committed).unwrap());
}
