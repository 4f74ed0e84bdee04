//! The command line: arguments to library to exit status.

mod args;
mod attach;
mod doctor;
mod exit;
mod explain;
#[cfg(test)]
mod generated;
mod journal;
mod journaled;
mod mcp;
mod progress;
mod raw;
mod record;
mod relay;
mod run;
mod shell;
mod terminal;
mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};

use args::{Cli, Command};
use exit::Failure;

/// Parses the arguments, does what they ask, and says how it went.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return bad_usage(&error),
    };
    let done = match cli.command {
        Command::Run(run) => run::run(run),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Shell(args) => shell::shell(&args.policy),
        Command::Explain(args) => explain::explain(&args),
        Command::Journal(command) => journal::journal(&command),
        Command::Mcp(policy) => mcp::mcp(&policy),
        Command::Verify(args) => verify::verify(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "stockade", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Probe { arguments } => Ok(stockade::verify::probe(&arguments)),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// Help and version go to standard output and succeed; anything else begins with our name and exits with 2.
fn bad_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Failure::usage(text.trim_end()).report()
        }
    }
}
