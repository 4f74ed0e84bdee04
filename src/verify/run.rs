//! Running the inside, with and without a sandbox, and listening to it while it runs.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::facts::SECRET_VARIABLE;
use super::probe::{EVERY_CELL, Said};
use crate::executor::{BashExecutor, CommandLine, ExecError, ExecRequest, RunResult};
use crate::sandboxed::SandboxedExecutor;

/// Longer than all cells together take on a slow machine; whatever has not answered then is given up.
const LONGEST: Duration = Duration::from_secs(25);
/// How often the output of a sandbox is looked at.
const EVERY: Duration = Duration::from_millis(40);
/// Room for what all cells say.
const OUTPUT_BYTES: usize = 1 << 20;

/// What was said, by cell.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) said: BTreeMap<usize, Said>,
    rest: String,
}

impl Answers {
    /// Takes output as it comes, in pieces that may end within a line.
    fn hear(&mut self, text: &str) {
        self.rest.push_str(text);
        while let Some((line, rest)) = self.rest.split_once('\n') {
            if let Ok(said) = serde_json::from_str::<Said>(line) {
                self.said.insert(said.cell, said);
            }
            self.rest = rest.to_owned();
        }
    }
}

fn arguments(program: &Path, root: &Path) -> Vec<OsString> {
    vec![program.into(), "probe".into(), EVERY_CELL.into(), root.into()]
}

/// Without a sandbox.
pub(super) async fn unconfined(
    program: &Path,
    root: &Path,
    token: &str,
    mut heard: impl FnMut(usize),
) -> io::Result<Answers> {
    let arguments = arguments(program, root);
    let mut command = tokio::process::Command::new(&arguments[0]);
    command.args(&arguments[1..]).env(SECRET_VARIABLE, token).env("HOME", root.join("home"));
    command.current_dir(root.join("work")).kill_on_drop(true);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let Some(stdout) = child.stdout.take() else { return Err(io::Error::other("a process without output")) };
    let mut lines = BufReader::new(stdout).lines();
    let mut answers = Answers::default();
    let listening = async {
        while let Some(line) = lines.next_line().await? {
            answers.hear(&(line + "\n"));
            heard(answers.said.len());
        }
        child.wait().await.map(drop)
    };
    match tokio::time::timeout(LONGEST, listening).await {
        Ok(ended) => ended?,
        Err(_) => tracing::warn!("the control run took too long and was ended"),
    }
    Ok(answers)
}

/// Inside a sandbox.
pub(super) async fn confined(
    executor: &SandboxedExecutor,
    program: &Path,
    root: &Path,
    mut heard: impl FnMut(usize),
) -> Result<(Answers, RunResult), ExecError> {
    let mut request = ExecRequest::new(CommandLine::Program(arguments(program, root)));
    request.stdout_max_bytes = Some(OUTPUT_BYTES);
    let process = executor.start(executor.resolve(request)?).await?;
    let mut answers = Answers::default();
    let ended = {
        let done = process.done();
        tokio::pin!(done);
        let end = tokio::time::Instant::now() + LONGEST;
        loop {
            tokio::select! {
                result = &mut done => break Some(result),
                () = tokio::time::sleep(EVERY) => {
                    answers.hear(&process.read_output().stdout);
                    heard(answers.said.len());
                }
            }
            if tokio::time::Instant::now() > end {
                break None;
            }
        }
    };
    let result = match ended {
        Some(result) => result?,
        None => {
            tracing::warn!("the sandbox took too long and was ended");
            process.kill().await;
            process.done().await?
        }
    };
    answers.hear(&process.read_output().stdout);
    heard(answers.said.len());
    Ok((answers, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_put_together_from_pieces() {
        let mut answers = Answers::default();
        let line = serde_json::to_string(&Said { cell: 7, ok: true, ..Said::default() }).unwrap();
        answers.hear("something else\n");
        answers.hear(&line[..9]);
        assert!(answers.said.is_empty());
        answers.hear(&line[9..]);
        answers.hear("\n{\"cell\":");
        assert_eq!(answers.said.keys().collect::<Vec<_>>(), [&7]);
    }
}
