//! Whole programs, as a shell would start them: stockade beside bubblewrap with equal namespaces, and beside nothing.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::figures::{Figures, Times};

const WARM_UP: usize = 5;

pub(crate) fn whole(rounds: usize, figures: &mut Figures) {
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
    let mut times = Times::of(&ways.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for round in 0..rounds + WARM_UP {
        let took: Vec<f64> = ways.iter().map(|(_, words)| milliseconds(words)).collect();
        if round >= WARM_UP {
            times.add(took);
        }
    }
    figures.take("whole programs", "ms", &times);
}

fn milliseconds(words: &[&str]) -> f64 {
    let began = Instant::now();
    let mut program = Command::new(words[0]);
    program.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(program.status().unwrap().success(), "{words:?}");
    began.elapsed().as_secs_f64() * 1000.0
}
