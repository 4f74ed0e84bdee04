//! `stockade shell`: an interactive confined bash on a pseudo-terminal of its own.

use std::process::ExitCode;

use stockade::denial::Denial;
use stockade::executor::{BashExecutor, CommandLine, ExecRequest, ExecSpec, RunResult};
use stockade::policy::SandboxMode;
use stockade::sandboxed::{PolicySource, SandboxedExecutor};

use super::args::PolicyArgs;
use super::exit::Failure;
use super::exit::say;
use super::record;
use super::relay::session;
use super::run::{denial_line, executor, layered_policy, runtime};

/// Most denials named at the end.
const MOST_NAMED: usize = 20;

/// Runs the shell and gives its exit status.
pub(crate) fn shell(args: &PolicyArgs) -> Result<ExitCode, Failure> {
    runtime()?.block_on(confined(args))
}

async fn confined(args: &PolicyArgs) -> Result<ExitCode, Failure> {
    let policy = layered_policy(args)?;
    let executor = executor(args, &policy, false)?;
    let spec = spec(&executor, args, policy.standing().mode)?;
    let recorded = record::begin(args, &policy, &spec)?;
    let done = session(&executor, spec, [None, None, None], args.timeout_ms).await;
    let recording = recorded.map_or(Ok(()), |recorded| recorded.end(done.as_ref().map(|(result, _)| result)));
    executor.dispose().await;
    let (result, how) = done?;
    report(&result);
    recording?;
    Ok(how.status(&result))
}

/// bash without start-up files, which would run in every mode and could hide the prompt; no history file, which could not
/// be written.
fn spec(executor: &SandboxedExecutor, args: &PolicyArgs, mode: SandboxMode) -> Result<ExecSpec, Failure> {
    let arguments = ["bash", "--noprofile", "--norc", "-i"].map(Into::into).to_vec();
    let mut request = ExecRequest::new(CommandLine::Program(arguments));
    request.env.insert("PS1".into(), format!("[{mode}] \\w \\$ ").into());
    request.env.insert("HISTFILE".into(), "".into());
    request.env.extend(args.env.iter().cloned());
    executor.resolve(request).map_err(Failure::from)
}

/// What was refused, each thing once, the most frequent first.
fn report(result: &RunResult) {
    let Some(sandbox) = &result.sandbox else { return };
    let mut seen: Vec<(&Denial, usize)> = Vec::new();
    for denial in &sandbox.denials {
        match seen.iter_mut().find(|(other, _)| other.kind == denial.kind && other.target() == denial.target()) {
            Some((_, count)) => *count += 1,
            None => seen.push((denial, 1)),
        }
    }
    if seen.is_empty() {
        return;
    }
    let omitted = usize::try_from(sandbox.denials_omitted).unwrap_or(usize::MAX);
    let all = sandbox.denials.len().saturating_add(omitted);
    say!("stockade: {all} {} in this session", if all == 1 { "denial" } else { "denials" });
    seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (denial, count) in seen.iter().take(MOST_NAMED) {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        say!("{}{times}", denial_line(denial));
    }
    if seen.len() > MOST_NAMED {
        say!("stockade: and {} more", seen.len() - MOST_NAMED);
    }
}
