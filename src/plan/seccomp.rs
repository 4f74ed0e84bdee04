//! Seccomp filters from the shipped data: which calls a plan refuses, compiled to BPF.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use serde::{Deserialize, Serialize};
use syscalls::Sysno;

use super::Instruction;
use crate::denial::DenialKind;
use crate::policy::{ArgMatch, ArgOp, RefusalErrno, SyscallRule};

/// When a group of the shipped data applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSet {
    /// In every confining mode.
    Base,
    /// When the command runs as uid 0.
    Root,
    /// In read-only mode without a mount namespace.
    Metadata,
    /// Without a PID namespace.
    Processes,
    /// Without a network namespace, with the network off.
    NoInet,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shipped {
    refuse: Vec<Group>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    set: RuleSet,
    calls: Vec<String>,
    #[serde(default)]
    when: Vec<ArgMatch>,
    #[serde(default)]
    errno: RefusalErrno,
    kind: DenialKind,
    reason: String,
}

/// Why filters could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    /// The data built into this binary does not parse: a defect of stockade.
    #[error("the built-in seccomp data cannot be read: {0}")]
    Shipped(#[from] toml::de::Error),
    /// This processor architecture has no filters.
    #[error("seccomp filters are not available on {0}: stockade supports x86_64 and aarch64")]
    Architecture(&'static str),
    /// A rule names a call that does not exist.
    #[error("seccomp: there is no system call named '{0}' on this architecture")]
    UnknownCall(String),
    /// The compiler refused a rule.
    #[error("seccomp: {0}")]
    Compile(#[from] seccompiler::BackendError),
}

const TEXT: &str = include_str!("../../policies/seccomp.toml");

/// The same, read already. A test compares the two and writes this one anew when `STOCKADE_WRITE_DOCS` is set.
const READ: &[u8] = include_bytes!("seccomp.bin");

/// The shipped rules of the given sets. Calls that this architecture does not have are left out.
///
/// # Errors
/// When the built-in data is defective.
pub fn shipped_rules(sets: &[RuleSet]) -> Result<Vec<SyscallRule>, SeccompError> {
    static SHIPPED: OnceLock<Result<Shipped, toml::de::Error>> = OnceLock::new();
    // Where the read form does not fit this build, the text holds.
    let shipped = SHIPPED.get_or_init(|| postcard::from_bytes(READ).or_else(|_| toml::from_str(TEXT)));
    let shipped = shipped.as_ref().map_err(Clone::clone)?;
    let groups = shipped.refuse.iter().filter(|group| sets.contains(&group.set));
    Ok(groups
        .flat_map(|group| group.calls.iter().map(move |call| (group, call)))
        .filter(|(_, call)| Sysno::from_str(call).is_ok())
        .map(|(group, call)| SyscallRule {
            syscall: call.clone(),
            when: group.when.clone(),
            errno: group.errno,
            kind: group.kind,
            reason: group.reason.clone(),
        })
        .collect())
}

/// Compiles rules to filters, one for each errno; the first begins by settling architecture and unknown calls.
///
/// # Errors
/// When a rule names an unknown call or compares an argument that does not exist.
pub fn compile(rules: &[SyscallRule]) -> Result<Vec<Vec<Instruction>>, SeccompError> {
    let arch =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|_| SeccompError::Architecture(std::env::consts::ARCH))?;
    let mut filters: Vec<Vec<Instruction>> = Vec::new();
    for errno in [RefusalErrno::Eperm, RefusalErrno::Enosys, RefusalErrno::Eafnosupport] {
        let mut by_call: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for rule in rules.iter().filter(|rule| rule.errno == errno) {
            let number = number(&rule.syscall)?;
            let chain = by_call.entry(number).or_default();
            for conditions in alternatives(&rule.when)? {
                chain.push(SeccompRule::new(conditions)?);
            }
        }
        // An unconditional rule is an empty chain; a conditional one beside it would narrow it.
        for rule in rules.iter().filter(|rule| rule.errno == errno && rule.when.is_empty()) {
            by_call.insert(number(&rule.syscall)?, Vec::new());
        }
        if by_call.is_empty() {
            continue;
        }
        let action = SeccompAction::Errno(errno.number());
        let program: BpfProgram = SeccompFilter::new(by_call, SeccompAction::Allow, action, arch)?.try_into()?;
        filters.push(program.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect());
    }
    // One program instead of two: installing each costs as much as a dozen of its instructions ever will.
    match filters.first_mut() {
        Some(first) => drop(first.splice(..0, boundary(arch))),
        None => filters.push([boundary(arch), vec![ALLOWED]].concat()),
    }
    Ok(filters)
}

/// The kernel's number of a call on this architecture.
fn number(call: &str) -> Result<i64, SeccompError> {
    Sysno::from_str(call).map(|n| i64::from(n.id())).map_err(|()| SeccompError::UnknownCall(call.to_owned()))
}

/// Every way in which all conditions can hold: `any-bit` is one alternative a bit.
fn alternatives(when: &[ArgMatch]) -> Result<Vec<Vec<SeccompCondition>>, SeccompError> {
    let mut all: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
    if when.is_empty() {
        return Ok(Vec::new());
    }
    for test in when {
        let condition = |op, value: u32| SeccompCondition::new(test.arg, SeccompCmpArgLen::Dword, op, u64::from(value));
        let choices = match test.op {
            ArgOp::Eq => vec![condition(SeccompCmpOp::Eq, test.value)?],
            ArgOp::Ne => vec![condition(SeccompCmpOp::Ne, test.value)?],
            ArgOp::MaskedEq => vec![condition(SeccompCmpOp::MaskedEq(u64::from(test.mask)), test.value)?],
            ArgOp::AnyBit => (0..u32::BITS)
                .map(|bit| 1_u32 << bit)
                .filter(|bit| test.value & bit != 0)
                .map(|bit| condition(SeccompCmpOp::MaskedEq(u64::from(bit)), bit))
                .collect::<Result<_, _>>()?,
        };
        all = all
            .iter()
            .flat_map(|so_far| {
                choices.iter().map(move |choice| [so_far.as_slice(), std::slice::from_ref(choice)].concat())
            })
            .collect();
    }
    Ok(all)
}

/// Settles what comes before any rule: a foreign architecture kills (int 0x80 has other numbers for everything), and a
/// number beyond the calls this filter was written for is answered as by an older kernel. The x32 numbers have bit 30
/// set and are answered the same way. What passes goes on with the instructions that follow.
fn boundary(arch: TargetArch) -> Vec<Instruction> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
    const ARCH_OFFSET: u32 = 4;
    const NUMBER_OFFSET: u32 = 0;
    let audit_arch = match arch {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    };
    vec![
        (LOAD, 0, 0, ARCH_OFFSET),
        (EQUAL, 1, 0, audit_arch),
        (RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        (LOAD, 0, 0, NUMBER_OFFSET),
        (GREATER, 0, 1, NEWEST_KNOWN_CALL),
        (RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | RefusalErrno::Enosys.number()),
    ]
}

const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// The end of a program that found nothing to refuse.
const ALLOWED: Instruction = (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);

/// `file_setattr` (Linux 6.17): the same number on every architecture. Raise it only after reading what the calls in
/// between do.
const NEWEST_KNOWN_CALL: u32 = 469;

impl RefusalErrno {
    /// The errno as a number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Eperm => libc::EPERM.cast_unsigned(),
            Self::Enosys => libc::ENOSYS.cast_unsigned(),
            Self::Eafnosupport => libc::EAFNOSUPPORT.cast_unsigned(),
        }
    }
}

/// The instruction form that the kernel takes.
#[must_use]
pub(crate) fn to_program(instructions: &[Instruction]) -> Vec<sock_filter> {
    instructions.iter().map(|&(code, jt, jf, k)| sock_filter { code, jt, jf, k }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [RuleSet; 5] = [RuleSet::Base, RuleSet::Root, RuleSet::Metadata, RuleSet::Processes, RuleSet::NoInet];

    #[test]
    fn shipped_data_parses_and_compiles() {
        let rules = shipped_rules(&EVERY).unwrap();
        assert!(rules.len() > 100, "{}", rules.len());
        let filters = compile(&rules).unwrap();
        assert_eq!(filters.len(), 3);
        assert!(filters.iter().all(|filter| filter.len() < 4096));
    }

    #[test]
    fn what_was_read_is_what_the_text_says() {
        let now = postcard::to_stdvec(&toml::from_str::<Shipped>(TEXT).unwrap()).unwrap();
        if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/seccomp.bin"), &now).unwrap();
        } else {
            assert!(
                now == READ,
                "policies/ changed: STOCKADE_WRITE_DOCS=1 cargo test --lib what_was_read, and build again"
            );
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_shipped_name_is_a_call() {
        let shipped: Shipped = toml::from_str(TEXT).unwrap();
        for call in shipped.refuse.iter().flat_map(|group| &group.calls) {
            assert!(Sysno::from_str(call).is_ok(), "{call}");
        }
    }

    #[test]
    fn any_bit_is_one_alternative_a_bit() {
        let test = |arg, value| ArgMatch { arg, op: ArgOp::AnyBit, value, mask: 0 };
        assert_eq!(alternatives(&[test(0, 0b101)]).unwrap().len(), 2);
        assert_eq!(alternatives(&[test(0, 0b101), test(1, 0b11)]).unwrap().len(), 4);
        assert!(alternatives(&[]).unwrap().is_empty());
    }

    #[test]
    fn an_unknown_call_is_refused_by_name() {
        let rule = SyscallRule {
            syscall: "no_such_call".into(),
            when: vec![],
            errno: RefusalErrno::Eperm,
            kind: DenialKind::Syscall,
            reason: "test".into(),
        };
        assert!(matches!(compile(&[rule]), Err(SeccompError::UnknownCall(name)) if name == "no_such_call"));
    }
}
