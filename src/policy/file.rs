//! Policy files: TOML text to one layer of rules, every mistake with line and column.
//!
//! This module knows the format and nothing of the host: paths stay as written until they are resolved.

#![forbid(unsafe_code)]

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::error::{Place, PolicyError};
use super::lines::Lines;
use super::protect::{ProtectTable, RawProtect};
use super::shipped;
use super::size::LimitValue;
use super::variable;
use super::{NetworkMode, PathAccess, SandboxMode, SyscallRule};

/// Larger files are refused unread.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// One path entry of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRule {
    /// The path as written, variables and all.
    pub(super) text: String,
    pub(super) access: PathAccess,
    pub(super) optional: bool,
    pub(super) reason: Option<String>,
    pub(super) place: Place,
}

/// A value with the place it is written at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// Limits of one layer; `None` says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLimits {
    pub(super) processes: Option<LimitValue>,
    pub(super) memory: Option<LimitValue>,
    pub(super) tmp_size: Option<LimitValue>,
    pub(super) open_files: Option<LimitValue>,
    pub(super) file_size: Option<LimitValue>,
}

/// One parsed policy file: a layer for [`PolicyRequest`](super::PolicyRequest).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFile {
    pub(super) path: PathBuf,
    /// Set for the policies that come with the crate.
    #[serde(skip)]
    pub(super) shipped: Option<&'static str>,
    pub(super) mode: Option<SandboxMode>,
    pub(super) rules: Vec<FileRule>,
    pub(super) private_tmp: Option<Placed<bool>>,
    pub(super) network_mode: Option<Placed<NetworkMode>>,
    pub(super) allow: Vec<Placed<String>>,
    pub(super) deny: Vec<Placed<String>>,
    pub(super) limits: FileLimits,
    pub(super) seccomp: Vec<SyscallRule>,
    pub(super) protect: ProtectTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    mode: Option<Spanned<String>>,
    #[serde(default)]
    filesystem: RawFilesystem,
    #[serde(default)]
    network: RawNetwork,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    seccomp: RawSeccomp,
    #[serde(default)]
    protect: RawProtect,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFilesystem {
    #[serde(default)]
    write: Vec<Spanned<RawRule>>,
    #[serde(default)]
    deny_write: Vec<Spanned<RawRule>>,
    #[serde(default)]
    deny_read: Vec<Spanned<RawRule>>,
    #[serde(default)]
    read: Vec<Spanned<RawRule>>,
    private_tmp: Option<Spanned<bool>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    mode: Option<Spanned<NetworkMode>>,
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSeccomp {
    #[serde(default)]
    deny: Vec<Spanned<SyscallRule>>,
}

/// A rule: a string, or a table with a reason.
struct RawRule {
    path: String,
    reason: Option<String>,
    optional: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    path: String,
    reason: Option<String>,
    #[serde(default)]
    optional: bool,
}

impl<'de> Deserialize<'de> for RawRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rule;
        impl<'de> Visitor<'de> for Rule {
            type Value = RawRule;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or a table { path, reason, optional }")
            }
            fn visit_str<E: de::Error>(self, path: &str) -> Result<RawRule, E> {
                Ok(RawRule { path: path.to_owned(), reason: None, optional: false })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawRule, A::Error> {
                let RuleTable { path, reason, optional } = RuleTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawRule { path, reason, optional })
            }
        }
        deserializer.deserialize_any(Rule)
    }
}

impl PolicyFile {
    /// Reads and parses a policy file.
    ///
    /// # Errors
    /// When it cannot be read, is larger than [`MAX_FILE_BYTES`], is not UTF-8, or says something that means nothing.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let unreadable =
            |source| PolicyError::Unreadable { path: path.to_owned(), shipped: shipped::names().join(", "), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        Self::from_bytes(path, &bytes)
    }

    /// Parses the bytes of a policy file; `path` is used in messages and origins only.
    ///
    /// # Errors
    /// As [`read`](Self::read), reading excepted.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, PolicyError> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let place = Place { file: path.to_owned(), line: 1, column: 1 };
            return Err(PolicyError::TooLarge { place, limit: MAX_FILE_BYTES });
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(path, None, text),
            Err(error) => {
                let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(PolicyError::NotUtf8 { place: Lines::new(path, &valid).place(valid.len()) })
            }
        }
    }

    pub(super) fn parse(path: &Path, shipped: Option<&'static str>, text: &str) -> Result<Self, PolicyError> {
        let lines = Lines::new(path, text);
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let place = lines.place(error.span().map_or(0, |span| span.start));
            let message = error.message().to_owned();
            if message.starts_with("unknown field") {
                PolicyError::UnknownKey { place, message }
            } else {
                PolicyError::Format { place, message }
            }
        })?;
        let mode = match raw.mode {
            None => None,
            Some(mode) => Some(
                mode.get_ref()
                    .parse()
                    .map_err(|source| PolicyError::Mode { place: lines.place(mode.span().start), source })?,
            ),
        };
        let fs = raw.filesystem;
        let mut rules = Vec::with_capacity(fs.write.len() + fs.read.len() + fs.deny_write.len() + fs.deny_read.len());
        for (access, list) in [
            (PathAccess::Write, fs.write),
            (PathAccess::Read, fs.read),
            (PathAccess::DenyWrite, fs.deny_write),
            (PathAccess::DenyRead, fs.deny_read),
        ] {
            for entry in list {
                rules.push(checked_rule(access, entry, &lines)?);
            }
        }
        let placed = |list: Vec<Spanned<String>>| -> Vec<Placed<String>> {
            let one = |s: Spanned<String>| Placed { place: lines.place(s.span().start), value: s.into_inner() };
            list.into_iter().map(one).collect()
        };
        let (allow, deny) = (placed(raw.network.allow), placed(raw.network.deny));
        let network_mode =
            raw.network.mode.map(|m| Placed { place: lines.place(m.span().start), value: m.into_inner() });
        check_network(network_mode.as_ref(), &allow, &deny)?;
        for rule in &raw.seccomp.deny {
            check_syscall(rule, &lines)?;
        }
        Ok(Self {
            path: path.to_owned(),
            shipped,
            mode,
            rules,
            private_tmp: fs.private_tmp.map(|p| Placed { place: lines.place(p.span().start), value: p.into_inner() }),
            network_mode,
            allow,
            deny,
            limits: raw.limits,
            seccomp: raw.seccomp.deny.into_iter().map(Spanned::into_inner).collect(),
            protect: raw.protect.checked(&lines)?,
        })
    }

    /// The mode the file is written for, when it says one.
    #[must_use]
    pub fn mode(&self) -> Option<SandboxMode> {
        self.mode
    }
}

fn checked_rule(access: PathAccess, entry: Spanned<RawRule>, lines: &Lines<'_>) -> Result<FileRule, PolicyError> {
    let place = lines.place(entry.span().start);
    let RawRule { path: text, reason, optional } = entry.into_inner();
    let value =
        |problem: String, remedy: &str| PolicyError::Value { place: place.clone(), problem, remedy: remedy.to_owned() };
    variable::check(&text, &place)?;
    if text.contains('\0') {
        return Err(value("the path contains a NUL byte".into(), "remove it"));
    }
    if optional && access != PathAccess::Write {
        let problem = "only a write entry can be optional".to_owned();
        return Err(value(problem, "remove `optional`: a missing read or deny entry is always kept"));
    }
    let opens = matches!(access, PathAccess::Write | PathAccess::Read);
    let parent = Path::new(&text).parent().is_some_and(|parent| parent.to_string_lossy().contains(['*', '?']));
    let last = Path::new(&text).file_name().is_some_and(|name| name.to_string_lossy().contains(['*', '?']));
    if parent || (last && opens) {
        let problem = format!("'{text}' has a wildcard where none can be");
        return Err(value(problem, "wildcards work in the last component of deny entries only"));
    }
    Ok(FileRule { text, access, optional, reason, place })
}

fn check_network(
    mode: Option<&Placed<NetworkMode>>,
    allow: &[Placed<String>],
    deny: &[Placed<String>],
) -> Result<(), PolicyError> {
    for entry in allow.iter().chain(deny) {
        if let Err(problem) = host_text(&entry.value) {
            let remedy = "write HOST, HOST:PORT, *.HOST, an address or a CIDR range".to_owned();
            return Err(PolicyError::Value { place: entry.place.clone(), problem, remedy });
        }
    }
    let listed = allow.first().or(deny.first());
    match (mode.map(|m| m.value), listed) {
        (Some(mode @ (NetworkMode::Off | NetworkMode::Full)), Some(entry)) => Err(PolicyError::Value {
            place: entry.place.clone(),
            problem: format!("network mode '{}' would ignore this entry", network_name(mode)),
            remedy: "set mode = \"allowlist\" or remove the entry".into(),
        }),
        _ => Ok(()),
    }
}

pub(super) const fn network_name(mode: NetworkMode) -> &'static str {
    match mode {
        NetworkMode::Off => "off",
        NetworkMode::Allowlist => "allowlist",
        NetworkMode::Full => "full",
    }
}

/// The least a host entry must be; its grammar belongs to the network module.
pub(super) fn host_text(entry: &str) -> Result<(), String> {
    if entry.is_empty() {
        return Err("an empty host entry".into());
    }
    if entry.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/' && entry.contains("://")) {
        return Err(format!("{entry:?} is no host entry"));
    }
    Ok(())
}

fn check_syscall(rule: &Spanned<SyscallRule>, lines: &Lines<'_>) -> Result<(), PolicyError> {
    let (place, rule) = (lines.place(rule.span().start), rule.get_ref());
    let named = !rule.syscall.is_empty()
        && rule.syscall.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !named {
        let problem = format!("{:?} is no system call's name", rule.syscall);
        return Err(PolicyError::Value { place, problem, remedy: "write it as the kernel's table does".into() });
    }
    if let Some(bad) = rule.when.iter().find(|when| when.arg > 5) {
        let problem = format!("a system call has arguments 0 to 5, not {}", bad.arg);
        return Err(PolicyError::Value { place, problem, remedy: "correct `arg`".into() });
    }
    Ok(())
}
