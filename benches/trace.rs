//! What the trace witness costs work that touches many files: the same work unconfined, confined, and confined and
//! traced, in alternation.
//!
//! `cargo bench --bench trace [-- ROUNDS [WORK]]` prints a table. The time is the work's own, taken by the shell that does
//! it (`benches/paired` has what starting costs); each ratio is the median over the rounds of the ratio to the
//! unconfined run of the same round, so a machine whose speed drifts slows both alike. `STOCKADE_BENCH_PROGRAM` names
//! another build to measure.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails by panicking, and says what it found")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const DEFAULT_ROUNDS: usize = 21;
const FILES: usize = 3000;

/// Name, and what a shell in the prepared directory does. `{n}` is a number that is new for each run.
const WORKS: [(&str, &str); 6] = [
    ("git clone of 3000 files", "git clone -q origin clone{n}"),
    ("untar 3000 files", "mkdir tar{n} && tar -C tar{n} -xf tree.tar"),
    ("grep -r through 3000 files, 5 times", "for i in 1 2 3 4 5; do grep -r 'file 7' tree > found{n}; done"),
    ("compile 8 files of C", "for f in c/*.c; do cc -O1 -c -o o{n}.o $f; done"),
    ("remove 3000 files", "rm -r spare{n}"),
    ("make and fill 3000 files", "mkdir f{n} && for i in {1..3000}; do echo x > f{n}/$i; done"),
];

/// After the program: unconfined, confined, confined and traced.
const WAYS: [&[&str]; 3] = [
    &["-c"],
    &["run", "--mode", "workspace-write", "--trace", "off", "-c"],
    &["run", "--mode", "workspace-write", "--trace", "on", "-c"],
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let rounds = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_ROUNDS);
    let only = arguments.get(1);
    let directory = tempfile::Builder::new().prefix("trace-bench").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    prepare(directory.path());
    println!("{:<38} {:>13} {:>10} {:>9} {:>8}", "", "unconfined ms", "confined", "traced", "added");
    for (name, work) in WORKS.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only.as_str()))) {
        measure(name, work, rounds, directory.path());
    }
}

fn measure(name: &str, work: &str, rounds: usize, directory: &Path) {
    let mut times = [const { Vec::new() }; WAYS.len()];
    let mut number = 0;
    for round in 0..=rounds {
        for offset in 0..WAYS.len() {
            // Each way is as often the first of a round as the others.
            let way = (round + offset) % WAYS.len();
            number += 1;
            if work.contains("spare") {
                sh(directory, &format!("cp -a tree spare{number}"));
            }
            let took = run(directory, WAYS[way], &work.replace("{n}", &number.to_string()));
            sh(directory, &format!("rm -rf clone{number} tar{number} f{number} found{number} o{number}.o"));
            if round > 0 {
                times[way].push(took);
            }
        }
    }
    let [plain, confined, traced] = &times;
    let ratio = |a: &[f64], b: &[f64]| median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>());
    println!(
        "{name:<38} {:>13.1} {:>10.3} {:>9.3} {:>8.3}",
        median(plain),
        ratio(confined, plain),
        ratio(traced, plain),
        ratio(traced, confined)
    );
}

/// Milliseconds that the work took by the shell's own clock.
fn run(directory: &Path, way: &[&str], work: &str) -> f64 {
    let script = format!("a=$EPOCHREALTIME; {work}; s=$?; echo $a $EPOCHREALTIME; exit $s");
    let stockade = std::env::var_os("STOCKADE_BENCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_stockade").into());
    let mut command = if way.len() == 1 { Command::new("bash") } else { Command::new(stockade) };
    command.args(way).arg(script).current_dir(directory).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{way:?} {work}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut clock = text.split_whitespace().map(|word| word.parse::<f64>().unwrap());
    let (began, ended) = (clock.next().unwrap(), clock.next().unwrap());
    (ended - began) * 1000.0
}

fn prepare(directory: &Path) {
    for part in 0..FILES / 30 {
        let place = directory.join(format!("tree/d{}/e{part}", part % 10));
        fs::create_dir_all(&place).unwrap();
        for file in 0..30 {
            let line = format!("line of file {file} in part {part}\n");
            fs::write(place.join(format!("f{file}.txt")), line.repeat(40)).unwrap();
        }
    }
    fs::create_dir(directory.join("c")).unwrap();
    for file in 0..8 {
        let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        for function in 0..60 {
            writeln!(text, "int f{file}_{function}(int x) {{ return printf(\"%d\", x * {function} + abs(x)); }}")
                .unwrap();
        }
        fs::write(directory.join(format!("c/c{file}.c")), text).unwrap();
    }
    sh(directory, "tar -cf tree.tar tree");
    sh(
        directory,
        "cp -r tree origin && cd origin && git init -q . && git add . && git -c user.name=b -c user.email=b@b commit -qm 1 && git gc -q",
    );
}

fn sh(directory: &Path, line: &str) {
    let status = Command::new("bash").args(["-ec", line]).current_dir(directory).stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "{line}");
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
