//! Large policies and large workspaces.

use std::fmt::Write as _;
use std::path::Path;

use stockade::executor::BashExecutor as _;
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::TraceChoice;

use super::figures::{Figures, Times};
use super::spawn::{confined_by, run_true, runtime};

/// The first call and later ones, under policies of so many rules.
pub(crate) fn rules(rounds: usize, figures: &mut Figures) {
    let place = tempfile::tempdir().unwrap();
    let policies = [1, 100, 10_000].map(|rules| written(place.path(), rules));
    compare(rounds, "rules", &["1", "100", "10 000"], figures, |at| {
        let host = HostPaths::of_process().unwrap();
        let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, host.cwd.clone());
        (request.policy(&policies[at]), host)
    });
}

/// A policy file that refuses so many paths, a tenth of which exist.
fn written(place: &Path, rules: usize) -> String {
    let mut text = "[filesystem]\ndeny_write = [\n".to_owned();
    for rule in 0..rules {
        let path = place.join(format!("d{rules}")).join(rule.to_string());
        if rule % 10 == 0 {
            std::fs::create_dir_all(&path).unwrap();
        }
        writeln!(text, "  {:?},", path.to_str().unwrap()).unwrap();
    }
    text.push_str("]\n");
    let file = place.join(format!("{rules}.toml"));
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The same in workspaces of so many files.
pub(crate) fn files(rounds: usize, figures: &mut Figures) {
    let place = tempfile::tempdir().unwrap();
    let workspaces = [10, 100_000].map(|files| {
        let root = place.path().join(files.to_string());
        for file in 0..files {
            let directory = root.join(format!("d{}", file / 100));
            if file % 100 == 0 {
                std::fs::create_dir_all(&directory).unwrap();
            }
            std::fs::write(directory.join(file.to_string()), "").unwrap();
        }
        root
    });
    compare(rounds, "files in the workspace", &["10", "100 000"], figures, |at| {
        (PolicyRequest::new(SandboxMode::WorkspaceWrite, workspaces[at].clone()), HostPaths::of_process().unwrap())
    });
}

fn compare(
    rounds: usize,
    group: &str,
    ways: &[&str],
    figures: &mut Figures,
    request: impl Fn(usize) -> (PolicyRequest, HostPaths),
) {
    let (mut first, mut later) = (Times::of(ways), Times::of(ways));
    runtime().block_on(async {
        for _ in 0..(rounds / 10).max(3) {
            let mut took = (Vec::new(), Vec::new());
            for at in 0..ways.len() {
                let (request, host) = request(at);
                let executor = confined_by(request, host, TraceChoice::Auto);
                took.0.push(run_true(&executor).await);
                // The second call is the one that remembers, once what it looks at is no longer new.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                run_true(&executor).await;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                took.1.push(run_true(&executor).await);
                executor.dispose().await;
            }
            first.add(took.0);
            later.add(took.1);
        }
    });
    figures.take(&format!("first call, {group}"), "ms", &first);
    figures.take(&format!("later call, {group}"), "ms", &later);
}
