//! The command line: arguments to library to exit status.

mod args;
mod attach;
mod doctor;
mod exit;
mod explain;
mod journal;
mod journaled;
mod mcp;
mod raw;
mod record;
mod relay;
mod run;
mod shell;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use exit::Failure;

/// Parses the arguments, does what they ask, and says how it went. A fault of ours, or a library's that has no other way to
/// say what it could not get, ends like everything that stockade cannot do.
pub(crate) fn main() -> ExitCode {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("stockade: internal error: {panic}");
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            usual(panic);
        }
    }));
    std::panic::catch_unwind(obey).unwrap_or_else(|_| ExitCode::from(exit::CANNOT_RUN))
}

fn obey() -> ExitCode {
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
