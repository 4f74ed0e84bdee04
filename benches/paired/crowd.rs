//! Many commands at once.

use std::sync::Arc;
use std::time::Instant;

use stockade::executor::{BashExecutor, ExecRequest, Timeout};
use stockade::sandboxed::TraceChoice;

use super::figures::{Figures, Times};
use super::spawn::{confined, local, run_true, runtime};

/// Commands of one measurement.
const BATCH: usize = 128;
/// Idle background tasks.
const IDLE: usize = 1000;

/// Milliseconds a command, when so many run at any one time.
pub(crate) fn throughput(rounds: usize, figures: &mut Figures) {
    for at_once in [1, 2, 8, 64] {
        let mut times = Times::of(&["local executor", "confined, traced", "confined, not traced"]);
        runtime().block_on(async {
            let executors: [Arc<dyn BashExecutor>; 3] =
                [Arc::new(local()), Arc::new(confined(TraceChoice::Auto)), Arc::new(confined(TraceChoice::Off))];
            for round in 0..=(rounds / 10).max(3) {
                let mut took = Vec::new();
                for executor in &executors {
                    took.push(batch(executor, at_once).await);
                }
                // The first round starts the launchers.
                if round > 0 {
                    times.add(took);
                }
            }
            for executor in &executors {
                executor.dispose().await;
            }
        });
        figures.take(&format!("{at_once} at once"), "ms a command", &times);
    }
}

async fn batch(executor: &Arc<dyn BashExecutor>, at_once: usize) -> f64 {
    let began = Instant::now();
    let workers = (0..at_once).map(|_| {
        let executor = Arc::clone(executor);
        tokio::spawn(async move {
            for _ in 0..BATCH / at_once {
                run_true(&*executor).await;
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    began.elapsed().as_secs_f64() * 1000.0 / BATCH as f64
}

/// What a thousand background commands that wait cost the program that embeds the library, and the machine.
pub(crate) fn idle_tasks(_: usize, figures: &mut Figures) {
    runtime().block_on(async {
        let executor = confined(TraceChoice::Auto);
        let before = (own_kib(), available_kib());
        let mut tasks = Vec::new();
        for _ in 0..IDLE {
            let request = ExecRequest { timeout: Timeout::None, ..ExecRequest::shell("exec sleep 1000") };
            let spec = executor.resolve(request).unwrap();
            tasks.push(executor.start(spec).await.unwrap());
        }
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let after = (own_kib(), available_kib());
        let mut times = Times::of(&["host process", "whole machine"]);
        times.add([(after.0 - before.0) / IDLE as f64, (before.1 - after.1) / IDLE as f64]);
        figures.take("idle background task", "KiB each", &times);
        executor.dispose().await;
    });
}

/// Resident size of this process.
fn own_kib() -> f64 {
    field("/proc/self/status", "VmRSS:")
}

fn available_kib() -> f64 {
    field("/proc/meminfo", "MemAvailable:")
}

fn field(file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
