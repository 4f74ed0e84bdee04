//! The text of a result.
//!
//! Order: standard output; `[stderr]` and standard error; the sandbox's lines; `[timed out after Nms]`;
//! `[killed by signal: NAME]` or `[exit code: N]`, which is thus the last line of all. The notice
//! `[output truncated; full output: PATH]` stands right behind the stream it speaks of, because each stream is kept and
//! spilled on its own; so it comes before every other marker.

#![forbid(unsafe_code)]

use super::TaskRead;
use super::marker::{loss_line, sandbox_lines, status_lines, truncated_line};
use crate::executor::{RunResult, StreamCapture};

/// The text of a foreground run. `offered` tells whether an escalation could be asked for after a denial.
#[must_use]
pub fn render_run(result: &RunResult, offered: bool) -> String {
    let mut lines = result.sandbox.as_ref().map_or_else(Vec::new, |report| sandbox_lines(report, offered));
    lines.extend(status_lines(result));
    finish(body(&stream(&result.stdout), &stream(&result.stderr), "(no output)"), &lines)
}

/// The text of a read of a background task.
#[must_use]
pub fn render_output(read: &TaskRead, offered: bool) -> String {
    let mut lines = Vec::new();
    if read.lossy {
        let spills: Vec<_> =
            [&read.stdout_spill, &read.stderr_spill].into_iter().flatten().map(AsRef::as_ref).collect();
        lines.push(loss_line(&spills));
    }
    if let Some(report) = &read.sandbox {
        lines.extend(sandbox_lines(report, offered));
    }
    lines.push(format!("[status: {}]", read.status));
    finish(body(&read.stdout, &read.stderr, "(no new output)"), &lines)
}

fn stream(capture: &StreamCapture) -> String {
    if !capture.truncated {
        return capture.text.clone();
    }
    let mut text = capture.text.clone();
    end_line(&mut text);
    text.push_str(&truncated_line(capture.spill_path.as_deref()));
    text
}

fn body(stdout: &str, stderr: &str, nothing: &str) -> String {
    let mut body = stdout.to_owned();
    if !stderr.is_empty() {
        end_line(&mut body);
        body.push_str("[stderr]\n");
        body.push_str(stderr);
    }
    if body.is_empty() {
        body.push_str(nothing);
    }
    body
}

fn finish(mut text: String, lines: &[String]) -> String {
    if !lines.is_empty() {
        end_line(&mut text);
        text.push_str(&lines.join("\n"));
    }
    text
}

/// Starts a new line unless one has just been started.
fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
