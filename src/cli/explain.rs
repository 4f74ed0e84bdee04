//! `stockade explain`: the effective policy as rules, and the rule that decides about a path or a host.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use stockade::approval::escape_line;
use stockade::network::rules::{Destination, Host, Refused, Rule, RuleSet};
use stockade::policy::{
    EffectivePolicy, ExplainedNetwork, ExplainedPath, NetworkMode, PolicyError, SyscallRule, explain_network,
    explain_path, explain_rules,
};

use super::args::ExplainArgs;
use super::exit::Failure;
use super::run::{host_paths, policy_request};

/// Prints the policy, or the answers for what was asked about.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let host = host_paths()?;
    let request = policy_request(&args.policy, &host);
    let wrong = |error: PolicyError| Failure::cannot(format!("policy: {error}"));
    let policy = request.resolve(&host).map_err(wrong)?;
    let network = explain_network(&request, &host, &policy).map_err(wrong)?;
    let rules = RuleSet::from_policy(&policy.network).map_err(|error| Failure::cannot(format!("policy: {error}")))?;
    let asked = Asked { policy: &policy, network: &network, rules: &rules };
    let answers = args.targets.iter().map(|target| asked.answer(target));
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    let text = match (args.json, answers.is_empty()) {
        (true, true) => whole_as_json(&policy, &network)?,
        (false, true) => whole(&policy, &network, args.all),
        (true, false) => lines(answers.iter().map(Answer::json).collect::<Result<Vec<_>, _>>()?),
        (false, false) => lines(answers.iter().map(Answer::text)),
    };
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot(format!("the explanation cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

fn lines(each: impl IntoIterator<Item = String>) -> String {
    each.into_iter().map(|line| line + "\n").collect()
}

enum Answer {
    Path(ExplainedPath),
    Host { asked: String, connect: bool, why: String },
}

impl Answer {
    fn text(&self) -> String {
        match self {
            Self::Path(path) => path.to_string(),
            Self::Host { asked, connect, why } => {
                format!("{asked}: connect {}; {why}", if *connect { "allowed" } else { "denied" })
            }
        }
    }

    fn json(&self) -> Result<String, Failure> {
        let text = match self {
            Self::Path(path) => serde_json::to_string(path),
            Self::Host { asked, connect, why } => {
                serde_json::to_string(&json!({"asked": asked, "connect": connect, "decidedBy": why}))
            }
        };
        text.map_err(no_json)
    }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::cannot(format!("the explanation cannot be written as JSON: {error}"))
}

/// Whether a word names a host: with `:` and no `/` it does; without either, an address or a name with a dot does when no
/// file has that name. `./NAME` is always a path.
fn host_of(workspace: &Path, target: &Path) -> Result<Option<(Host, Option<u16>)>, Failure> {
    let Some(text) = target.to_str() else { return Ok(None) };
    if text.contains('/') || text.starts_with(['.', '~']) || text.is_empty() {
        return Ok(None);
    }
    let bad = |error| Failure::usage(format!("{text}: {error}; for a path write ./{text}"));
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Some((Host::from(address), None)));
    }
    if text.contains(':') {
        let destination = Destination::parse(text, None).map_err(bad)?;
        return Ok(Some((destination.host, Some(destination.port))));
    }
    if !text.contains('.') || workspace.join(target).symlink_metadata().is_ok() {
        return Ok(None);
    }
    Ok(Host::parse(text).ok().map(|host| (host, None)))
}

/// What is asked.
struct Asked<'a> {
    policy: &'a EffectivePolicy,
    network: &'a ExplainedNetwork,
    rules: &'a RuleSet,
}

impl Asked<'_> {
    fn answer(&self, target: &Path) -> Result<Answer, Failure> {
        match host_of(&self.policy.workspace, target)? {
            Some((host, port)) => Ok(self.about_host(&host, port)),
            None => Ok(Answer::Path(explain_path(self.policy, target))),
        }
    }

    fn about_host(&self, host: &Host, port: Option<u16>) -> Answer {
        let asked = match port {
            Some(port) => Destination { host: host.clone(), port }.to_string(),
            None => host.to_string(),
        };
        let origin = &self.network.mode_origin;
        let (connect, why) = match self.policy.network.mode {
            NetworkMode::Full => (true, format!("decided by: network full {origin}")),
            NetworkMode::Off => (false, format!("decided by: network off {origin}")),
            NetworkMode::Allowlist => self.allowlisted(host, port),
        };
        Answer::Host { asked, connect, why }
    }

    fn allowlisted(&self, host: &Host, port: Option<u16>) -> (bool, String) {
        let Some(port) = port else {
            let some = self.rules.allows_some_port(host);
            let why = if some { "on some ports; ask about HOST:PORT" } else { "no rule allows it on any port" };
            return (some, why.to_owned());
        };
        match self.rules.check(&Destination { host: host.clone(), port }) {
            Ok(rule) => {
                let later = match host {
                    Host::Name(_) => "; the addresses it leads to are checked when it is dialled",
                    Host::Address(_) => "",
                };
                (true, format!("decided by: allow {}{later}", self.with_origin(true, &rule.to_string())))
            }
            Err(Refused::Unlisted) => (false, "no allow rule covers it".to_owned()),
            Err(Refused::Denied { rule }) => (false, format!("decided by: deny {}", self.with_origin(false, &rule))),
            Err(refused) => (false, refused.to_string()),
        }
    }

    /// A rule in normal form, with the origin of the entry that it was written as.
    fn with_origin(&self, allow: bool, rule: &str) -> String {
        let same = |entry: &str| entry.parse::<Rule>().is_ok_and(|parsed| parsed.to_string() == rule);
        let written = self.network.entries.iter().find(|host| host.allow == allow && same(&host.entry));
        written.map_or_else(|| rule.to_owned(), |host| format!("{rule} {}", host.origin))
    }
}

/// The whole policy for people. Rules about paths that do not exist are counted, unless all are wanted.
fn whole(policy: &EffectivePolicy, network: &ExplainedNetwork, all: bool) -> String {
    let mut text = format!("mode {}, workspace {}\n", policy.mode, escape_line(&policy.workspace.to_string_lossy()));
    let ground = if policy.mode.confines() { "readable, not writable" } else { "readable and writable" };
    text.push_str(&format!("policy digest {}\n\nFiles: everything is {ground}, and then\n", policy.digest()));
    let (missing, there): (Vec<_>, Vec<_>) = explain_rules(policy).into_iter().partition(|rule| rule.missing && !all);
    text.extend(there.iter().map(|rule| format!("  {rule:#}\n")));
    if !missing.is_empty() {
        text.push_str(&format!(
            "  and {} rules about paths that do not exist here (--all shows them)\n",
            missing.len()
        ));
    }
    text.push_str(&format!("\nNetwork: {} {}\n", network_words(policy.network.mode), network.mode_origin));
    for host in &network.entries {
        let word = if host.allow { "allow" } else { "deny" };
        text.push_str(&format!("  {word:<10} {} {}\n", escape_line(&host.entry), host.origin));
    }
    text.push_str(&limits(policy));
    if !policy.seccomp.is_empty() {
        text.push_str("\nSystem calls refused beyond the usual\n");
        let line = |rule: &SyscallRule| format!("  {:<10} {}\n", rule.syscall, escape_line(&rule.reason));
        text.extend(policy.seccomp.iter().map(line));
    }
    if !policy.notes.is_empty() {
        text.push_str("\nNotes\n");
        text.extend(policy.notes.iter().map(|note| format!("  {}\n", escape_line(note))));
    }
    text
}

const fn network_words(mode: NetworkMode) -> &'static str {
    match mode {
        NetworkMode::Off => "off, a loopback of its own",
        NetworkMode::Allowlist => "only what is allowed here, through a proxy",
        NetworkMode::Full => "full, the host's",
    }
}

fn limits(policy: &EffectivePolicy) -> String {
    let limits = &policy.limits;
    let set = [
        ("processes", limits.processes),
        ("memory, bytes", limits.memory),
        ("private /tmp, bytes", limits.tmp_size),
        ("open files", limits.open_files),
        ("file size, bytes", limits.file_size),
    ];
    let lines: String =
        set.iter().filter_map(|(name, value)| value.map(|value| format!("  {name}: {value}\n"))).collect();
    if lines.is_empty() { lines } else { format!("\nLimits\n{lines}") }
}

fn whole_as_json(policy: &EffectivePolicy, network: &ExplainedNetwork) -> Result<String, Failure> {
    let whole = json!({
        "mode": policy.mode,
        "workspace": policy.workspace,
        "digest": policy.digest(),
        "rules": explain_rules(policy),
        "watched": policy.watched,
        "network": {"mode": policy.network.mode, "origin": network.mode_origin, "entries": network.entries},
        "limits": policy.limits,
        "seccomp": policy.seccomp,
        "notes": policy.notes,
    });
    serde_json::to_string(&whole).map(|text| text + "\n").map_err(no_json)
}
