//! System calls that a policy refuses, as data with a reason on each.

use serde::{Deserialize, Serialize};

use crate::denial::DenialKind;

/// How one argument is compared. Only the low 32 bits are looked at, because that is what the kernel reads of every
/// argument named in a rule (a 64-bit compare was the hole in snapd CVE-2019-7303 and flatpak CVE-2019-10063).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Any bit of the mask is set.
    AnyBit,
    /// Equal to the value under the mask.
    MaskedEq,
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgMatch {
    /// Argument number, from 0.
    pub arg: u8,
    /// Comparison.
    pub op: ArgOp,
    /// Value, or bits for `any-bit`.
    pub value: u32,
    /// Mask for `masked-eq`.
    #[serde(default)]
    pub mask: u32,
}

/// The errno a refused call returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefusalErrno {
    /// `EPERM`: the usual refusal.
    #[default]
    #[serde(rename = "EPERM")]
    Eperm,
    /// `ENOSYS`: for calls that have an older twin which libraries fall back to.
    #[serde(rename = "ENOSYS")]
    Enosys,
    /// `EAFNOSUPPORT`: for socket families.
    #[serde(rename = "EAFNOSUPPORT")]
    Eafnosupport,
}

/// One refused call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyscallRule {
    /// The call's name as the kernel's table has it.
    pub syscall: String,
    /// Conditions that must all hold; none means always.
    #[serde(default)]
    pub when: Vec<ArgMatch>,
    /// What the caller sees.
    #[serde(default)]
    pub errno: RefusalErrno,
    /// The kind of the denial fact.
    #[serde(default = "default_kind")]
    pub kind: DenialKind,
    /// Why.
    pub reason: String,
}

const fn default_kind() -> DenialKind {
    DenialKind::Syscall
}
