//! The marker lines: how each is written, and the one that is read back.
//!
//! What stands inside a marker may come from a command (a file name, a process name), so it is escaped: no name can end
//! its line and begin another.

#![forbid(unsafe_code)]

use std::path::Path;

use crate::approval::escape_line;
use crate::denial::{Denial, DenialClass, Grant};
use crate::executor::{RunResult, SandboxReport};
use crate::policy::SandboxMode;
use crate::session::ExitStatus;

/// How many single denials a result names.
const DENIAL_LINES: usize = 5;
/// How many objects a hint spells out; more are better served by a mode.
const HINT_OBJECTS: usize = 5;

/// The lines that tell of a denial, hint included; none when nothing blocked the command.
///
/// Only blocking denials appear: refusals in passing did not fail the command and would mislead. `offered` tells whether
/// an escalation could be asked for at all.
pub(super) fn sandbox_lines(report: &SandboxReport, offered: bool) -> Vec<String> {
    if !report.denied {
        return Vec::new();
    }
    let blocking: Vec<&Denial> = report.denials.iter().filter(|denial| denial.blocking).collect();
    let class = blocking.first().map_or(DenialClass::FileAccess, |first| first.kind.class());
    let mut lines = vec![format!("[sandbox: {} denied under {} mode]", class.as_str(), report.mode)];
    let mut named: Vec<String> = Vec::new();
    for denial in &blocking {
        let process = denial.process.as_ref().map_or("unknown", |process| process.comm.as_str());
        let (target, process) = (escape_line(&denial.target()), escape_line(process));
        let line = format!("[sandbox: denied {} {target} by {process}]", denial.kind);
        if !named.contains(&line) {
            named.push(line);
        }
        if named.len() == DENIAL_LINES {
            break;
        }
    }
    lines.extend(named);
    if offered {
        lines.extend(hint(report.mode, &blocking, report.denials_omitted));
    }
    lines
}

/// What would cure every blocking denial, or nothing: a retry that runs into the next wall helps nobody.
fn hint(mode: SandboxMode, blocking: &[&Denial], omitted: u64) -> Option<String> {
    if blocking.is_empty() {
        return None;
    }
    let wider: Option<SandboxMode> =
        blocking.iter().map(|denial| denial.widen_to).try_fold(mode, |widest, to| to.map(|to| widest.max(to)));
    let wider = wider.filter(|to| *to > mode).map(|to| format!("sandbox_permissions \"{to}\""));
    // Denials that are not listed cannot be in the grant.
    let extra = if omitted == 0 { union(blocking) } else { None };
    let ways: Vec<String> = extra.into_iter().chain(wider).collect();
    if ways.is_empty() {
        return None;
    }
    Some(format!(
        "[sandbox: escalation available: if the task needs this access, retry this exact command once, now, with a justification and {}; the approval prompt asks the user]",
        ways.join(" or ")
    ))
}

fn union(blocking: &[&Denial]) -> Option<String> {
    let mut all = Grant::default();
    for denial in blocking {
        let grant = denial.grant.as_ref().filter(|grant| !grant.is_empty())?;
        extend(&mut all.write, &grant.write);
        extend(&mut all.read, &grant.read);
        extend(&mut all.network, &grant.network);
    }
    let objects = all.write.len() + all.read.len() + all.network.len();
    // A path that is no UTF-8 cannot be written in JSON, hence not be asked for.
    let json = serde_json::to_string(&all).ok().filter(|_| objects <= HINT_OBJECTS)?;
    Some(format!("additional_permissions {}", escape_line(&json)))
}

fn extend<T: Clone + PartialEq>(all: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
}

/// The lines that tell how a run ended, the last of all.
pub(super) fn status_lines(result: &RunResult) -> Vec<String> {
    let mut lines = Vec::new();
    // Whatever became of the process: one that traps SIGTERM and exits 0 was still cut short.
    if result.timed_out {
        lines.push(format!("[timed out after {}ms]", result.timeout_ms));
    }
    match exit_status(result) {
        Some(ExitStatus::Signal(name)) => lines.push(format!("[killed by signal: {}]", escape_line(&name))),
        Some(ExitStatus::ExitCode(code)) if code != 0 => lines.push(format!("[exit code: {code}]")),
        Some(ExitStatus::ExitCode(_)) | None => {}
    }
    lines
}

/// How the process of a run ended.
pub(super) fn exit_status(result: &RunResult) -> Option<ExitStatus> {
    match (&result.signal, result.exit_code) {
        (Some(name), _) => Some(ExitStatus::Signal(name.clone())),
        (None, Some(code)) => Some(ExitStatus::ExitCode(code)),
        (None, None) => None,
    }
}

/// The notice that a stream is not complete.
pub(super) fn truncated_line(path: Option<&Path>) -> String {
    format!("[output truncated; full output: {}]", path_or_unavailable(path.as_slice()))
}

/// The notice that a read missed something.
pub(super) fn loss_line(paths: &[&Path]) -> String {
    format!("[some output was dropped from memory; full output: {}]", path_or_unavailable(paths))
}

fn path_or_unavailable(paths: &[&Path]) -> String {
    if paths.is_empty() {
        return "(unavailable)".to_owned();
    }
    paths.iter().map(|path| escape_line(&path.display().to_string())).collect::<Vec<_>>().join(", ")
}

/// Reads the exit status back out of a result's text: its last line, when that is such a marker, else exit code 0.
///
/// For replays of logs that kept nothing but the text. A command that succeeds and whose own last line is spelled like a
/// marker cannot be told from one that failed, which is why the status is carried beside the text everywhere else.
#[must_use]
pub fn parse_exit_status(text: &str) -> ExitStatus {
    let last = text.rsplit_once('\n').map(|(_, last)| last);
    let inside = |prefix: &str| last.and_then(|line| line.strip_prefix(prefix)).and_then(|rest| rest.strip_suffix(']'));
    if let Some(name) = inside("[killed by signal: ").filter(|name| !name.is_empty() && !name.contains(']')) {
        return ExitStatus::Signal(name.to_owned());
    }
    let code = inside("[exit code: ").and_then(|code| code.parse().ok());
    ExitStatus::ExitCode(code.unwrap_or(0))
}
