//! Reports for people.

#![forbid(unsafe_code)]

mod html;
mod page;
mod text;

pub use html::html;
pub use text::text;

use super::judge::Status;
use super::report::{CellReport, CellResult, Report};
use crate::executor::{Enforcement, Gap};

impl Report {
    /// The verdict in one sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let broken: usize = self.modes.iter().map(|mode| mode.counts.broken).sum();
        let untried = self.modes.iter().filter(|mode| mode.refused.is_some()).count();
        let gaps = self.modes.iter().any(|mode| !mode.gaps.is_empty());
        match (broken, untried, gaps) {
            _ if self.modes.is_empty() => "No mode that confines was asked for, so nothing is promised.".to_owned(),
            (0, 0, false) => "Every promise is kept on this host.".to_owned(),
            (0, 0, true) => "Every promise is kept on this host, but for the gaps that each result names.".to_owned(),
            (0, _, _) => "Not every mode can run on this host, so its promises could not be tried.".to_owned(),
            (1, _, _) => "One promise is NOT kept on this host.".to_owned(),
            (many, _, _) => format!("{many} promises are NOT kept on this host."),
        }
    }
}

/// Each gap once, with the modes that have it.
fn gaps(report: &Report) -> Vec<(Gap, String, &'static str)> {
    let mut merged: Vec<(Gap, String, &'static str)> = Vec::new();
    for (mode, gap) in report.modes.iter().flat_map(|mode| mode.gaps.iter().map(move |gap| (mode.mode, gap))) {
        match merged.iter_mut().find(|(name, _, _)| *name == gap.name) {
            Some((_, modes, _)) => modes.push_str(&format!(", {mode}")),
            None => merged.push((gap.name, mode.to_string(), gap.meaning)),
        }
    }
    merged
}

const fn enforcement(enforcement: Enforcement) -> &'static str {
    match enforcement {
        Enforcement::Full => "full enforcement",
        Enforcement::Partial => "partial enforcement",
        Enforcement::None => "no enforcement",
    }
}

/// Operation and place in one line.
fn name(cell: &CellReport) -> String {
    format!("{} {}", cell.operation, cell.place).trim_end().to_owned()
}

/// What became of it, and where that is not what was promised, what it comes to.
fn outcome(result: &CellResult) -> String {
    let found = result.evidence.outcome.as_str();
    match (result.status, result.gap) {
        (Status::Kept, _) => found.to_owned(),
        (Status::Gap, Some(gap)) => format!("{found} (gap {})", gap.as_str()),
        (status, _) => format!("{found}: {}", status.as_str()),
    }
}

/// What was seen, in one line.
fn evidence(result: &CellResult) -> String {
    let mut text = result.evidence.inside.clone();
    if !result.evidence.host.is_empty() {
        text.push_str(&format!("; the host: {}", result.evidence.host));
    }
    for denial in &result.denials {
        text.push_str(&format!("; reported: {denial}"));
    }
    if let Some(rule) = &result.rule {
        text.push_str(&format!("; the policy allows it: {rule}"));
    }
    text
}
