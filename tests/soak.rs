//! Thousands of runs of every kind, several at a time, on both backends: nothing is more afterwards than it was; and what
//! a thousand background commands cost that have nothing to do.
//!
//! Short by itself; `ci/soak N` makes it N runs as each user.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/traces.rs"]
mod traces;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

#[path = "soak/figures.rs"]
mod figures;
#[path = "soak/idle.rs"]
mod idle;
#[path = "soak/kinds.rs"]
mod kinds;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stockade::executor::BashExecutor as _;
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;

use executor::{Place, as_every_user};
use figures::Figures;
use kinds::Hand;
use traces::{Token, tree};

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Namespaces, BackendChoice::Landlock];

/// Runs at the same time.
const HANDS: usize = 4;

/// Blocks that the runs are divided into; after each everything is at rest and is counted.
const BLOCKS: usize = 10;

/// Memory that a process may hold more than after the first fifth of the runs, KiB. Allocators keep what they had to give
/// once, so this is no slope: a leak of 1 KiB a run shows after ten thousand.
const MEMORY_SLACK: u64 = 8 * 1024;

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

#[test]
fn thousands_of_runs_leave_everything_as_it_was() {
    as_every_user("thousands_of_runs_leave_everything_as_it_was_inside");
}

#[test]
#[ignore = "run by thousands_of_runs_leave_everything_as_it_was as each user, in a process of its own"]
fn thousands_of_runs_leave_everything_as_it_was_inside() {
    let runs = setting("STOCKADE_SOAK_RUNS", 600);
    block_on(async {
        let place = Place::new();
        let token = Token::of(place.root());
        let executors = BACKENDS.map(|backend| {
            Arc::new(place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            }))
        });
        let (mut reference, mut counts) = (None, kinds::Counts::default());
        for block in 1..=BLOCKS {
            let range = runs * (block - 1) / BLOCKS..runs * block / BLOCKS;
            counts.add(&one_block(range, &executors, &place, &token).await);
            let figures = Figures::at_rest(&place, &token, reference.as_ref()).await;
            println!("\nfigure: after {} runs {figures:?}", runs * block / BLOCKS);
            // By then every kind has been there, and what is kept for good is there.
            if block == BLOCKS / 5 {
                reference = Some(figures);
            } else if let Some(reference) = &reference {
                reference.assert_flat(&figures, MEMORY_SLACK);
            }
        }
        println!("\nfigure: {counts:?}");
        counts.assert_all_kinds();
        for executor in executors {
            executor.dispose().await;
        }
        token.assert_gone("disposal");
        assert_eq!(tree(&place.state()), Vec::<std::path::PathBuf>::new());
    });
}

/// Runs of the given numbers, dealt to several hands, and waits until all have ended.
async fn one_block(
    range: std::ops::Range<usize>,
    executors: &[Arc<stockade::sandboxed::SandboxedExecutor>; 2],
    place: &Place,
    token: &Token,
) -> kinds::Counts {
    let (next, mut hands) = (Arc::new(AtomicUsize::new(range.start)), tokio::task::JoinSet::new());
    for number in 0..HANDS {
        let mut hand = Hand::new(number, executors.clone(), place, token.clone());
        let (next, end) = (Arc::clone(&next), range.end);
        hands.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return hand.finish().await;
                }
                hand.one(number).await;
            }
        });
    }
    let mut counts = kinds::Counts::default();
    for hand in hands.join_all().await {
        counts.add(&hand);
    }
    for executor in executors {
        executor.end_session("one");
    }
    counts
}
