//! The report for a terminal.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

use super::{enforcement, evidence, gaps, name, outcome};
use crate::approval::escape_line;
use crate::executor::Gap;
use crate::verify::cell::{Group, Outcome};
use crate::verify::judge::Status;
use crate::verify::report::{CellReport, ModeReport, Report};

/// Width of a column of a mode.
const MODE: usize = 18;

/// The whole report: a table, and below it what is not as promised.
#[must_use]
pub fn text(report: &Report) -> String {
    let who = if report.host.uid == 0 { "root".to_owned() } else { format!("uid {}", report.host.uid) };
    let mut text = format!("stockade {}, Linux {}, {who}\n\n", report.version, report.host.kernel);
    for mode in &report.modes {
        text.push_str(&summary(mode));
    }
    text.push('\n');
    let names = report.cells.iter().map(|cell| name(cell).chars().count()).max().unwrap_or(0) + 4;
    text.push_str(&head(report, names));
    for group in Group::ALL {
        let mut cells = report.cells.iter().filter(|cell| cell.group == group).peekable();
        if cells.peek().is_some() {
            text.push_str(&format!("{}\n", group.title()));
        }
        cells.for_each(|cell| text.push_str(&row(cell, names)));
    }
    text.push_str(&named_gaps(report));
    text.push_str(&findings(report));
    text.push_str(&unproven(report));
    text.push_str(&format!("\n{} ({:.1} s)\n", report.verdict(), seconds(report)));
    text
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds of a run")]
fn seconds(report: &Report) -> f64 {
    report.duration_ms as f64 / 1000.0
}

fn summary(mode: &ModeReport) -> String {
    let counts = &mode.counts;
    let state = match (&mode.refused, mode.enforcement) {
        (Some(why), _) => format!("cannot run: {}", escape_line(why)),
        (None, Some(level)) => format!(
            "{} by {}: {} kept, {} in gaps, {} not kept",
            enforcement(level),
            mode.backend,
            counts.kept,
            counts.gap,
            counts.broken
        ),
        (None, None) => "unknown".to_owned(),
    };
    format!("  {:<MODE$} {state}\n", mode.mode.as_str())
}

fn head(report: &Report, names: usize) -> String {
    let mut line = " ".repeat(names);
    for mode in report.modes.iter().filter(|mode| mode.refused.is_none()) {
        write!(line, "{:<MODE$}", mode.mode.as_str()).unwrap_or_default();
    }
    format!("{}without stockade\n", line)
}

fn row(cell: &CellReport, names: usize) -> String {
    let mark = if cell.results.iter().any(|result| result.status == Status::Broken) { "!" } else { " " };
    let mut line = format!("{mark} {:<width$}", name(cell), width = names - 2);
    for result in &cell.results {
        let short = match result.status {
            Status::Kept => result.evidence.outcome.as_str(),
            Status::Gap => "gap",
            other => other.as_str(),
        };
        write!(line, "{short:<MODE$}").unwrap_or_default();
    }
    format!("{}{}\n", line, cell.control.outcome.as_str())
}

fn named_gaps(report: &Report) -> String {
    let line = |(gap, modes, meaning): (Gap, String, &str)| format!("  {} ({modes})\n      {meaning}\n", gap.as_str());
    let text: String = gaps(report).into_iter().map(line).collect();
    if text.is_empty() { text } else { format!("\nGaps: what this host does not let stockade keep\n{text}") }
}

fn findings(report: &Report) -> String {
    let mut text = String::new();
    for cell in &report.cells {
        for result in cell.results.iter().filter(|result| result.status == Status::Broken) {
            let (name, outcome) = (name(cell), outcome(result));
            let expected = result.expected.as_str();
            text.push_str(&format!("  {name}, {}: {outcome}, promised: {expected}\n", result.mode));
            text.push_str(&format!("      {}\n", escape_line(&evidence(result))));
        }
    }
    if text.is_empty() { text } else { format!("\nNOT KEPT\n{text}") }
}

/// Refusals that prove less, because the host refuses the same without stockade.
fn unproven(report: &Report) -> String {
    let count = report.cells.iter().filter(|cell| !cell.proven() && cell.control.outcome != Outcome::NoAnswer).count();
    match count {
        0 => String::new(),
        _ => format!(
            "\n{count} operations are refused to this user without stockade as well, or are not to be had here.\n"
        ),
    }
}
