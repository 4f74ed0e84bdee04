//! An approver that decides by rules, and asks the next one when no rule decides.
//!
//! Never outranks ask, and ask outranks allow, whatever order they are written in. An allow rule must cover all that a
//! request asks for; a never or ask rule applies as soon as it touches any of it. What a rule does not name it does not
//! allow: an empty list is no permission.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver, Asks};
use crate::policy::SandboxMode;

/// What a rule says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleDecision {
    /// Yes, without asking.
    Allow,
    /// Ask the next approver.
    #[default]
    Ask,
    /// No, without asking.
    Never,
}

/// One rule. Every condition that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it says.
    pub decision: RuleDecision,
    /// Allow: the widest mode it allows. Never and ask: the narrowest mode it applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SandboxMode>,
    /// Absolute paths; with all beneath them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Absolute paths; with all beneath them. An allowed write path may be read too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// `host`, `host:port`, `*.domain` or `*.domain:port`; without a port, every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The command begins with these words. In an allow rule the command must also be free of everything a shell gives
    /// a meaning to, so that `cargo fetch` does not allow `cargo fetch; rm -r .`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_prefix: Option<String>,
    /// Told to the model with a no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A rule file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRules {
    /// When no rule applies.
    #[serde(default)]
    pub default: RuleDecision,
    /// The rules; their order does not matter.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Not the TOML that is expected; the message has line and column.
    #[error("approval rules: {0}")]
    Syntax(#[from] toml::de::Error),
    /// `default = "allow"`.
    #[error("approval rules: default = \"allow\" would approve everything; write allow rules that say what")]
    DefaultAllow,
    /// A rule without a condition that could decide.
    #[error("approval rule {number}: {problem}")]
    Rule {
        /// Number of the rule, from 1.
        number: usize,
        /// What is wrong, with the remedy.
        problem: String,
    },
}

impl ApprovalRules {
    /// Reads rules from TOML.
    ///
    /// # Errors
    /// Unknown keys, wrong types, and rules that would allow more than they say.
    pub fn from_toml(text: &str) -> Result<Self, RulesError> {
        let rules: Self = toml::from_str(text)?;
        rules.check()?;
        Ok(rules)
    }

    fn check(&self) -> Result<(), RulesError> {
        if self.default == RuleDecision::Allow {
            return Err(RulesError::DefaultAllow);
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let wrong = |problem: &str| Err(RulesError::Rule { number: index + 1, problem: problem.to_owned() });
            let widens =
                rule.mode.is_some() || !(rule.write.is_empty() && rule.read.is_empty() && rule.hosts.is_empty());
            if rule.decision == RuleDecision::Allow && !widens {
                return wrong("an allow rule must name a mode, paths or hosts");
            }
            if !widens && rule.command_prefix.is_none() {
                return wrong("it has no condition: name a mode, paths, hosts or a command prefix");
            }
            if rule.write.iter().chain(&rule.read).any(|path| !path.is_absolute()) {
                return wrong("its paths must be absolute");
            }
            if rule.command_prefix.as_deref().is_some_and(|prefix| prefix.trim().is_empty()) {
                return wrong("its command_prefix is empty: leave it out or fill it in");
            }
        }
        Ok(())
    }

    /// The decision on a request and the reason that goes with it. Paths are compared as they stand.
    #[must_use]
    pub fn decide(&self, request: &ApprovalRequest) -> (RuleDecision, Option<&str>) {
        let applying = self.rules.iter().filter(|rule| match rule.decision {
            RuleDecision::Allow => rule.covers(request),
            RuleDecision::Ask | RuleDecision::Never => rule.touches(request),
        });
        applying
            .max_by_key(|rule| rule.decision)
            .map_or((self.default, None), |rule| (rule.decision, rule.reason.as_deref()))
    }
}

impl Rule {
    /// True when everything asked for lies within this rule.
    fn covers(&self, request: &ApprovalRequest) -> bool {
        let within = |paths: &[PathBuf], path: &Path| paths.iter().any(|allowed| path.starts_with(allowed));
        let asked = match &request.asks {
            Asks::Mode(mode) => self.mode.is_some_and(|widest| *mode <= widest),
            Asks::Extra { grant, .. } => {
                !grant.is_empty()
                    && grant.write.iter().all(|path| within(&self.write, path))
                    && grant.read.iter().all(|path| within(&self.read, path) || within(&self.write, path))
                    && grant.network.iter().all(|entry| self.hosts.iter().any(|host| host_within(host, entry)))
            }
        };
        asked && self.command_prefix.as_deref().is_none_or(|prefix| plain_command_begins(&request.command, prefix))
    }

    /// True when anything asked for is what this rule is about.
    fn touches(&self, request: &ApprovalRequest) -> bool {
        let meets = |paths: &[PathBuf], asked: &[PathBuf]| {
            asked.iter().any(|a| paths.iter().any(|p| a.starts_with(p) || p.starts_with(a)))
        };
        let named = self.mode.is_some() || !(self.write.is_empty() && self.read.is_empty() && self.hosts.is_empty());
        let asked = !named
            || match &request.asks {
                // A wider mode opens what lies in its reach, whether or not the request names it.
                Asks::Mode(mode) => {
                    self.mode.is_some_and(|narrowest| *mode >= narrowest)
                        || meets(&self.write, std::slice::from_ref(&request.workspace))
                        || (!mode.confines() && self.mode.is_none())
                }
                Asks::Extra { grant, .. } => {
                    meets(&self.write, &grant.write)
                        || meets(&self.read, &grant.read)
                        || meets(&self.read, &grant.write)
                        || grant.network.iter().any(|entry| self.hosts.iter().any(|host| hosts_meet(host, entry)))
                }
            };
        asked
            && self
                .command_prefix
                .as_deref()
                .is_none_or(|prefix| begins_with_words(request.command.trim_start(), prefix.trim()))
    }
}

fn begins_with_words(command: &str, prefix: &str) -> bool {
    command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn plain_command_begins(command: &str, prefix: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || " _-./:=+,@%".contains(c);
    command.chars().all(plain) && begins_with_words(command, prefix.trim())
}

/// Splits `host:port`; a bracketed IPv6 address keeps its brackets.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (entry, None),
    }
}

fn name_matches(rule: &str, host: &str) -> bool {
    let (rule, host) = (rule.to_ascii_lowercase(), host.to_ascii_lowercase());
    match rule.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
        None => rule == host,
    }
}

fn host_within(rule: &str, entry: &str) -> bool {
    let ((rule_host, rule_port), (host, port)) = (split_port(rule), split_port(entry));
    name_matches(rule_host, host) && rule_port.is_none_or(|allowed| port == Some(allowed))
}

fn hosts_meet(rule: &str, entry: &str) -> bool {
    let ((rule_host, rule_port), (host, port)) = (split_port(rule), split_port(entry));
    let ports_meet = match (rule_port, port) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    name_matches(rule_host, host) && ports_meet
}

/// Decides by rules; what is left to ask goes to the next approver, and to nobody when there is none.
pub struct RuleApprover {
    rules: ApprovalRules,
    next: Option<Arc<dyn Approver>>,
}

impl RuleApprover {
    /// An approver with these rules. Their paths are resolved now, so that they compare with canonical requests.
    ///
    /// # Errors
    /// When a rule would allow more than it says.
    pub fn new(mut rules: ApprovalRules, next: Option<Arc<dyn Approver>>) -> Result<Self, RulesError> {
        rules.check()?;
        for path in rules.rules.iter_mut().flat_map(|rule| rule.write.iter_mut().chain(&mut rule.read)) {
            // A path that does not exist yet stays as written: it can only match requests that name it so.
            if let Ok(found) = std::fs::canonicalize(&*path) {
                *path = found;
            }
        }
        Ok(Self { rules, next })
    }
}

impl Approver for RuleApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, cancel: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async move {
            match (self.rules.decide(request), &self.next) {
                ((RuleDecision::Allow, _), _) => ApprovalOutcome::AllowedOnce,
                ((RuleDecision::Never, reason), _) => ApprovalOutcome::Rejected { reason: reason.map(str::to_owned) },
                ((RuleDecision::Ask, _), Some(next)) => next.ask(request, cancel).await,
                ((RuleDecision::Ask, _), None) => {
                    ApprovalOutcome::Unavailable { reason: "the rules say ask, and nobody is there to be asked".into() }
                }
            }
        })
    }
}
