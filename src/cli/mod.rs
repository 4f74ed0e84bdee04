//! The command line: arguments to library to exit status.

mod args;
mod attach;
mod doctor;
mod exit;
mod explain;
#[cfg(test)]
mod generated;
mod guard;
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

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser};

use args::{Cli, Command, RunAlone};
use exit::Failure;

/// Whether the arguments are likely to end in one ordinary sandbox. A wrong guess costs time and nothing else.
pub(crate) fn begins_a_sandbox(mut arguments: impl Iterator<Item = OsString>) -> bool {
    const OTHERWISE: [&str; 4] = ["danger-full-access", "landlock", "full", "--help"];
    let otherwise =
        |argument: &OsString| OTHERWISE.iter().any(|word| argument.as_encoded_bytes().ends_with(word.as_bytes()));
    arguments.nth(1).is_some_and(|command| command == "run")
        && !arguments.take_while(|argument| argument != "--" && argument != "-c").any(|argument| otherwise(&argument))
}

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
    // The status of a panic is nobody's: scripts know 125. What it was has been said by then.
    std::panic::catch_unwind(parse_and_do).unwrap_or_else(|_| {
        Failure::cannot("this is a defect of stockade itself; please report the lines above").report()
    })
}

fn parse_and_do() -> ExitCode {
    if let Some(status) = of_its_own() {
        return status;
    }
    let command = match parse() {
        Ok(command) => command,
        Err(error) => return bad_usage(&error),
    };
    let done = match command {
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
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// What stockade runs of itself and no person does: kept from the parser, and so from help and completions.
fn of_its_own() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        guard::NAME => Some(guard::guard().unwrap_or_else(Failure::report)),
        "probe" => Some(stockade::verify::probe(&arguments.collect::<Vec<_>>())),
        _ => None,
    }
}

/// `run` is most of what is asked, and describing the other commands to the parser would take as long as parsing it.
fn parse() -> Result<Command, clap::Error> {
    if std::env::args_os().nth(1).is_some_and(|command| command == "run") {
        RunAlone::try_parse_from(std::env::args_os().skip(1)).map(|alone| Command::Run(alone.run))
    } else {
        Cli::try_parse().map(|cli| cli.command)
    }
}

/// Help and version go to standard output and succeed; anything else begins with our name and exits with 2.
fn bad_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        // Nothing was asked: what can be is told where complaints go.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            exit::say!("{}", error.render().to_string().trim_end());
            Failure::status_of_usage()
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let mut arguments = std::env::args_os().skip(1);
            let command = arguments.next().unwrap_or_default();
            let meant = meant(error, &command.to_string_lossy());
            Failure::usage(meant.as_deref().unwrap_or(text.trim_end())).report()
        }
    }
}

/// What was meant, where people get it wrong on their first day.
fn meant(error: &clap::Error, command: &str) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let command_line = |word: &str| match word.contains(char::is_whitespace) {
        true => format!("stockade run [OPTIONS] -c '{word}'"),
        false => format!("stockade run [OPTIONS] -- {word} ..."),
    };
    if let Some(word) = context(ContextKind::InvalidSubcommand) {
        return match error.get(ContextKind::SuggestedSubcommand) {
            None => {
                let line = command_line(word);
                Some(format!("no command '{word}' (try --help); to run a program confined: {line}"))
            }
            Some(_) => None,
        };
    }
    let word = context(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    if word == command && word.starts_with("--") {
        return Some(format!(
            "options stand after the command: stockade run {word} ... (or shell, mcp, ...; try --help)"
        ));
    }
    match command {
        "run" if !word.starts_with('-') => {
            Some(format!("'{word}' is no option, and a program stands after `--`: {}", command_line(word)))
        }
        "shell" if !word.starts_with("--") => {
            Some("shell takes no command: it is for typing; `stockade run -c 'COMMAND'` runs one".to_owned())
        }
        _ => None,
    }
}
