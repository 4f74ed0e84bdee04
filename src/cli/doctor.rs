//! `stockade doctor`: what this host can enforce, what is missing and how to get it.

use std::io::Write;
use std::process::ExitCode;

use stockade::approval::escape_line;
use stockade::doctor::{Feature, ModeReport, Report, examine};
use stockade::executor::Enforcement;
use stockade::launcher::LauncherPath;

use super::args::DoctorArgs;
use super::exit::Failure;
use super::run::runtime;

/// Width that every terminal has.
const WIDTH: usize = 80;
/// Where the text beside a name begins.
const INDENT: usize = 23;

/// Examines and reports; 1 when the confining modes cannot run at all.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let report = runtime()?.block_on(examine(&LauncherPath::Auto))?;
    let text = if args.json {
        serde_json::to_string(&report)
            .map(|text| text + "\n")
            .map_err(|error| Failure::cannot(format!("the report cannot be written as JSON: {error}")))?
    } else {
        shown(&report)
    };
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot(format!("the report cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(ExitCode::from(u8::from(!report.usable))),
    }
}

fn shown(report: &Report) -> String {
    let who = if report.uid == 0 { "root".to_owned() } else { format!("uid {}", report.uid) };
    let mut text = format!("Linux {}, {who}\n\nModes\n", report.kernel);
    text.push_str(&modes(report, "auto"));
    // Where namespaces can be had they are what a mode takes by itself.
    let refused = |mode: &ModeReport| mode.backend == "namespaces" && mode.enforcement.is_none();
    if report.modes.iter().any(refused) {
        text.push_str("\nThe same with --backend namespaces\n");
        text.push_str(&modes(report, "namespaces"));
    }
    text.push_str("\nThe same with --backend landlock\n");
    text.push_str(&modes(report, "landlock"));
    let (there, missing): (Vec<&Feature>, Vec<&Feature>) = report.features.iter().partition(|feature| feature.present);
    text.push_str("\nWorks here\n");
    for feature in there {
        text.push_str(&entry(feature.name, &feature.found));
    }
    if !missing.is_empty() {
        text.push_str("\nMissing\n");
    }
    for feature in missing {
        text.push_str(&entry(feature.name, &feature.found));
        for (word, what) in [("lost", &feature.lost), ("to get it", &feature.remedy)] {
            if let Some(what) = what {
                text.push_str(&wrapped(&format!("{word}: {what}"), INDENT, INDENT));
            }
        }
    }
    let verdict = if report.usable { "Commands can be confined here." } else { "Commands cannot be confined here." };
    text + "\n" + verdict + "\n"
}

fn modes(report: &Report, backend: &str) -> String {
    let modes = report.modes.iter().filter(|mode| mode.backend == backend);
    modes.map(|mode| entry(mode.mode.as_str(), &outcome(mode))).collect()
}

fn outcome(mode: &ModeReport) -> String {
    let enforcement = match mode.enforcement {
        Some(Enforcement::Full) => "full enforcement",
        Some(Enforcement::Partial) => "partial enforcement",
        Some(Enforcement::None) => "confines nothing, as its name says",
        None => return format!("cannot run: {}", mode.refused.as_deref().unwrap_or("unknown")),
    };
    if mode.gaps.is_empty() {
        return enforcement.to_owned();
    }
    let gaps: Vec<_> = mode.gaps.iter().map(|gap| gap.as_str()).collect();
    format!("{enforcement}; gaps: {}", gaps.join(", "))
}

/// A name and a text beside it.
fn entry(name: &str, what: &str) -> String {
    let first = format!("  {name:<width$}", width = INDENT - 2);
    first + wrapped(&escape_line(what), 0, INDENT).as_str()
}

/// Words within the width; the first line begins after `first` spaces, every other after `rest`.
fn wrapped(what: &str, first: usize, rest: usize) -> String {
    let mut text = " ".repeat(first);
    let mut column = rest;
    for (number, word) in what.split_whitespace().enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(rest));
            column = rest;
        } else if number > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text + "\n"
}
