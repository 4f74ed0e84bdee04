//! What can be asked of the command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use stockade::policy::{NetworkMode, SandboxMode};

/// Runs commands confined: what a mode forbids the kernel refuses, and every refusal is reported as a fact.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Run one program confined, standard input and output passed through
#[derive(Debug, Parser)]
#[command(name = "stockade run", bin_name = "stockade run", version)]
pub(crate) struct RunAlone {
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one program confined, standard input and output passed through
    Run(RunArgs),
    /// An interactive confined bash on a pseudo-terminal of its own
    Shell(ShellArgs),
    /// What this host can enforce, what is missing and how to get it
    Doctor(DoctorArgs),
    /// Show the effective policy as rules; for a path or a host, whether it is allowed and by which rule
    Explain(ExplainArgs),
    /// Try every promise on this host, in sandboxes and without, on throw-away targets; exit status 1 when one is not kept
    Verify(VerifyArgs),
    /// Read the execution journal
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Serve the tools over the Model Context Protocol on standard input and output
    Mcp(PolicyArgs),
    /// Print a completion script for a shell
    Completions {
        /// For which
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print the report as JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// Write the report to a file as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON: one object for the policy, or one line for each question
    #[arg(long)]
    pub(crate) json: bool,
    /// List rules about paths that do not exist, too
    #[arg(long)]
    pub(crate) all: bool,
    /// What to ask about: paths (relative ones begin at the workspace) and hosts; without any, the whole policy
    #[arg(value_name = "PATH|HOST:PORT")]
    pub(crate) targets: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Show records, oldest first
    Show(ShowArgs),
    /// Find any edit, loss or reordering and say where; exit status 1 when there is one
    Verify(VerifyJournalArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The journal; rotated files beside it are read too
    pub(crate) file: PathBuf,
    /// Only records of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only commands under this mode
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<SandboxMode>,
    /// Only commands that something was denied to
    #[arg(long)]
    pub(crate) denied: bool,
    /// Only records since a moment (2026-03-01T10:00:00Z) or a while ago (2h, 30m)
    #[arg(long, value_name = "WHEN", value_parser = super::journal::since)]
    pub(crate) since: Option<jiff::Timestamp>,
    /// Go on with what is appended
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print the records as they are stored
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyJournalArgs {
    /// The journal; rotated files beside it are checked too
    pub(crate) file: PathBuf,
    /// A hash that an earlier check ended with, which must still be in the chain
    #[arg(long, value_name = "HASH")]
    pub(crate) known: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options that every command about a policy takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// What the command may do: read-only, workspace-write or danger-full-access [default: read-only]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<SandboxMode>,
    /// Root that workspace-write may write under [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Where the command starts [default: the workspace]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Policy file, or the name of a shipped one [default: the shipped policy of the mode]
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) policy: Option<OsString>,
    /// Make a path writable (repeatable; the most specific path wins, whatever the order)
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Make a path read-only within a writable one (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) deny_write: Vec<PathBuf>,
    /// Mask a path from reading and writing (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) deny_read: Vec<PathBuf>,
    /// Network: off (a loopback of its own), allowlist or full [default: off in confining modes]
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) network: Option<NetworkArg>,
    /// Let one host through (repeatable; implies --network allowlist)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// Set an environment variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Let an inherited environment variable through the scrub (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<OsString>,
    /// Time limit in milliseconds, 0 for none
    #[arg(long, value_name = "N", value_parser = timeout, allow_negative_numbers = true)]
    pub(crate) timeout_ms: Option<u64>,
    /// Refuse to run below this enforcement
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Require::Partial)]
    pub(crate) require: Require,
    /// Record denials as the kernel sees them
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Trace::Auto)]
    pub(crate) trace: Trace,
    /// Read the kernel's audit records too: auto where auditing is on and they may be read; on turns auditing on for the
    /// whole host and off again at the end
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = AuditArg::Auto)]
    pub(crate) audit: AuditArg,
    /// Append execution records to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Which backend confines; `landlock` does without namespaces, with the gaps it reports
    #[arg(long, value_name = "NAME", value_enum, default_value_t = BackendArg::Auto)]
    pub(crate) backend: BackendArg,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Capture output and print one JSON result line instead
    #[arg(long)]
    pub(crate) json: bool,
    /// Run this through `bash -c` instead of a program
    #[arg(short = 'c', value_name = "SHELL COMMAND", conflicts_with = "program")]
    pub(crate) command: Option<OsString>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    Off,
    Allowlist,
    Full,
}

impl From<NetworkArg> for NetworkMode {
    fn from(network: NetworkArg) -> Self {
        match network {
            NetworkArg::Off => Self::Off,
            NetworkArg::Allowlist => Self::Allowlist,
            NetworkArg::Full => Self::Full,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Require {
    Full,
    Partial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trace {
    Auto,
    On,
    Off,
}

impl From<Trace> for stockade::sandboxed::TraceChoice {
    fn from(trace: Trace) -> Self {
        match trace {
            Trace::Auto => Self::Auto,
            Trace::On => Self::On,
            Trace::Off => Self::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditArg {
    Auto,
    On,
    Off,
}

impl From<AuditArg> for stockade::sandboxed::AuditChoice {
    fn from(audit: AuditArg) -> Self {
        match audit {
            AuditArg::Auto => Self::Auto,
            AuditArg::On => Self::On,
            AuditArg::Off => Self::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    Auto,
    Namespaces,
    Landlock,
}

impl From<BackendArg> for stockade::plan::BackendChoice {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Auto => Self::Auto,
            BackendArg::Namespaces => Self::Namespaces,
            BackendArg::Landlock => Self::Landlock,
        }
    }
}

fn mode(text: &str) -> Result<SandboxMode, String> {
    text.parse().map_err(|error: stockade::policy::UnknownMode| error.to_string())
}

fn assignment(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE; to let an inherited variable through use --pass-env NAME".to_owned()),
    }
}

/// Longest time limit that is taken for meant: 30 days.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

fn timeout(text: &str) -> Result<u64, String> {
    let longest = LONGEST.as_millis();
    match text.parse::<i128>() {
        Ok(0) => Ok(0),
        Ok(ms) if ms > 0 && ms.unsigned_abs() <= longest => u64::try_from(ms).map_err(|error| error.to_string()),
        _ => Err(format!("give whole milliseconds from 1 to {longest} (30 days), or 0 for no limit")),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use clap::Parser as _;
    use proptest::prelude::*;

    use super::super::journal::since;
    use super::*;

    /// What command lines are made of, and what they should not be made of.
    const WORDS: [&[u8]; 40] = [
        b"run",
        b"shell",
        b"explain",
        b"doctor",
        b"journal",
        b"show",
        b"verify",
        b"mcp",
        b"--",
        b"-c",
        b"--json",
        b"--mode",
        b"read-only",
        b"--mode=workspace-write",
        b"--workspace",
        b"--write",
        b"--deny-read=",
        b"--network",
        b"allowlist",
        b"--allow-host",
        b"a.test:443",
        b"[::1]:70000",
        b"--env",
        b"A=b",
        b"=",
        b"--env==",
        b"--pass-env",
        b"--timeout-ms",
        b"-1",
        b"18446744073709551616",
        b"1e999",
        b"--since",
        b"-9223372036854775808s",
        b"--policy",
        b"",
        b"\xff\xfe=\n",
        b"--\xff",
        b"-\0",
        b"--help",
        b"true",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_command_line_is_understood_or_refused(
            words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..9),
        ) {
            let line = std::iter::once(OsStr::new("stockade")).chain(words.iter().map(|word| OsStr::from_bytes(word)));
            if let Err(error) = Cli::try_parse_from(line) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn every_moment_is_understood_or_refused(text in "[-+0-9.a-zTZ: ]{0,24}") {
            since(&text).ok();
        }
    }

    #[test]
    fn the_longest_times_ago() {
        for text in ["-9223372036854775808s", "9223372036854775807s", "-PT9223372036854775808S"] {
            assert!(since(text).is_err(), "{text}: nobody kept a journal then");
        }
        assert!(since("2h").is_ok(), "the control");
    }
}
