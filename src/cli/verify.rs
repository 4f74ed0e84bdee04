//! `stockade verify`: every promise, tried on this host.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use stockade::policy::{HostPaths, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, PolicySource};
use stockade::verify::{Options, PolicyMaker, Report, VerifyError, html, text, verify as run};

use super::args::{PolicyArgs, Require, VerifyArgs};
use super::exit::Failure;
use super::progress::Bar;
use super::run::{environment, host_paths, policy_failure, policy_request, runtime};

/// Verifies and reports; 1 when a promise is not kept, or a mode cannot be tried.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let options = options(&args.policy)?;
    let mut bar = Bar::new();
    let report = runtime()?.block_on(run(&options, |progress| bar.draw(progress)));
    drop(bar);
    let report = report.map_err(failure)?;
    let shown = match &args.html {
        _ if args.json => as_json(&report)?,
        None => text(&report),
        Some(file) => {
            std::fs::write(file, html(&report))
                .map_err(|error| Failure::cannot(format!("{} cannot be written: {error}", file.display())))?;
            format!("{} The report is in {}\n", report.verdict(), file.display())
        }
    };
    match std::io::stdout().lock().write_all(shown.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot(format!("the report cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(ExitCode::from(u8::from(!report.kept))),
    }
}

fn as_json(report: &Report) -> Result<String, Failure> {
    let text = serde_json::to_string(report);
    text.map(|text| text + "\n")
        .map_err(|error| Failure::cannot(format!("the report cannot be written as JSON: {error}")))
}

fn failure(error: VerifyError) -> Failure {
    match error {
        VerifyError::Policy(error) => policy_failure(error),
        error => Failure::cannot(error.to_string()),
    }
}

fn options(args: &PolicyArgs) -> Result<Options, Failure> {
    let (host, policy) = (host_paths()?, args.clone());
    let maker: PolicyMaker = Arc::new(move |mode: SandboxMode, workspace, home| {
        let request =
            policy_request(&PolicyArgs { mode: Some(mode), workspace: Some(workspace), ..policy.clone() }, &host);
        let host = HostPaths { account_home: Some(home), ..host.clone() };
        Ok(Arc::new(LayeredPolicy::new(request, host)?) as Arc<dyn PolicySource>)
    });
    let mut options = Options::new(maker);
    if let Some(mode) = args.mode {
        options.modes = vec![mode];
    }
    options.backend = args.backend.into();
    options.require_full = args.require == Require::Full;
    options.trace = args.trace.into();
    options.audit = args.audit.into();
    options.environment = environment(args);
    options.beneath.clone_from(&args.workspace);
    Ok(options)
}
