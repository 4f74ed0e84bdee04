//! The `stockade` command.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
