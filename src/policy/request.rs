//! What a caller asks of the policy layer, before anything is looked up on the host.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use super::error::PolicyError;
use super::{EffectivePolicy, NetworkMode, PathAccess, PolicyFile, SandboxMode, resolve, shipped};
use crate::denial::Grant;

/// Directories of the host and user that policies speak of. All absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPaths {
    /// `${HOME}` and `~/`.
    pub home: PathBuf,
    /// A second home directory whose secrets are masked too: the account's own where `$HOME` says something else
    /// (sudo, containers).
    pub account_home: Option<PathBuf>,
    /// `${TMP}`.
    pub tmp: PathBuf,
    /// What relative paths of options are relative to.
    pub cwd: PathBuf,
}

impl HostPaths {
    /// The paths of this process: `$HOME` (else the account's home, else `/`), `/tmp`, the current directory.
    ///
    /// # Errors
    /// When the current directory is gone or cannot be reached.
    pub fn of_process() -> std::io::Result<Self> {
        let account = account_home().filter(|dir| dir.is_absolute());
        let variable = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let home = variable.or_else(|| account.clone()).unwrap_or_else(|| "/".into());
        let account_home = account.filter(|account| *account != home && account != Path::new("/"));
        Ok(Self { home, account_home, tmp: "/tmp".into(), cwd: std::env::current_dir()? })
    }
}

/// The home directory of this process's account: from `/etc/passwd` where it is listed, which costs one read, else from
/// whatever the host asks for accounts. That is asked by `getent`: `getpwuid(3)` would load the host's modules
/// (`libnss_systemd`) into this process, which may be linked statically and then faults.
fn account_home() -> Option<PathBuf> {
    let uid = geteuid();
    let listed = |text: Vec<u8>| {
        text.split(|byte| *byte == b'\n').find_map(|line| {
            let mut fields = line.split(|byte| *byte == b':').skip(2);
            let matches = fields.next()? == uid.to_string().as_bytes();
            matches.then(|| fields.nth(2)).flatten().map(|home| PathBuf::from(OsStr::from_bytes(home)))
        })
    };
    std::fs::read("/etc/passwd").ok().and_then(listed).or_else(|| {
        let mut asked = Command::new("/usr/bin/getent");
        asked
            .args(["passwd", &uid.to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        asked.output().ok().and_then(|answer| listed(answer.stdout))
    })
}

/// A path option of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CliRule {
    /// `--write`.
    Write,
    /// `--deny-write`.
    DenyWrite,
    /// `--deny-read`.
    DenyRead,
}

impl CliRule {
    /// The option as it is written.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Write => "--write",
            Self::DenyWrite => "--deny-write",
            Self::DenyRead => "--deny-read",
        }
    }

    pub(super) const fn access(self) -> PathAccess {
        match self {
            Self::Write => PathAccess::Write,
            Self::DenyWrite => PathAccess::DenyWrite,
            Self::DenyRead => PathAccess::DenyRead,
        }
    }
}

/// One policy layer that the caller named.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// `--policy FILE|NAME`, as given.
    Named(OsString),
    Path(PathBuf),
    Parsed(Box<PolicyFile>),
}

/// Everything that goes into an [`EffectivePolicy`].
///
/// Layers from lowest to highest: the shipped policy of the mode, what was discovered on the host, policy files in the
/// order given, the command line, the grant. Layers only decide between rules for the *same* path; otherwise the most
/// specific path wins.
///
/// The mode is the one given here; else the last policy file's that names one; else read-only. Where the mode given here
/// is narrower than the one a file is written for, what that file opens (write and read entries, network) is left
/// out, and a note says so.
#[derive(Debug, Clone)]
#[must_use]
pub struct PolicyRequest {
    pub(super) mode: Option<SandboxMode>,
    pub(super) workspace: PathBuf,
    pub(super) sources: Vec<Source>,
    pub(super) cli: Vec<(CliRule, PathBuf)>,
    pub(super) network: Option<NetworkMode>,
    pub(super) allow_hosts: Vec<String>,
    pub(super) grant: Grant,
}

impl PolicyRequest {
    /// A request for a mode (`None`: what the policy file says) and a workspace, with nothing added.
    pub fn new(mode: impl Into<Option<SandboxMode>>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            mode: mode.into(),
            workspace: workspace.into(),
            sources: Vec::new(),
            cli: Vec::new(),
            network: None,
            allow_hosts: Vec::new(),
            grant: Grant::default(),
        }
    }

    /// Adds `--policy FILE|NAME`: a shipped policy's name, else a file (anything with a `/` or a `.` in it).
    pub fn policy(mut self, file_or_name: impl Into<OsString>) -> Self {
        self.sources.push(Source::Named(file_or_name.into()));
        self
    }

    /// Adds a policy file, read when the request is resolved.
    pub fn policy_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::Path(path.into()));
        self
    }

    /// Adds a policy file that was parsed before, so that many requests cost one reading.
    pub fn parsed(mut self, file: PolicyFile) -> Self {
        self.sources.push(Source::Parsed(Box::new(file)));
        self
    }

    /// Adds a path option of the command line.
    pub fn cli_rule(mut self, rule: CliRule, path: impl Into<PathBuf>) -> Self {
        self.cli.push((rule, path.into()));
        self
    }

    /// Sets `--network`, and adds `--allow-host` entries.
    pub fn network(mut self, mode: Option<NetworkMode>, allow_hosts: impl IntoIterator<Item = String>) -> Self {
        self.network = mode.or(self.network);
        self.allow_hosts.extend(allow_hosts);
        self
    }

    /// Adds permissions approved for this call alone.
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant.write.extend(grant.write);
        self.grant.read.extend(grant.read);
        self.grant.network.extend(grant.network);
        self
    }

    /// The same request with its policy files read, so that resolving it again costs no reading.
    ///
    /// # Errors
    /// When a file is wrong or cannot be read.
    pub fn preloaded(mut self, host: &HostPaths) -> Result<Self, PolicyError> {
        let files = self.files(host)?;
        self.sources = files.into_iter().map(|file| Source::Parsed(Box::new(file))).collect();
        Ok(self)
    }

    /// The same layers for another mode and workspace: one call's own.
    pub fn for_call(&self, mode: SandboxMode, workspace: impl Into<PathBuf>) -> Self {
        Self { mode: Some(mode), workspace: workspace.into(), ..self.clone() }
    }

    /// Merges every layer and resolves every path against this host. Reads directories; changes nothing.
    ///
    /// # Errors
    /// When a file is wrong, entries contradict each other, a path cannot be used, or a rule could not be enforced in
    /// the mode. See [`PolicyError`].
    pub fn resolve(&self, host: &HostPaths) -> Result<EffectivePolicy, PolicyError> {
        resolve::resolve(self, host)
    }

    /// Reads the policy files.
    pub(super) fn files(&self, host: &HostPaths) -> Result<Vec<PolicyFile>, PolicyError> {
        let mut files = Vec::new();
        for source in &self.sources {
            match source {
                Source::Parsed(file) => files.push((**file).clone()),
                Source::Path(path) => files.push(PolicyFile::read(&host.cwd.join(path))?),
                Source::Named(given) => files.push(by_name_or_path(given, host)?),
            }
        }
        Ok(files)
    }
}

fn by_name_or_path(given: &OsStr, host: &HostPaths) -> Result<PolicyFile, PolicyError> {
    let known = given.to_str().and_then(shipped::named);
    if let Some(Ok(file)) = known {
        return Ok(file.clone());
    }
    if given.as_bytes().iter().any(|b| matches!(b, b'/' | b'.')) {
        return PolicyFile::read(&host.cwd.join(given));
    }
    Err(shipped::no_such(&given.to_string_lossy()))
}
