//! Where the launcher's executable is, and why there is no launcher.

use std::path::{Path, PathBuf};

use super::server::can_reexecute;

/// Where the launcher's executable is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LauncherPath {
    /// This program itself, when its `main` called [`enter`](super::enter); else a `stockade` beside it or on PATH.
    #[default]
    Auto,
    /// This executable.
    Exact(PathBuf),
}

/// Why there is no launcher.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// None was found.
    #[error(
        "no launcher was found: call stockade::launcher::enter() first thing in main, configure a launcher path, or \
         install the stockade binary beside {beside} or on PATH"
    )]
    NotFound {
        /// The executable beside which it was looked for.
        beside: PathBuf,
    },
    /// It could not be started.
    #[error("the launcher {path} could not be started: {source}")]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The kernel refused a socket or its setting.
    #[error("a socket for the launcher could not be made: {0}")]
    Socket(#[source] std::io::Error),
    /// The launcher is gone or cannot be spoken to.
    #[error("the launcher cannot be reached: {0}")]
    Unreachable(String),
}

impl LauncherPath {
    pub(super) fn resolve(&self) -> Result<PathBuf, LauncherError> {
        match self {
            Self::Exact(path) => Ok(path.clone()),
            Self::Auto if can_reexecute() => Ok(PathBuf::from("/proc/self/exe")),
            Self::Auto => find_installed(),
        }
    }
}

fn find_installed() -> Result<PathBuf, LauncherError> {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().map(|directory| directory.join("stockade"));
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("stockade")).collect::<Vec<_>>()
    });
    beside.into_iter().chain(on_path).find(|path| is_executable(path)).ok_or(LauncherError::NotFound { beside: own })
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}
