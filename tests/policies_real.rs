//! The shipped example policies on real projects: what `ci/fetch-projects` fetched of each language is built and tested by
//! its own tools under the language's policy, under `ci` and under `untrusted-tests`, with the network off, as every user.
//! Beside that each policy refuses what it says it refuses.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

#[path = "policies_real/scene.rs"]
mod scene;

use scene::{Project, Scene, fetched};
use user::User;

/// In each case the language's own policy, then `ci`, then `untrusted-tests`, each on fresh copies. Of a slow project root
/// tries the one and the ordinary user the other of the last two.
fn tried(project: &Project) {
    let Some(fetched) = fetched(project.name) else { return };
    for user in User::all() {
        for policy in [project.name, "ci", "untrusted-tests"] {
            if project.slow && policy == if user.is_root() { "untrusted-tests" } else { "ci" } {
                continue;
            }
            let scene = Scene::of(project, &fetched, user, policy);
            scene.works();
            scene.refuses();
        }
    }
}

#[test]
fn a_crate_of_rust() {
    tried(&Project {
        name: "rust",
        slow: false,
        script: "cargo build --offline --quiet && cargo test --offline --quiet",
        // The crate is older than the newest lint that it denies.
        env: &["RUSTFLAGS=--cap-lints=allow"],
        untrusted: &["CARGO_HOME=${HOME}/.cargo"],
        ci: &[],
        left: "target/debug/libwait_timeout.rlib",
        tests: 6,
        count: scene::cargo_tests,
    });
}

#[test]
fn a_source_distribution_of_python() {
    tried(&Project {
        name: "python",
        slow: true,
        script: "python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check --no-index \
                 --find-links wheels . pytest && .venv/bin/python -m pytest",
        env: &[],
        untrusted: &[],
        ci: &[],
        left: ".venv/bin/pytest",
        tests: 70,
        count: scene::pytest_tests,
    });
}

#[test]
fn a_package_of_node() {
    tried(&Project {
        name: "node",
        slow: true,
        script: "npm ci --offline --no-audit --no-fund && npx --offline tape 'test/*.js'",
        env: &["npm_config_update_notifier=false"],
        untrusted: &["npm_config_cache=${HOME}/.npm"],
        ci: &[],
        left: "node_modules/tape/package.json",
        tests: 100,
        count: scene::tap_tests,
    });
}

#[test]
fn a_module_of_go() {
    tried(&Project {
        name: "go",
        slow: false,
        // The module is older than the newest thing that vet finds.
        script: "go build -o built ./... && go test -vet=off -v ./...",
        env: &["GOFLAGS=-mod=mod", "GOPROXY=off"],
        untrusted: &["GOCACHE=/tmp/go"],
        ci: &["GOCACHE=${WORKSPACE}/.cache/go"],
        left: "go.mod",
        tests: 100,
        count: scene::go_tests,
    });
}
