//! The trace filter: which system calls are sent to the supervisor.
//!
//! A seccomp program sees registers only, so it chooses by call number and by flag arguments; everything behind a
//! pointer is left to the supervisor. The order of return values in a chain of filters (`ERRNO` outranks
//! `USER_NOTIF`) means that a call named in a rule given here must be left out of the deny filter, or nobody sees it.
//!
//! The process that installs the program has to send the listener away, and nobody answers for it before that: whoever
//! installs it puts an exception for that one call in front.
//!
//! Calls that the program sends nowhere are answered `ALLOW` whatever their arguments, which the kernel finds out
//! when the program is installed and then no longer runs it for them.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use syscalls::Sysno;

use crate::policy::{ArgMatch, ArgOp, SyscallRule};

/// `AUDIT_ARCH_*` of this build: machine number, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
pub(crate) const NATIVE_ARCH: u32 = 0xC000_003E;
/// `AUDIT_ARCH_*` of this build: machine number, 64 bits, little endian.
#[cfg(target_arch = "aarch64")]
pub(crate) const NATIVE_ARCH: u32 = 0xC000_00B7;

/// Bit that marks a call of the x32 ABI.
pub(crate) const X32_BIT: u32 = 0x4000_0000;

/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`: attributes changed through a descriptor that may be read-only.
pub(crate) const ATTRIBUTE_IOCTLS: [u32; 2] = [0x4008_6602, 0x401C_5820];

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const JUMP: u16 = 0x05;
const JUMP_IF_NOT_BELOW: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7FFF_0000;
const USER_NOTIF: u32 = 0x7FC0_0000;
const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

/// One instruction of the classic BPF program, laid out as the kernel's `sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// What is traced beyond the calls that name a path or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterOptions {
    /// Also `fchmod`, `fchown`, `fsetxattr` and times by descriptor. They matter only for a descriptor opened for
    /// reading on something that may not be changed, and an archiver makes three of them for every file it unpacks.
    pub descriptor_metadata: bool,
}

/// A finished program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFilter {
    /// The instructions, ready for `SECCOMP_SET_MODE_FILTER` with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    pub instructions: Vec<Instruction>,
    /// Names in the rules that this architecture has no call for. They cannot be called, so nothing is lost.
    pub unknown: Vec<String>,
}

/// One test of one 32-bit word of the call's data.
#[derive(Debug, Clone, Copy)]
struct Test {
    offset: u32,
    op: ArgOp,
    value: u32,
    mask: u32,
}

/// A call and the alternatives under which it is sent on; an alternative without tests always holds.
struct Entry {
    nr: u32,
    alternatives: Vec<Vec<Test>>,
}

/// Compiles the program for the traced calls and for `rules`, the refusals that are to be reported.
#[must_use]
pub fn compile(rules: &[SyscallRule], options: FilterOptions) -> TraceFilter {
    let mut entries: Vec<Entry> = Vec::new();
    let mut unknown = Vec::new();
    for (call, alternatives) in traced(options) {
        add(&mut entries, call, alternatives);
    }
    for rule in rules {
        match rule.syscall.parse::<Sysno>() {
            Ok(call) => add(&mut entries, call, vec![rule.when.iter().map(Test::of).collect()]),
            Err(()) => unknown.push(rule.syscall.clone()),
        }
    }
    let mut out = vec![
        load(OFFSET_ARCH),
        // A foreign ABI is always sent on: the supervisor answers it with a fixed refusal.
        jump(JUMP_IF_EQUAL, NATIVE_ARCH, 1, 0),
        ret(USER_NOTIF),
        load(OFFSET_NR),
    ];
    if cfg!(target_arch = "x86_64") {
        out.extend([jump(JUMP_IF_ANY_BIT, X32_BIT, 0, 1), ret(USER_NOTIF)]);
    }
    entries.sort_by_key(|entry| entry.nr);
    out.extend(search(&entries));
    TraceFilter { instructions: out, unknown }
}

fn number(call: Sysno) -> u32 {
    u32::try_from(call.id()).unwrap_or(u32::MAX)
}

fn add(entries: &mut Vec<Entry>, call: Sysno, alternatives: Vec<Vec<Test>>) {
    let nr = number(call);
    match entries.iter_mut().find(|entry| entry.nr == nr) {
        Some(entry) => entry.alternatives.extend(alternatives),
        None => entries.push(Entry { nr, alternatives }),
    }
}

impl Test {
    const fn low(arg: u8, op: ArgOp, value: u32) -> Self {
        Self { offset: OFFSET_ARGS + 8 * arg as u32, op, value, mask: u32::MAX }
    }

    const fn high(arg: u8, op: ArgOp, value: u32) -> Self {
        Self { offset: OFFSET_ARGS + 8 * arg as u32 + 4, op, value, mask: u32::MAX }
    }

    fn of(condition: &ArgMatch) -> Self {
        Self { mask: condition.mask, ..Self::low(condition.arg, condition.op, condition.value) }
    }

    /// The instructions, which skip `otherwise` further ones past their own end when the test fails.
    fn emit(self, otherwise: u8) -> Vec<Instruction> {
        let first = load(self.offset);
        match self.op {
            ArgOp::Eq => vec![first, jump(JUMP_IF_EQUAL, self.value, 0, otherwise)],
            ArgOp::Ne => vec![first, jump(JUMP_IF_EQUAL, self.value, otherwise, 0)],
            ArgOp::AnyBit => vec![first, jump(JUMP_IF_ANY_BIT, self.value, 0, otherwise)],
            ArgOp::MaskedEq => vec![
                first,
                Instruction { code: AND, jt: 0, jf: 0, k: self.mask },
                jump(JUMP_IF_EQUAL, self.value & self.mask, 0, otherwise),
            ],
        }
    }
}

/// Entries tested one after another at the end of a search.
const LEAF: usize = 3;

/// Finds the entry of a call by halving, sorted as they are by number. When a filter is installed the kernel runs it
/// once for every call there is, to learn which it always allows; in a list that alone would take longer than the rest
/// of the installation.
fn search(entries: &[Entry]) -> Vec<Instruction> {
    let mut out = Vec::new();
    let middle = entries.len() / 2;
    let (lower, upper) = entries.split_at(middle);
    if entries.len() <= LEAF {
        entries.iter().for_each(|entry| emit(&mut out, entry));
        out.push(ret(ALLOW));
        return out;
    }
    let lower = search(lower);
    // A conditional jump reaches 255 instructions, an unconditional one any.
    let over = u32::try_from(lower.len()).unwrap_or(u32::MAX);
    out.extend([jump(JUMP_IF_NOT_BELOW, upper[0].nr, 0, 1), jump(JUMP, over, 0, 0)]);
    out.extend(lower);
    out.extend(search(upper));
    out
}

/// One block: skipped whole when the number differs, and never left but by a return.
fn emit(out: &mut Vec<Instruction>, entry: &Entry) {
    let mut block = Vec::new();
    let always = entry.alternatives.iter().any(Vec::is_empty);
    if always {
        block.push(ret(USER_NOTIF));
    } else {
        for alternative in &entry.alternatives {
            block.extend(emit_alternative(alternative));
        }
        block.push(ret(ALLOW));
    }
    // A block too long to be jumped over in one step is replaced by "send it on always": more is seen, nothing is lost.
    let Ok(length) = u8::try_from(block.len()) else {
        out.extend([jump(JUMP_IF_EQUAL, entry.nr, 0, 1), ret(USER_NOTIF)]);
        return;
    };
    out.push(jump(JUMP_IF_EQUAL, entry.nr, 0, length));
    out.extend(block);
}

fn emit_alternative(tests: &[Test]) -> Vec<Instruction> {
    let mut tail = vec![ret(USER_NOTIF)];
    for test in tests.iter().rev() {
        // `tail` is at most a few dozen instructions: six arguments, three instructions each.
        let skip = u8::try_from(tail.len()).unwrap_or(u8::MAX);
        let mut head = test.emit(skip);
        head.append(&mut tail);
        tail = head;
    }
    tail
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, jt: 0, jf: 0, k: offset }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

const fn ret(k: u32) -> Instruction {
    Instruction { code: RETURN, jt: 0, jf: 0, k }
}

/// Open flags that ask for more than reading. `O_TMPFILE` needs a write mode beside it, so it is among them.
const WRITE_FLAGS: u32 = 0o3 | 0o100 | 0o1000;

/// The alternatives under which a pointer argument is not null.
fn not_null(arg: u8) -> Vec<Vec<Test>> {
    vec![vec![Test::low(arg, ArgOp::Ne, 0)], vec![Test::high(arg, ArgOp::Ne, 0)]]
}

/// The calls traced in every run.
fn traced(options: FilterOptions) -> Vec<(Sysno, Vec<Vec<Test>>)> {
    let always = || vec![Vec::new()];
    let flags = |arg| vec![vec![Test::low(arg, ArgOp::AnyBit, WRITE_FLAGS)]];
    let mut calls = vec![(Sysno::openat, flags(2))];
    #[cfg(target_arch = "x86_64")]
    {
        calls.push((Sysno::open, flags(1)));
        calls.extend(super::calls::LEGACY.iter().map(|&call| (call, always())));
    }
    calls.push((Sysno::sendto, not_null(4)));
    calls.push((Sysno::prlimit64, not_null(2)));
    if options.descriptor_metadata {
        calls.push((Sysno::utimensat, always()));
        calls.extend(super::calls::BY_DESCRIPTOR.iter().map(|&call| (call, always())));
    } else {
        calls.push((Sysno::utimensat, not_null(1)));
    }
    calls.push((Sysno::ioctl, ATTRIBUTE_IOCTLS.iter().map(|&k| vec![Test::low(1, ArgOp::Eq, k)]).collect()));
    calls.push((Sysno::sendmsg, always()));
    calls.extend(super::calls::ALWAYS.iter().map(|&call| (call, always())));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denial::DenialKind;
    use crate::policy::RefusalErrno;

    const OPTIONS: FilterOptions = FilterOptions { descriptor_metadata: false };

    /// Runs the program as the kernel would.
    fn run(filter: &TraceFilter, arch: u32, nr: u32, args: [u64; 6]) -> bool {
        let mut words = vec![nr, arch, 0, 0];
        for arg in args {
            words.extend([u32::try_from(arg & 0xFFFF_FFFF).unwrap(), u32::try_from(arg >> 32).unwrap()]);
        }
        let (mut pc, mut a) = (0_usize, 0_u32);
        loop {
            let i = filter.instructions[pc];
            pc += 1;
            let taken = match i.code {
                LOAD => {
                    a = words[i.k as usize / 4];
                    continue;
                }
                AND => {
                    a &= i.k;
                    continue;
                }
                JUMP => {
                    pc += i.k as usize;
                    continue;
                }
                JUMP_IF_EQUAL => a == i.k,
                JUMP_IF_NOT_BELOW => a >= i.k,
                JUMP_IF_ANY_BIT => a & i.k != 0,
                RETURN => return i.k == USER_NOTIF,
                other => panic!("no such instruction {other:#x}"),
            };
            pc += usize::from(if taken { i.jt } else { i.jf });
        }
    }

    fn sent(filter: &TraceFilter, call: Sysno, args: [u64; 6]) -> bool {
        run(filter, NATIVE_ARCH, u32::try_from(call.id()).unwrap(), args)
    }

    #[test]
    fn opens_are_sent_by_the_low_half_of_their_flags() {
        let filter = compile(&[], OPTIONS);
        assert!(!sent(&filter, Sysno::openat, [0, 0, 0, 0, 0, 0]));
        assert!(!sent(&filter, Sysno::openat, [0, 0, 0o200_0000, 0, 0, 0]));
        for flags in [1, 2, 0o100, 0o1000, 0xFFFF_FFFF_0000_0001] {
            assert!(sent(&filter, Sysno::openat, [0, 0, flags, 0, 0, 0]), "{flags:#x}");
        }
        assert!(!sent(&filter, Sysno::openat, [0, 0, 0xFFFF_FFFF_0000_0000, 0, 0, 0]), "the kernel reads 32 bits");
        assert!(sent(&filter, Sysno::openat2, [0; 6]));
    }

    #[test]
    fn an_address_counts_in_either_half_of_its_pointer() {
        let filter = compile(&[], OPTIONS);
        assert!(!sent(&filter, Sysno::sendto, [3, 1, 1, 0, 0, 0]));
        assert!(sent(&filter, Sysno::sendto, [3, 1, 1, 0, 0x10, 0]));
        assert!(sent(&filter, Sysno::sendto, [3, 1, 1, 0, 0x1_0000_0000, 0]));
    }

    #[test]
    fn ordinary_calls_pass() {
        let filter = compile(&[], OPTIONS);
        for call in [Sysno::read, Sysno::write, Sysno::close, Sysno::mmap, Sysno::execve, Sysno::fchmod, Sysno::recvmsg]
        {
            assert!(!sent(&filter, call, [7; 6]), "{call}");
        }
        assert!(!sent(&filter, Sysno::utimensat, [3, 0, 0, 0, 0, 0]), "times by descriptor");
        let all = compile(&[], FilterOptions { descriptor_metadata: true });
        assert!(sent(&all, Sysno::fchmod, [7; 6]) && sent(&all, Sysno::utimensat, [3, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn every_call_is_found_and_no_other() {
        let filter = compile(&[], OPTIONS);
        let traced = traced(OPTIONS);
        // Arguments that are all zero meet no condition, so these are the calls sent on whatever their arguments.
        let always = |nr| traced.iter().any(|(call, ways)| number(*call) == nr && ways.iter().any(Vec::is_empty));
        for nr in 0..600 {
            assert_eq!(run(&filter, NATIVE_ARCH, nr, [0; 6]), always(nr), "{nr}");
        }
        assert!((0..600).any(always));
    }

    #[test]
    fn foreign_abis_are_sent() {
        let filter = compile(&[], OPTIONS);
        assert!(run(&filter, 0x4000_0003, 3, [0; 6]), "i386");
        if cfg!(target_arch = "x86_64") {
            assert!(run(&filter, NATIVE_ARCH, X32_BIT, [0; 6]), "x32 read");
        }
    }

    #[test]
    fn rules_are_sent_by_their_conditions() {
        let rule = |syscall: &str, when: Vec<ArgMatch>| SyscallRule {
            syscall: syscall.to_owned(),
            when,
            errno: RefusalErrno::Eperm,
            kind: DenialKind::Syscall,
            reason: "test".to_owned(),
        };
        let arg = |arg, op, value| ArgMatch { arg, op, value, mask: 0 };
        let filter = compile(
            &[
                rule("mount", vec![]),
                rule("clone", vec![arg(0, ArgOp::AnyBit, 0x1002_0000)]),
                rule("socket", vec![arg(0, ArgOp::Eq, 40), ArgMatch { mask: 0xF, ..arg(1, ArgOp::MaskedEq, 1) }]),
                rule("socket", vec![arg(0, ArgOp::Ne, 1), arg(2, ArgOp::Eq, 262)]),
                rule("no_such_call", vec![]),
            ],
            OPTIONS,
        );
        assert_eq!(filter.unknown, ["no_such_call"]);
        assert!(sent(&filter, Sysno::mount, [0; 6]));
        assert!(sent(&filter, Sysno::clone, [0x1000_0000, 0, 0, 0, 0, 0]));
        assert!(!sent(&filter, Sysno::clone, [0x11, 0, 0, 0, 0, 0]));
        assert!(sent(&filter, Sysno::socket, [40, 0x80001, 0, 0, 0, 0]));
        assert!(!sent(&filter, Sysno::socket, [40, 0x80002, 0, 0, 0, 0]));
        assert!(sent(&filter, Sysno::socket, [2, 2, 262, 0, 0, 0]));
        assert!(!sent(&filter, Sysno::socket, [1, 1, 262, 0, 0, 0]));
    }
}
