//! Calls that take a capability for some of their arguments: identities, priorities, hard limits.
//!
//! As root a command keeps only the capabilities that file work needs, so these fail where outside they would succeed.
//! For an ordinary user they fail on the host too, and nothing is said. What each asks for: kernel/sys.c, kernel/groups.c,
//! kernel/sched/syscalls.c and block/ioprio.c of Linux 6.18.
#![forbid(unsafe_code)]

use std::fs;

use nix::errno::Errno;
use syscalls::Sysno;

use super::calls::{int, low};
use super::examine::Trouble;
use super::process;

const SETGID: u64 = 1 << 6;
const SETUID: u64 = 1 << 7;
const SYS_NICE: u64 = 1 << 23;
const SYS_RESOURCE: u64 = 1 << 24;
/// "Leave as it is", as an identity.
const SAME: u32 = u32::MAX;
/// `RLIMIT_NOFILE`, the one limit with a bound that holds for everybody.
const OPEN_FILES: u32 = 7;

/// One such call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// New user (or group) identities: real, effective, saved.
    Identities { group: bool, ids: [u32; 3], first: Rule },
    /// New supplementary groups.
    Groups,
    /// A niceness, of a process (`PRIO_PROCESS`) by number, or of several.
    Niceness { which: u32, who: u32, value: i32 },
    /// A scheduling class.
    Scheduler { policy: u32 },
    /// A class of disk access.
    DiskPriority { value: u32 },
    /// A limit, read at this address.
    Limit { pid: u32, resource: u32, at: u64 },
}

/// Which of its identities a process may take on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `setuid`: the real or the saved one.
    One,
    /// `setreuid`: the real or the effective one as real, any as effective.
    Two,
    /// `setresuid`: any.
    Three,
}

impl Privilege {
    /// Reads the registers of a call.
    pub(crate) fn decode(call: Sysno, a: &[u64; 6]) -> Option<Self> {
        let ids = |group, first| {
            let ids = match first {
                Rule::One => [low(a[0]), SAME, SAME],
                Rule::Two => [low(a[0]), low(a[1]), SAME],
                Rule::Three => [low(a[0]), low(a[1]), low(a[2])],
            };
            Self::Identities { group, ids, first }
        };
        Some(match call {
            Sysno::setuid => ids(false, Rule::One),
            Sysno::setgid => ids(true, Rule::One),
            Sysno::setreuid => ids(false, Rule::Two),
            Sysno::setregid => ids(true, Rule::Two),
            Sysno::setresuid => ids(false, Rule::Three),
            Sysno::setresgid => ids(true, Rule::Three),
            Sysno::setgroups => Self::Groups,
            Sysno::setpriority => Self::Niceness { which: low(a[0]), who: low(a[1]), value: int(a[2]) },
            Sysno::sched_setscheduler => Self::Scheduler { policy: low(a[1]) },
            Sysno::ioprio_set => Self::DiskPriority { value: low(a[2]) },
            Sysno::prlimit64 => Self::Limit { pid: low(a[0]), resource: low(a[1]), at: a[2] },
            #[cfg(target_arch = "x86_64")]
            Sysno::setrlimit => Self::Limit { pid: 0, resource: low(a[0]), at: a[1] },
            _ => return None,
        })
    }

    /// The capability that it may take, and the errno where it is missing.
    pub(crate) const fn needs(self) -> (u64, Errno) {
        match self {
            Self::Identities { group: false, .. } => (SETUID, Errno::EPERM),
            Self::Identities { group: true, .. } | Self::Groups => (SETGID, Errno::EPERM),
            Self::Niceness { .. } => (SYS_NICE, Errno::EACCES),
            Self::Scheduler { .. } | Self::DiskPriority { .. } => (SYS_NICE, Errno::EPERM),
            Self::Limit { .. } => (SYS_RESOURCE, Errno::EPERM),
        }
    }
}

/// The arguments go beyond what a process may do without the capability.
pub(crate) fn exceeds(asked: Privilege, tid: u32) -> Result<bool, Trouble> {
    /// `PRIO_PROCESS`.
    const PROCESS: u32 = 0;
    /// `SCHED_RESET_ON_FORK`, which stands beside the class.
    const RESET: u32 = 0x4000_0000;
    Ok(match asked {
        Privilege::Groups => true,
        Privilege::Identities { group, ids, first } => {
            let own = identities(tid, group).ok_or(Trouble::Fails)?;
            !may_take(ids, own, first)
        }
        Privilege::Niceness { which, who, value } => {
            // Another is named by the number it has inside, so the sandbox's own /proc is asked.
            let whose = if who == 0 { format!("/proc/{tid}") } else { format!("/proc/{tid}/root/proc/{who}") };
            which == PROCESS && i64::from(value.clamp(-20, 19)) < niceness(&whose).ok_or(Trouble::Fails)?
        }
        // SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
        Privilege::Scheduler { policy } => matches!(policy & !RESET, 1 | 2 | 6),
        // IOPRIO_CLASS_RT.
        Privilege::DiskPriority { value } => value >> 13 == 1,
        Privilege::Limit { pid, resource, at } => {
            let bytes: [u8; 16] = process::exactly(tid, at).map_err(Trouble::of_memory)?;
            let wanted = bytes[8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            let whose = if pid == 0 { Some(tid) } else { None };
            let hard = whose.and_then(|tid| hard_limit(tid, resource));
            let for_nobody = resource == OPEN_FILES && number("/proc/sys/fs/nr_open").is_some_and(|most| wanted > most);
            hard.is_some_and(|hard| wanted > hard) && !for_nobody
        }
    })
}

fn may_take(ids: [u32; 3], own: [u32; 3], rule: Rule) -> bool {
    let [real, effective, saved] = own;
    let is = |id: u32, allowed: &[u32]| id == SAME || allowed.contains(&id);
    match rule {
        Rule::One => is(ids[0], &[real, saved]),
        Rule::Two => is(ids[0], &[real, effective]) && is(ids[1], &own),
        Rule::Three => ids.iter().all(|id| is(*id, &own)),
    }
}

/// Real, effective and saved identity of a thread.
fn identities(tid: u32, group: bool) -> Option<[u32; 3]> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let name = if group { "Gid:" } else { "Uid:" };
    let mut words = status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// Niceness of a thread: the sixteenth word after its name, which is in parentheses.
fn niceness(process: &str) -> Option<i64> {
    let stat = fs::read_to_string(format!("{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

/// A thread's hard limit. The lines of the table stand in the order of the kernel's numbers, its columns at fixed places.
fn hard_limit(tid: u32, resource: u32) -> Option<u64> {
    let table = fs::read_to_string(format!("/proc/{tid}/limits")).ok()?;
    let line = table.lines().nth(usize::try_from(resource).ok()?.checked_add(1)?)?;
    match line.get(47..)?.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_ones_own_take_no_capability() {
        let own = [1, 2, 3];
        assert!(may_take([1, SAME, SAME], own, Rule::One) && may_take([3, SAME, SAME], own, Rule::One));
        assert!(!may_take([2, SAME, SAME], own, Rule::One) && !may_take([4, SAME, SAME], own, Rule::One));
        assert!(may_take([2, 3, SAME], own, Rule::Two) && !may_take([3, 1, SAME], own, Rule::Two));
        assert!(may_take([3, 1, 2], own, Rule::Three) && !may_take([1, 1, 9], own, Rule::Three));
        assert!(may_take([SAME; 3], own, Rule::Three));
    }

    #[test]
    fn a_process_is_read_as_the_kernel_tells_it() {
        let own = std::process::id();
        assert_eq!(identities(own, false).unwrap()[0], nix::unistd::getuid().as_raw());
        let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(hard_limit(own, OPEN_FILES), Some(hard));
        let (_, stack) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_STACK).unwrap();
        assert_eq!(hard_limit(own, 3), Some(stack));
        assert!((-20..20).contains(&niceness("/proc/self").unwrap()));
    }

    #[test]
    fn what_lowers_is_free() {
        let own = std::process::id();
        assert_eq!(exceeds(Privilege::Niceness { which: 0, who: 0, value: 19 }, own), Ok(false));
        assert_eq!(exceeds(Privilege::Scheduler { policy: 0 }, own), Ok(false));
        assert_eq!(exceeds(Privilege::Scheduler { policy: 1 }, own), Ok(true));
        assert_eq!(exceeds(Privilege::DiskPriority { value: 3 << 13 }, own), Ok(false));
    }
}
