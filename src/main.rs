//! The `stockade` command.

#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    stockade::launcher::enter();
    if cli::begins_a_sandbox(std::env::args_os()) {
        stockade::launcher::start_early();
    }
    cli::main()
}
