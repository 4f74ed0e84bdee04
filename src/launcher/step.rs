//! One step of building a sandbox: a stage, what it does, and a failure that names both.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::{SetupFailure, Stage};
use crate::plan::Fault;

/// Runs one stage and turns its errno into a failure with the stage's name. A fault made to order comes first.
pub(super) fn step<T>(
    fault: Option<Fault>,
    stage: Stage,
    body: impl FnOnce() -> Result<T, StepError>,
) -> Result<T, SetupFailure> {
    let result = match fault {
        Some(fault) if fault.stage == stage => Err(StepError::from(Errno::from_raw(fault.errno))),
        _ => body(),
    };
    result.map_err(|error| SetupFailure { stage, errno: error.errno as i32, path: error.path })
}

/// What went wrong within a stage.
#[derive(Debug)]
pub(super) struct StepError {
    errno: Errno,
    path: Option<PathBuf>,
}

impl StepError {
    /// What the kernel said.
    pub(super) const fn errno(&self) -> Errno {
        self.errno
    }
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        Self { errno, path: None }
    }
}

impl From<std::io::Error> for StepError {
    fn from(error: std::io::Error) -> Self {
        Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)).into()
    }
}

/// What the kernel is given as a path, as one.
pub(super) fn path_of(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// Adds the path to an error.
pub(super) trait At<T> {
    /// The same result, its error about `path`.
    fn at(self, path: &Path) -> Result<T, StepError>;
}

impl<T, E: Into<StepError>> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, StepError> {
        self.map_err(|error| {
            let error: StepError = error.into();
            StepError { path: error.path.or_else(|| Some(path.to_path_buf())), ..error }
        })
    }
}
