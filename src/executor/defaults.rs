//! From request to spec: the same defaults and the same checks for every executor.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

use super::{CommandLine, ExecError, ExecRequest, ExecSpec, Timeout};
use crate::environment::{EnvironmentError, check_call};

/// The kernel's limit on one argument, its terminating NUL included (`MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT: usize = 128 * 1024;

/// What a request that leaves something open gets.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    /// Absolute.
    pub(crate) workdir: PathBuf,
    /// Time limit of a foreground run that names none.
    pub(crate) timeout: Option<Duration>,
    /// The longest limit a request may have; with a cap no foreground run is without a limit.
    pub(crate) max_timeout: Option<Duration>,
    /// In-memory budget of standard output, bytes.
    pub(crate) stdout_bytes: usize,
}

impl Defaults {
    /// Fills in the defaults, and refuses what could never run.
    pub(crate) fn resolve(&self, request: ExecRequest) -> Result<ExecSpec, ExecError> {
        check_command(&request.command)?;
        check_call(&request.env, &request.managed_env)?;
        let workdir = match request.workdir {
            // `join` keeps an absolute path as it is.
            Some(path) => self.workdir.join(path),
            None => self.workdir.clone(),
        };
        refuse_nul(workdir.as_os_str(), "the workdir")?;
        Ok(ExecSpec {
            command: request.command,
            workdir,
            timeout: self.limit(request.timeout),
            stdout_max_bytes: request.stdout_max_bytes.unwrap_or(self.stdout_bytes),
            cancel: request.cancel,
            stdin: request.stdin,
            env: request.env,
            managed_env: request.managed_env,
            policy: request.policy,
            owner: request.owner,
        })
    }

    fn limit(&self, asked: Timeout) -> Option<Duration> {
        let limit = match asked {
            Timeout::Default => self.timeout,
            // Results and the command line write "no limit" as 0.
            Timeout::After(Duration::ZERO) | Timeout::None => None,
            Timeout::After(limit) => Some(limit),
        };
        match (limit, self.max_timeout) {
            (Some(limit), Some(cap)) => Some(limit.min(cap)),
            (limit, cap) => limit.or(cap),
        }
    }
}

/// Checks that a directory can be started in.
pub(crate) fn check_workdir(path: &Path) -> Result<(), ExecError> {
    let usable = std::fs::metadata(path).and_then(|there| match there.is_dir() {
        true => access(path, AccessFlags::X_OK).map_err(io::Error::from),
        false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
    });
    usable.map_err(|source| ExecError::Workdir { path: path.to_path_buf(), source })
}

fn check_command(command: &CommandLine) -> Result<(), ExecError> {
    match command {
        CommandLine::Shell(text) if text.trim().is_empty() => Err(ExecError::EmptyCommand),
        CommandLine::Shell(text) => check_argument(OsStr::new(text), "the command"),
        CommandLine::Program(argv) if argv.first().is_none_or(|program| program.is_empty()) => {
            Err(ExecError::EmptyCommand)
        }
        CommandLine::Program(argv) => {
            argv.iter().enumerate().try_for_each(|(at, argument)| check_argument(argument, &format!("argument {at}")))
        }
    }
}

fn check_argument(argument: &OsStr, what: &str) -> Result<(), ExecError> {
    refuse_nul(argument, what)?;
    if argument.len() >= LONGEST_ARGUMENT {
        let what = what.to_owned();
        return Err(ExecError::TooLong { what, bytes: argument.len(), limit: LONGEST_ARGUMENT - 1 });
    }
    Ok(())
}

fn refuse_nul(text: &OsStr, what: &str) -> Result<(), ExecError> {
    if text.as_bytes().contains(&0) {
        return Err(ExecError::NulByte { what: what.to_owned() });
    }
    Ok(())
}

impl From<EnvironmentError> for ExecError {
    fn from(error: EnvironmentError) -> Self {
        Self::Environment { name: error.name, reason: error.reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn defaults(timeout: Option<Duration>, max_timeout: Option<Duration>) -> Defaults {
        Defaults { workdir: "/base".into(), timeout, max_timeout, stdout_bytes: 64_000 }
    }

    #[test]
    fn limits() {
        let tool = defaults(Some(S(120)), Some(S(600)));
        assert_eq!(tool.limit(Timeout::Default), Some(S(120)));
        assert_eq!(tool.limit(Timeout::After(S(5))), Some(S(5)));
        assert_eq!(tool.limit(Timeout::After(S(601))), Some(S(600)));
        assert_eq!(tool.limit(Timeout::After(Duration::MAX)), Some(S(600)));
        assert_eq!(tool.limit(Timeout::None), Some(S(600)));
        assert_eq!(tool.limit(Timeout::After(S(0))), Some(S(600)));
        assert_eq!(defaults(Some(S(900)), Some(S(600))).limit(Timeout::Default), Some(S(600)));
        let run = defaults(None, None);
        assert_eq!(run.limit(Timeout::Default), None);
        assert_eq!(run.limit(Timeout::None), None);
        assert_eq!(run.limit(Timeout::After(S(5000))), Some(S(5000)));
    }

    #[test]
    fn workdirs_and_budgets() {
        let defaults = defaults(None, None);
        let resolve = |dir: Option<&str>| {
            let request = ExecRequest { workdir: dir.map(Into::into), ..ExecRequest::shell("true") };
            defaults.resolve(request).unwrap().workdir
        };
        assert_eq!(resolve(None), Path::new("/base"));
        assert_eq!(resolve(Some("sub")), Path::new("/base/sub"));
        assert_eq!(resolve(Some("/abs")), Path::new("/abs"));
        assert_eq!(defaults.resolve(ExecRequest::shell("true")).unwrap().stdout_max_bytes, 64_000);
    }

    #[test]
    fn what_could_never_run_is_refused() {
        let defaults = defaults(None, None);
        let shell = |text: &str| defaults.resolve(ExecRequest::shell(text));
        let program = |argv: &[&str]| {
            defaults.resolve(ExecRequest::new(CommandLine::Program(argv.iter().map(Into::into).collect())))
        };
        assert!(matches!(shell(" \n"), Err(ExecError::EmptyCommand)));
        assert!(matches!(program(&[]), Err(ExecError::EmptyCommand)));
        assert!(matches!(program(&["", "x"]), Err(ExecError::EmptyCommand)));
        assert!(matches!(shell("a\0b"), Err(ExecError::NulByte { .. })));
        assert!(matches!(program(&["a", "b\0"]), Err(ExecError::NulByte { what }) if what == "argument 1"));
        let request = ExecRequest { workdir: Some("a\0".into()), ..ExecRequest::shell("true") };
        assert!(matches!(defaults.resolve(request), Err(ExecError::NulByte { .. })));
        assert!(matches!(shell(&"x".repeat(LONGEST_ARGUMENT)), Err(ExecError::TooLong { .. })));
        assert!(shell(&"x".repeat(LONGEST_ARGUMENT - 1)).is_ok());
        assert!(program(&["true", ""]).is_ok());
    }
}
