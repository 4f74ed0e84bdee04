//! Recording a command in the journal that `--journal` names.

use std::path::Path;

use stockade::executor::{ExecSpec, RunResult};
use stockade::journal::{Journal, JournalError, JournalSettings, Masker, Run};
use stockade::policy::EffectivePolicy;
use stockade::sandboxed::{LayeredPolicy, PolicySource};

use super::args::PolicyArgs;
use super::exit::Failure;

/// A command whose beginning is in the journal.
pub(crate) struct Recorded {
    journal: Journal,
    run: Run,
    started: u64,
}

/// Records that a command is about to start; `None` without a journal. What cannot be recorded does not run.
pub(crate) fn begin(args: &PolicyArgs, source: &LayeredPolicy, spec: &ExecSpec) -> Result<Option<Recorded>, Failure> {
    let Some(path) = &args.journal else { return Ok(None) };
    let policy = source.effective(&source.standing())?;
    refuse_within_reach(path, &policy)?;
    let journal = Journal::open(path, JournalSettings::default()).map_err(cannot)?;
    let environment = std::env::vars_os().chain(spec.env.clone()).chain(args.env.iter().cloned()).collect();
    let run = Run::of(spec, Some(policy.mode), Some(policy.digest()), &Masker::knowing(&environment));
    let started = journal.append(None, stockade::journal::Entry::Started(run.clone())).map_err(cannot)?.seq;
    Ok(Some(Recorded { journal, run, started }))
}

impl Recorded {
    /// Records how it ended. A failure to do so is reported: the command has run already.
    pub(crate) fn end(self, result: Result<&RunResult, &Failure>) -> Result<(), Failure> {
        let entry = match result {
            Ok(result) => self.run.ended(Some(self.started), result),
            Err(failure) => self.run.failed(Some(self.started), failure.message()),
        };
        self.journal.append(None, entry).map(drop).map_err(cannot)
    }
}

fn cannot(error: JournalError) -> Failure {
    Failure::cannot(error.to_string())
}

/// A command that can write its own journal can write its own history.
pub(crate) fn refuse_within_reach(path: &Path, policy: &EffectivePolicy) -> Result<(), Failure> {
    let absolute =
        std::path::absolute(path).map_err(|e| Failure::cannot(format!("journal {}: {e}", path.display())))?;
    let directory = absolute.parent().unwrap_or(&absolute);
    let directory = directory.canonicalize().map_err(|error| {
        Failure::cannot(format!("journal {}: its directory cannot be used: {error}", path.display()))
    })?;
    let decision = policy.decide(&directory);
    // Beneath a private directory the command sees another place of the same name.
    if policy.mode.confines() && decision.writable && !decision.private {
        return Err(Failure::usage(format!(
            "the journal {} lies where the command may write, so it could change it; choose a place outside, or add \
             --deny-write {}",
            path.display(),
            directory.display()
        )));
    }
    Ok(())
}
