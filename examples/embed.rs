//! A program that runs commands confined, with nothing else installed: it is its own launcher.
//!
//!     cargo run --example embed -- 'touch here; ls ~/.ssh; echo done'

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::sync::Arc;

use stockade::executor::{BashExecutor, ExecRequest, RunResult};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};

fn main() -> Result<(), Box<dyn Error>> {
    // First of all, before threads and secrets: the executor starts this program again as its launcher.
    stockade::launcher::enter();
    let command = std::env::args().nth(1).unwrap_or_else(|| "echo hello; touch here".to_owned());
    let result = tokio::runtime::Runtime::new()?.block_on(run(&command))?;
    print!("{}{}", result.stdout.text, result.stderr.text);
    println!("exit code {:?}, enforcement {:?}", result.exit_code, result.sandbox.map(|sandbox| sandbox.enforcement));
    Ok(())
}

/// Runs one command that may read and change nothing.
pub(crate) async fn run(command: &str) -> Result<RunResult, Box<dyn Error>> {
    let host = HostPaths::of_process()?;
    let policy = LayeredPolicy::new(PolicyRequest::new(SandboxMode::ReadOnly, host.cwd.clone()), host)?;
    let executor = SandboxedExecutor::new(SandboxedConfig::new(Arc::new(policy)))?;
    let spec = executor.resolve(ExecRequest::shell(command))?;
    let result = executor.run(spec).await;
    executor.dispose().await;
    Ok(result?)
}
