//! The official Agent Client Protocol clients drive the example agent: cards, permission rejected, dismissed and allowed,
//! background tasks with their output and their end, cancellation, disconnection. The steps are in `tests/clients/`.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod clients;

use std::path::{Path, PathBuf};
use std::process::Command;

use clients::{canonical, driver, holds, installed};
use tempfile::TempDir;

const STEPS: [&str; 6] = ["terminal card", "permission", "tasks", "cancel", "disconnect", "fenced card"];

/// The example agent, built by the same profile as this test. Cargo builds examples along with the tests; a run of this
/// test alone does not, and must not meet an old one.
fn agent() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", "acp_agent"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "the example does not build");
    let deps = std::env::current_exe().unwrap();
    deps.ancestors().nth(2).map(|profile: &Path| profile.join("examples/acp_agent")).unwrap()
}

fn story(script: &str, clients: &Path) {
    let workspace = TempDir::new().unwrap();
    holds(driver(clients, script).arg(agent()).arg(canonical(&workspace)), &STEPS);
    let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["allowed.txt"], "only what was allowed is there");
}

#[test]
fn the_python_client() {
    let Some(clients) = installed("Python agent-client-protocol") else { return };
    story("acp_client.py", &clients);
}

#[test]
fn the_typescript_client() {
    let Some(clients) = installed("@agentclientprotocol/sdk") else { return };
    story("acp_client.mjs", &clients);
}
