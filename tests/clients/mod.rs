//! The official clients that `ci/install-clients` installs, and the driver scripts beside this file.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(clippy::explicit_write, reason = "the harness keeps what print macros write of a test that passes")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the clients are: `STOCKADE_CLIENTS`, or `target/clients`.
///
/// `None` when they are not installed; that is said aloud, and with `STOCKADE_REQUIRE_CLIENTS` set it is a failure.
pub fn installed(test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::var_os("STOCKADE_CLIENTS").map_or_else(|| root.join("target/clients"), PathBuf::from);
    if dir.join("venv/bin/python").exists() && dir.join("node_modules/@agentclientprotocol/sdk").exists() {
        return Some(dir);
    }
    let why = format!("{test}: no clients in {}; install them with ci/install-clients", dir.display());
    assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "{why}");
    writeln!(std::io::stderr(), "NOT TESTED: {why}").unwrap();
    None
}

/// A driver script, ready to be given its arguments.
pub fn driver(clients: &Path, script: &str) -> Command {
    let program = if script.ends_with(".py") { clients.join("venv/bin/python") } else { "node".into() };
    let mut command = Command::new(program);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script));
    command.env("STOCKADE_CLIENTS", clients).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a driver to its end; it must have held exactly these steps.
pub fn holds(command: &mut Command, steps: &[&str]) {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    let held: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("held: ")).collect();
    assert!(output.status.success() && held == steps, "{}\nheld {held:?}\n{out}\n{err}", output.status);
    assert!(!err.contains("panicked"), "{err}");
}

pub fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A directory's path without links, as the session has it.
pub fn canonical(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().canonicalize().unwrap()
}
