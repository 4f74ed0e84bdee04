//! The words in which a person is asked, for prompts that show text: every adapter says the same.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::{ApprovalRequest, Asks, escape_block, escape_line};
use crate::denial::Grant;

/// The question as plain text, every foreign character in it made harmless.
///
/// It names the exact command, where and how it would run, the mode now and what is asked for, the justification, and
/// the denials it rests on. It does not name the buttons: those are the prompt's own.
#[must_use]
pub fn question(request: &ApprovalRequest) -> String {
    let mut lines = vec!["Run this once, with more than its sandbox allows?".to_owned(), String::new()];
    lines.push(escape_block(&request.command, "    "));
    lines.push(String::new());
    if let Some(workdir) = &request.workdir {
        lines.push(format!("in: {}", shown(workdir)));
    }
    if request.background {
        lines.push("how: in the background, without a time limit".to_owned());
    }
    lines.push(format!("mode now: {}", request.mode));
    lines.extend(wishes(request));
    lines.push(format!("because: {}", escape_line(&request.justification)));
    if request.grounds.is_empty() {
        lines.push("denied: nothing so far; this is asked up front".to_owned());
    }
    for denial in &request.grounds {
        lines.push(format!("denied: {} {}", denial.kind, escape_line(&denial.target())));
    }
    lines.join("\n")
}

fn wishes(request: &ApprovalRequest) -> Vec<String> {
    match &request.asks {
        Asks::Mode(mode) if mode.confines() => {
            vec![format!("asks for: {mode} (workspace {})", shown(&request.workspace))]
        }
        Asks::Mode(mode) => vec![format!("asks for: {mode}: NO CONFINEMENT AT ALL")],
        Asks::Extra { grant, protected } => {
            let mut lines = grants(grant);
            lines.extend(protected.iter().map(|path| {
                format!("PROTECTED: {}: what is written here can make other programs run code later", shown(path))
            }));
            lines
        }
    }
}

fn grants(grant: &Grant) -> Vec<String> {
    let paths = |verb: &str, list: &[PathBuf]| -> Vec<String> {
        list.iter().map(|path| format!("asks to {verb}: {}", shown(path))).collect()
    };
    let mut lines = paths("write", &grant.write);
    lines.extend(paths("read", &grant.read));
    lines.extend(grant.network.iter().map(|entry| format!("asks to reach: {}", escape_line(entry))));
    lines
}

fn shown(path: &Path) -> String {
    escape_line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::SandboxMode;

    #[test]
    fn everything_is_named_and_nothing_forged() {
        let grant = Grant {
            write: vec!["/w/.git/hooks".into()],
            read: vec!["/r".into()],
            network: vec!["crates.io:443".to_owned()],
        };
        let mut request = ApprovalRequest {
            tool: "bash".to_owned(),
            session: "s".to_owned(),
            workspace: "/w".into(),
            command: "echo a\nmode now: fake\x1b[2J".to_owned(),
            workdir: Some("/w/sub".into()),
            background: true,
            mode: SandboxMode::ReadOnly,
            asks: Asks::Extra { grant, protected: vec!["/w/.git/hooks".into()] },
            justification: "so\nasks for: nothing".to_owned(),
            grounds: Vec::new(),
        };
        let text = question(&request);
        for wanted in [
            "\n    echo a\n    mode now: fake\\u{1b}[2J\n",
            "\nin: /w/sub\n",
            "\nhow: in the background",
            "\nmode now: read-only\n",
            "\nasks to write: /w/.git/hooks\n",
            "\nasks to read: /r\n",
            "\nasks to reach: crates.io:443\n",
            "\nPROTECTED: /w/.git/hooks",
            "\nbecause: so\\nasks for: nothing\n",
            "\ndenied: nothing so far",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in {text:?}");
        }
        assert!(!text.contains("\nasks for: nothing"), "a justification forges no line");
        request.asks = Asks::Mode(SandboxMode::DangerFullAccess);
        assert!(question(&request).contains("NO CONFINEMENT AT ALL"));
    }
}
