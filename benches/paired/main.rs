//! What stockade costs beside running a command without it, and beside its peers.
//!
//! `cargo bench --bench paired [-- [GROUP...] [--rounds N]]` prints tables; `STOCKADE_BENCH_JSON=FILE` writes the figures
//! too. Each round runs every way of a group once, so a machine whose speed drifts slows all of them alike; what counts
//! is the ratio, the median of the ratios of single rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails by panicking, and says what it found")]

mod capture;
mod crowd;
mod figures;
mod policies;
mod programs;
mod spawn;

use figures::Figures;

const DEFAULT_ROUNDS: usize = 60;

/// A group: its name, and what measures it in so many rounds.
type Group = (&'static str, fn(usize, &mut Figures));

const GROUPS: [Group; 9] = [
    ("spawn", spawn::warm),
    ("cold", spawn::cold),
    ("large-host", spawn::from_a_large_host),
    ("throughput", crowd::throughput),
    ("idle", crowd::idle_tasks),
    ("capture", capture::gigabyte),
    ("rules", policies::rules),
    ("files", policies::files),
    ("programs", programs::whole),
];

fn main() {
    // This program is its executors' launcher too.
    stockade::launcher::enter();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mut rounds = DEFAULT_ROUNDS;
    let mut wanted = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().and_then(|number| number.parse().ok()).expect("--rounds N"),
            _ => wanted.push(argument),
        }
    }
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.iter().any(|(known, _)| known == name)) {
        panic!("no group '{unknown}': {:?}", GROUPS.map(|(name, _)| name));
    }
    let mut figures = Figures::default();
    for (name, measure) in GROUPS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|one| one == name)) {
        println!("== {name}");
        measure(rounds, &mut figures);
    }
    figures.write();
}
