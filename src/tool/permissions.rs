//! Extra permissions: from what a model wrote to exactly what a call would get.
//!
//! Paths are resolved here, before anybody is asked, so that the approver sees where a permission leads and the call
//! gets that and nothing else. The executor must not follow links again: a canonical path has none, and one that grew
//! since is to be refused.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};

use super::AdditionalPermissions;
use crate::denial::Grant;

/// Most entries of one list: as many as a person reads in a prompt.
const ENTRIES_MAX: usize = 16;
/// Longest path, bytes (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// The direction of a path permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantAccess {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// What a path has to do with protected ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// It is a protected object, or lies within one: whoever names it names the protected thing itself.
    Named,
    /// It merely contains this protected path: naming it does not name that.
    Contains(PathBuf),
}

/// Tells which paths are protected: for writing those that make other programs run code later, for reading those that
/// hold secrets.
pub trait ProtectedPaths: Send + Sync {
    /// What each of the canonical paths of one request has to do with protected paths, in a session with this
    /// workspace; in their order. It may look at the disk. What it does not answer counts as protected.
    fn protection(&self, workspace: &Path, asked: &[(PathBuf, GrantAccess)]) -> Vec<Protection>;
}

/// A fixed list of protected absolute paths, for writing and reading alike.
#[derive(Debug, Clone, Default)]
pub struct ProtectedList(pub Vec<PathBuf>);

impl ProtectedPaths for ProtectedList {
    fn protection(&self, _workspace: &Path, asked: &[(PathBuf, GrantAccess)]) -> Vec<Protection> {
        let of = |path: &Path| {
            if self.0.iter().any(|protected| path.starts_with(protected)) {
                return Protection::Named;
            }
            let inside = self.0.iter().find(|protected| protected.starts_with(path));
            inside.map_or(Protection::None, |protected| Protection::Contains(protected.clone()))
        };
        asked.iter().map(|(path, _)| of(path)).collect()
    }
}

/// Why permissions cannot be granted. Nobody was asked.
#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    /// Too many.
    #[error("additional_permissions: {list} has {count} entries; ask for at most 16, or for a wider mode")]
    TooMany {
        /// Which list.
        list: &'static str,
        /// How many.
        count: usize,
    },
    /// Unusable path.
    #[error("additional_permissions: {path:?} {problem}")]
    Path {
        /// As given.
        path: String,
        /// What is wrong, with the remedy.
        problem: String,
    },
    /// Unusable host.
    #[error("additional_permissions: {entry:?} {problem}; give host or host:port")]
    Host {
        /// As given.
        entry: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Would open a protected path that is not named.
    #[error(
        "additional_permissions: {path} contains the protected path {protected}, which must be named exactly; name only the paths that were refused"
    )]
    Protected {
        /// The path asked for.
        path: PathBuf,
        /// The protected path in it.
        protected: PathBuf,
    },
}

/// The grant that `asked` comes to, resolved, sorted and without repetition, and the protected paths it names.
///
/// # Errors
/// When an entry cannot be used, or contains a protected path without naming it.
pub fn canonical_grant(
    asked: &AdditionalPermissions,
    workspace: &Path,
    guard: &dyn ProtectedPaths,
) -> Result<(Grant, Vec<PathBuf>), PermissionError> {
    let mut asked_paths = canonical_paths(asked.write.as_deref(), "write", GrantAccess::Write)?;
    asked_paths.extend(canonical_paths(asked.read.as_deref(), "read", GrantAccess::Read)?);
    let mut judged =
        if asked_paths.is_empty() { Vec::new() } else { guard.protection(workspace, &asked_paths) }.into_iter();
    let (mut write, mut read, mut protected) = (Vec::new(), Vec::new(), Vec::new());
    for (path, access) in asked_paths {
        match judged.next().unwrap_or_else(|| Protection::Contains(workspace.to_owned())) {
            Protection::None => {}
            Protection::Named => protected.push(path.clone()),
            Protection::Contains(protected) => return Err(PermissionError::Protected { path, protected }),
        }
        match access {
            GrantAccess::Write => write.push(path),
            GrantAccess::Read => read.push(path),
        }
    }
    let hosts = bounded(asked.network.as_deref().unwrap_or_default(), "network")?;
    let mut network = hosts.iter().map(|entry| canonical_host(entry)).collect::<Result<Vec<_>, _>>()?;
    network.sort();
    network.dedup();
    for list in [&mut write, &mut read, &mut protected] {
        list.sort();
        list.dedup();
    }
    Ok((Grant { write, read, network }, protected))
}

fn bounded<'a>(list: &'a [String], name: &'static str) -> Result<&'a [String], PermissionError> {
    if list.len() > ENTRIES_MAX {
        return Err(PermissionError::TooMany { list: name, count: list.len() });
    }
    Ok(list)
}

fn canonical_paths(
    list: Option<&[String]>,
    name: &'static str,
    access: GrantAccess,
) -> Result<Vec<(PathBuf, GrantAccess)>, PermissionError> {
    let resolved = bounded(list.unwrap_or_default(), name)?.iter().map(|given| {
        let path = canonical_path(given)?;
        if access == GrantAccess::Write && path == Path::new("/") {
            return Err(unusable(given, "is everything: ask for the paths that were refused, or for a wider mode"));
        }
        Ok((path, access))
    });
    resolved.collect()
}

fn unusable(given: &str, problem: impl Into<String>) -> PermissionError {
    PermissionError::Path { path: given.chars().take(200).collect(), problem: problem.into() }
}

/// Resolves every link of a path. What does not exist yet keeps its name under the deepest directory that does.
fn canonical_path(given: &str) -> Result<PathBuf, PermissionError> {
    let path = Path::new(given);
    if !path.is_absolute() {
        return Err(unusable(given, "is not absolute: give the full path"));
    }
    if given.contains('\0') || given.len() > PATH_MAX {
        return Err(unusable(given, "is no path the kernel takes"));
    }
    let mut missing = Vec::new();
    for existing in path.ancestors() {
        match existing.symlink_metadata() {
            Ok(_) => {
                // Fails for a link that leads nowhere: where it will lead is not ours to guess.
                let mut found = std::fs::canonicalize(existing)
                    .map_err(|error| unusable(given, format!("cannot be resolved ({error})")))?;
                if !missing.is_empty() && !found.is_dir() {
                    return Err(unusable(given, "passes through something that is no directory"));
                }
                found.extend(missing.iter().rev());
                return Ok(found);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => match existing.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name.to_owned()),
                _ => return Err(unusable(given, "has '..' behind something that does not exist: give the plain path")),
            },
            Err(error) => return Err(unusable(given, format!("cannot be resolved ({error})"))),
        }
    }
    Err(unusable(given, "cannot be resolved"))
}

/// One host, exactly: no wildcard, no address in disguise, lower case, without a trailing dot.
fn canonical_host(entry: &str) -> Result<String, PermissionError> {
    let wrong = |problem| PermissionError::Host { entry: entry.chars().take(200).collect(), problem };
    if let Ok(address) = entry.parse::<Ipv6Addr>() {
        return plain_v6(address)
            .map(|address| format!("[{address}]"))
            .ok_or_else(|| wrong("is an IPv4 address in disguise"));
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (entry, None),
    };
    let port = match port {
        None => String::new(),
        Some(digits) if digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(wrong("has no usable port"));
        }
        Some(digits) => format!(":{}", digits.parse::<u16>().map_err(|_| wrong("has no usable port"))?),
    };
    if let Some(inside) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = inside.parse::<Ipv6Addr>().map_err(|_| wrong("is no IPv6 address"))?;
        return plain_v6(address)
            .map(|address| format!("[{address}]{port}"))
            .ok_or_else(|| wrong("is an IPv4 address in disguise"));
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return Err(wrong("is no host name"));
    }
    // A last label that is a number makes an address of the whole, and libraries read octal and hexadecimal into those.
    let last = host.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    if numeric && host.parse::<IpAddr>().is_err() {
        return Err(wrong("is an address in an unusual spelling"));
    }
    Ok(format!("{host}{port}"))
}

fn plain_v6(address: Ipv6Addr) -> Option<Ipv6Addr> {
    address.to_ipv4_mapped().is_none().then_some(address)
}

/// Guards everything: for a host that was given no list. Permissions on paths are then refused, not granted blindly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unlisted;

impl ProtectedPaths for Unlisted {
    fn protection(&self, _workspace: &Path, _asked: &[(PathBuf, GrantAccess)]) -> Vec<Protection> {
        Vec::new()
    }
}
