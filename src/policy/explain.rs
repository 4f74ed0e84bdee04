//! The effective policy in words: every rule with its origin, and for one path the answer and the rule that decides.

#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::canon::{Resolver, tidy};
use super::{EffectivePolicy, Origin, PathAccess, PathRule};

/// One rule, for people and for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRule {
    /// What it says.
    pub access: PathAccess,
    /// Of which path, resolved.
    pub path: PathBuf,
    /// The name it was written by, when that led through a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<PathBuf>,
    /// The path does not exist now.
    pub missing: bool,
    /// Where it comes from, in parentheses.
    pub origin: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer for one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPath {
    /// As asked, absolute.
    pub asked: PathBuf,
    /// What it leads to on this host.
    pub path: PathBuf,
    /// It may be read, as far as the policy goes; the host's own permissions come on top.
    pub read: bool,
    /// It may be written, created, removed, under the same reserve.
    pub write: bool,
    /// The session's private directory stands here, so this is not the host's file.
    pub private: bool,
    /// Nothing is there now and a command could create it in spite of the rule: that is looked for after the run.
    pub watched: bool,
    /// The rule that decides; `None` when the mode alone does.
    pub rule: Option<ExplainedRule>,
    /// The mode, which decides where no rule does.
    pub mode: super::SandboxMode,
}

/// `(shipped policy NAME, line N)`, `(file FILE:LINE)`, `(--write)` and the like.
#[must_use]
pub fn render_origin(origin: &Origin) -> String {
    match origin {
        Origin::Default { policy, line } => format!("(shipped policy {policy}, line {line})"),
        Origin::Discovered { what } => format!("(found here: {what})"),
        Origin::File { path, line } => format!("(file {}:{line})", path.display()),
        Origin::CommandLine { option } => format!("({option})"),
        Origin::Grant => "(granted for this call)".into(),
    }
}

impl ExplainedRule {
    fn new(rule: &PathRule) -> Self {
        Self {
            access: rule.access,
            path: rule.path.clone(),
            written: rule.written.clone(),
            missing: rule.missing,
            origin: render_origin(&rule.origin),
            reason: rule.reason.clone(),
        }
    }
}

/// Every rule, in the order in which they are applied.
#[must_use]
pub fn explain_rules(policy: &EffectivePolicy) -> Vec<ExplainedRule> {
    policy.rules.iter().map(ExplainedRule::new).collect()
}

/// Decides about a path as a command would name it: relative to the workspace, links followed on the host.
#[must_use]
pub fn explain_path(policy: &EffectivePolicy, path: &Path) -> ExplainedPath {
    let asked = tidy(&policy.workspace.join(path));
    let resolved = Resolver::default().resolve(&asked).path;
    let decision = policy.decide(&resolved);
    let watched = policy.watched.iter().any(|name| name.link.is_none() && resolved.starts_with(&name.path));
    ExplainedPath {
        read: decision.readable,
        write: decision.writable,
        private: decision.private,
        watched,
        rule: decision.rule.map(ExplainedRule::new),
        mode: policy.mode,
        asked,
        path: resolved,
    }
}

/// Text from a file system on its way to a terminal: control characters are shown, not obeyed.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// On one line; with `#`, in columns for a list.
impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.access {
            PathAccess::Write => "write",
            PathAccess::Read => "read",
            PathAccess::Private => "private",
            PathAccess::DenyWrite => "deny-write",
            PathAccess::DenyRead => "deny-read",
        };
        let width = if f.alternate() { 10 } else { 0 };
        write!(f, "{word:<width$} {}", shown(&self.path))?;
        if let Some(written) = &self.written {
            write!(f, " [written {}]", shown(written))?;
        }
        if self.missing {
            f.write_str(" [does not exist]")?;
        }
        write!(f, " {}", self.origin)?;
        match &self.reason {
            Some(reason) => write!(f, " {reason}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ExplainedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |allowed| if allowed { "allowed" } else { "denied" };
        write!(f, "{}: read {}, write {}", shown(&self.asked), word(self.read), word(self.write))?;
        if self.path != self.asked {
            write!(f, "; it leads to {}", shown(&self.path))?;
        }
        if self.private {
            f.write_str("; private to the session")?;
        }
        if self.watched {
            f.write_str("; a command that creates it is reported")?;
        }
        match &self.rule {
            Some(rule) => write!(f, "; decided by: {rule}"),
            None => write!(f, "; no rule names it, so mode {} decides", self.mode),
        }
    }
}
