//! What starting a command costs: pairs of ways measured in alternation, medians and ratios.
//!
//! `cargo bench --bench spawn [-- ROUNDS]` prints a table; `STOCKADE_BENCH_JSON=FILE` writes the figures too. Each round
//! runs every way once, so a machine whose speed drifts slows all of them alike; the ratio is the median of the ratios
//! of one round.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails by panicking, and says what it found")]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use stockade::executor::{BashExecutor, ExecRequest, Timeout};
use stockade::local::{LocalConfig, LocalExecutor};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor, TraceChoice};

const DEFAULT_ROUNDS: usize = 60;
const WARM_UP: usize = 5;
/// What the large host holds, bytes.
const LARGE: usize = 1 << 30;

fn main() {
    stockade::launcher::enter();
    let rounds = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(DEFAULT_ROUNDS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut figures = runtime.block_on(library(rounds, ""));
    // Touched, so that it is resident and would have to be copied by a fork.
    let ballast = vec![1_u8; LARGE];
    figures.extend(runtime.block_on(library(rounds, ", host of 1 GiB")));
    assert_eq!(ballast.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>(), LARGE / 4096);
    drop(ballast);
    figures.extend(programs(rounds));
    report(&figures);
}

/// Milliseconds of each round, by what was measured; the first of a group is what the others are compared with.
type Group = Vec<(String, Vec<f64>)>;

async fn library(rounds: usize, suffix: &str) -> Vec<Group> {
    let local = LocalExecutor::new(LocalConfig::default()).unwrap();
    let traced = confined(TraceChoice::Auto);
    let untraced = confined(TraceChoice::Off);
    let mut group: Group = ["local executor", "confined, traced", "confined, not traced"]
        .map(|name| (format!("{name}{suffix}"), Vec::new()))
        .into();
    for round in 0..rounds + WARM_UP {
        let took = [spawn(&local).await, spawn(&traced).await, spawn(&untraced).await];
        if round >= WARM_UP {
            group.iter_mut().zip(took).for_each(|((_, times), took)| times.push(took));
        }
    }
    for executor in [&traced, &untraced] {
        executor.dispose().await;
    }
    local.dispose().await;
    vec![group]
}

fn confined(trace: TraceChoice) -> SandboxedExecutor {
    let host = HostPaths::of_process().unwrap();
    let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, host.cwd.clone());
    let mut config = SandboxedConfig::new(Arc::new(LayeredPolicy::new(request, host).unwrap()));
    config.trace = trace;
    SandboxedExecutor::new(config).unwrap()
}

async fn spawn(executor: &dyn BashExecutor) -> f64 {
    let request = ExecRequest { timeout: Timeout::None, ..ExecRequest::shell("true") };
    let spec = executor.resolve(request).unwrap();
    let began = Instant::now();
    let result = executor.run(spec).await.unwrap();
    let took = began.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(result.exit_code, Some(0), "{result:?}");
    took
}

/// Whole programs, as a shell would start them.
fn programs(rounds: usize) -> Vec<Group> {
    let stockade = env!("CARGO_BIN_EXE_stockade");
    let bubblewrap = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"];
    let command = ["bash", "-c", "true"];
    let mut ways: Vec<(&str, Vec<&str>)> = vec![("bash -c true", command.to_vec())];
    if Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        ways.push(("bwrap, every namespace", [&bubblewrap[..], &["--unshare-all", "--"], &command].concat()));
    } else {
        println!("NOT MEASURED: bubblewrap is not installed");
    }
    ways.push(("stockade run", [&[stockade, "run", "--"][..], &command].concat()));
    ways.push(("stockade run --trace off", [&[stockade, "run", "--trace", "off", "--"][..], &command].concat()));
    let mut group: Group = ways.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    for round in 0..rounds + WARM_UP {
        for ((_, words), (_, times)) in ways.iter().zip(&mut group) {
            let began = Instant::now();
            let mut program = Command::new(words[0]);
            program.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            assert!(program.status().unwrap().success(), "{words:?}");
            if round >= WARM_UP {
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }
    vec![group]
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn report(groups: &[Group]) {
    let mut figures = BTreeMap::new();
    println!("{:<40} {:>9} {:>9} {:>7}", "", "min ms", "median", "ratio");
    for group in groups {
        let base = &group[0].1;
        for (name, times) in group {
            let ratio = median(&times.iter().zip(base).map(|(time, base)| time / base).collect::<Vec<_>>());
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            println!("{name:<40} {least:>9.2} {:>9.2} {ratio:>7.2}", median(times));
            figures.insert(name.clone(), (least, median(times), ratio));
        }
        println!();
    }
    if let Some(path) = std::env::var_os("STOCKADE_BENCH_JSON") {
        std::fs::write(path, serde_json::to_string_pretty(&figures).unwrap()).unwrap();
    }
}
