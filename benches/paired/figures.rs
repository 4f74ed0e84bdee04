//! Times, and what becomes of them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that was measured, by name.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures(BTreeMap<String, Figure>);

/// One way of a group.
#[derive(Debug, Serialize)]
struct Figure {
    unit: &'static str,
    least: f64,
    median: f64,
    /// Median of the ratios to the first way of the group.
    ratio: f64,
}

/// The ways of one group and what each took in each round; the first is what the others are compared with.
#[derive(Debug)]
pub(crate) struct Times(Vec<(String, Vec<f64>)>);

impl Times {
    pub(crate) fn of(ways: &[&str]) -> Self {
        Self(ways.iter().map(|way| ((*way).to_owned(), Vec::new())).collect())
    }

    /// Adds one round.
    pub(crate) fn add(&mut self, took: impl IntoIterator<Item = f64>) {
        self.0.iter_mut().zip(took).for_each(|((_, times), took)| times.push(took));
    }
}

impl Figures {
    /// Prints a group and keeps it.
    pub(crate) fn take(&mut self, group: &str, unit: &'static str, times: &Times) {
        println!("{:<48} {:>10} {:>10} {:>7}", format!("{group} ({unit})"), "least", "median", "ratio");
        let base = &times.0[0].1;
        for (way, times) in &times.0 {
            let ratios: Vec<f64> = times.iter().zip(base).map(|(time, base)| time / base).collect();
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let figure = Figure { unit, least, median: median(times), ratio: median(&ratios) };
            println!("{way:<48} {:>10.2} {:>10.2} {:>7.2}", figure.least, figure.median, figure.ratio);
            self.0.insert(format!("{group}: {way}"), figure);
        }
        println!();
    }

    /// Where the environment says.
    pub(crate) fn write(&self) {
        if let Some(path) = std::env::var_os("STOCKADE_BENCH_JSON") {
            std::fs::write(path, serde_json::to_string_pretty(self).unwrap()).unwrap();
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
