//! The `stockade` command.

#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    stockade::launcher::enter();
    cli::main()
}
