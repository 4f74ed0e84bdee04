//! Finding programs, and the words that make bash run one command and nothing else.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::ExecError;

/// Where programs are looked for when there is no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What bash is called in its own messages.
pub(crate) const SHELL_NAME: &str = "bash";

/// The arguments of bash that run `command`.
///
/// `--norc`: Debian's bash reads `~/.bashrc` even with `-c` when `SSH_CLIENT` is set and it is the outermost shell, and
/// any bash does when its input is a socket. `--`: a command may begin with a dash.
pub(crate) fn shell_arguments(command: &str) -> [&str; 4] {
    ["--norc", "-c", "--", command]
}

/// Finds bash: `configured`, or the first on `path` in an absolute directory (a relative one would let a workspace
/// bring its own).
pub(crate) fn find_shell(configured: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, ExecError> {
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let (found, searched) = match configured {
        Some(shell) => (executable(shell).is_ok().then(|| shell.to_path_buf()), shell.as_os_str()),
        None => (
            std::env::split_paths(path)
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join(SHELL_NAME))
                .find(|candidate| executable(candidate).is_ok()),
            path,
        ),
    };
    found.ok_or_else(|| ExecError::NoShell { searched: searched.to_string_lossy().into_owned() })
}

/// As [`find_shell`] for an executor that reports a missing shell only to the runs that need one: the error is where it
/// was looked for, to be put into [`ExecError::NoShell`].
pub(crate) fn shell_of(configured: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, String> {
    find_shell(configured, path).map_err(|error| match error {
        ExecError::NoShell { searched } => searched,
        other => other.to_string(),
    })
}

/// Finds a program as `execvp` would: a name with a slash from `workdir`, any other on `path`.
pub(crate) fn find_program(program: &OsStr, path: Option<&OsStr>, workdir: &Path) -> Result<PathBuf, ExecError> {
    let name = || program.to_string_lossy().into_owned();
    let named = program.as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if named {
        vec![workdir.join(program)]
    } else {
        let path = path.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_os_string);
        std::env::split_paths(&path).map(|dir| workdir.join(dir).join(program)).collect()
    };
    let mut refused = None;
    for candidate in candidates {
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            // On PATH, as in bash, only a file counts: not a directory of that name, nor a place that may not be entered.
            Err(error) if named || candidate.is_file() => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(source) => ExecError::NotExecutable { program: name(), source },
        None => ExecError::NotFound { program: name() },
    })
}

fn executable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(access(path, AccessFlags::X_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn programs() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        file(&dir.join("a/tool"), 0o644);
        file(&dir.join("b/tool"), 0o755);
        file(&dir.join("a/plain"), 0o644);
        fs::create_dir_all(dir.join("a/folder")).unwrap();
        let path = OsString::from(format!("a:{}/b", dir.display()));
        let find = |name: &str| find_program(OsStr::new(name), Some(&path), dir);
        assert_eq!(find("tool").unwrap(), dir.join("b/tool"));
        assert_eq!(find("./b/tool").unwrap(), dir.join("./b/tool"));
        assert!(matches!(find("plain"), Err(ExecError::NotExecutable { .. })));
        assert!(matches!(find("folder"), Err(ExecError::NotFound { .. })));
        assert!(matches!(find("a/folder"), Err(ExecError::NotExecutable { .. })));
        assert!(matches!(find("a/plain/x"), Err(ExecError::NotFound { .. })));
        assert!(matches!(find("missing"), Err(ExecError::NotFound { .. })));
        assert!(find_program(OsStr::new("sh"), None, dir).is_ok());
    }

    #[test]
    fn shells() {
        let root = tempfile::tempdir().unwrap();
        file(&root.path().join("bin/bash"), 0o755);
        let bin = root.path().join("bin");
        assert_eq!(find_shell(None, Some(bin.as_os_str())).unwrap(), bin.join("bash"));
        assert_eq!(find_shell(Some(&bin.join("bash")), Some(OsStr::new("/x"))).unwrap(), bin.join("bash"));
        let none = find_shell(None, Some(OsStr::new("/nowhere:relative"))).unwrap_err();
        assert!(matches!(none, ExecError::NoShell { searched } if searched == "/nowhere:relative"));
        assert!(find_shell(Some(&bin.join("zsh")), Some(bin.as_os_str())).is_err());
    }
}
