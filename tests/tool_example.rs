//! The example does what it says, with a yes and with a no.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(unreachable_pub, reason = "the example is a crate root of its own")]
#[path = "../examples/harness.rs"]
mod harness;

use std::sync::Arc;

use stockade::launcher::LauncherPath;

fn launcher() -> LauncherPath {
    LauncherPath::Exact(env!("CARGO_BIN_EXE_stockade").into())
}

#[tokio::test]
async fn the_harness_example_runs_its_story() {
    let (results, landed) = harness::story(Arc::new(harness::SayYes), launcher()).await.unwrap();
    assert!(landed);
    assert!(results[0].contains("[sandbox: file access denied under read-only mode]"), "{}", results[0]);
    assert_eq!(results[1], "(no output)");
    assert!(results[2].contains("denied under read-only mode"), "{}", results[2]);
    assert!(include_str!("../examples/harness.rs").lines().count() < 80);
}

#[tokio::test]
async fn without_a_terminal_the_file_does_not_land() {
    let nowhere = stockade::approval::TerminalApprover::on("/nonexistent/tty");
    let (results, landed) = harness::story(Arc::new(nowhere), launcher()).await.unwrap();
    assert!(!landed && results[1].contains("nobody could be asked"), "{}", results[1]);
}
