//! The `stockade` command.

#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    stockade::launcher::enter();
    if std::env::args_os().nth(1).as_deref() == Some(std::ffi::OsStr::new("run")) {
        stockade::launcher::start_early();
    }
    cli::main()
}
