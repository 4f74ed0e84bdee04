//! System calls made so that they can do nothing: where the kernel gets to see them it answers that the arguments are
//! wrong (`EFAULT`, `EBADF`, `EINVAL`), and where a filter or a missing privilege stops them it answers otherwise. So the
//! reach of a call is told without its effect, as any user, on any host.

use std::str::FromStr as _;

use nix::errno::Errno;
use syscalls::Sysno;

/// No descriptor, no process, no flag set that exists, and as an address one that is never mapped.
const BAD: i64 = -1;
/// `CLONE_THREAD`, which without `CLONE_SIGHAND` is refused before anything is made.
const THREAD: i64 = 0x0001_0000;
/// A bit of the signal mask of clone, which unshare knows no meaning of.
const SIGNAL_BIT: i64 = 1;
/// A socket type past the last one.
const NO_TYPE: i64 = 15;
/// Mode bits with set-user-ID.
const SET_USER_ID: i64 = 0o4755;

/// What can be called, under a name of its own: the system call, and arguments with which it must fail.
const CALLS: &[(&str, &str, [i64; 6])] = &[
    ("mount", "mount", [BAD, BAD, BAD, 0, BAD, 0]),
    ("umount2", "umount2", [BAD, 0, 0, 0, 0, 0]),
    ("pivot_root", "pivot_root", [BAD, BAD, 0, 0, 0, 0]),
    ("chroot", "chroot", [BAD, 0, 0, 0, 0, 0]),
    ("open_tree", "open_tree", [BAD, BAD, 0, 0, 0, 0]),
    ("move_mount", "move_mount", [BAD, BAD, BAD, BAD, BAD, 0]),
    ("fsopen", "fsopen", [BAD, 0, 0, 0, 0, 0]),
    ("fsconfig", "fsconfig", [BAD, BAD, 0, 0, 0, 0]),
    ("fsmount", "fsmount", [BAD, 0, 0, 0, 0, 0]),
    ("fspick", "fspick", [BAD, BAD, 0, 0, 0, 0]),
    ("mount_setattr", "mount_setattr", [BAD, BAD, 0, BAD, 0, 0]),
    ("swapon", "swapon", [BAD, BAD, 0, 0, 0, 0]),
    ("swapoff", "swapoff", [BAD, 0, 0, 0, 0, 0]),
    ("unshare user", "unshare", [0x1000_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare mount", "unshare", [0x0002_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare pid", "unshare", [0x2000_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare network", "unshare", [0x4000_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare ipc", "unshare", [0x0800_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare uts", "unshare", [0x0400_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare cgroup", "unshare", [0x0200_0000 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("unshare time", "unshare", [0x0000_0080 | SIGNAL_BIT, 0, 0, 0, 0, 0]),
    ("clone user", "clone", [0x1000_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone mount", "clone", [0x0002_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone pid", "clone", [0x2000_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone network", "clone", [0x4000_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone ipc", "clone", [0x0800_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone uts", "clone", [0x0400_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone cgroup", "clone", [0x0200_0000 | THREAD, 0, 0, 0, 0, 0]),
    ("clone3", "clone3", [0, 0, 0, 0, 0, 0]),
    ("setns", "setns", [BAD, 0, 0, 0, 0, 0]),
    // PTRACE_PEEKTEXT of no process.
    ("ptrace", "ptrace", [1, BAD, 0, 0, 0, 0]),
    ("process_vm_readv", "process_vm_readv", [BAD, BAD, 1, BAD, 1, 0]),
    ("process_vm_writev", "process_vm_writev", [BAD, BAD, 1, BAD, 1, 0]),
    ("process_madvise", "process_madvise", [BAD, BAD, 1, 0, 0, 0]),
    ("process_mrelease", "process_mrelease", [BAD, BAD, 0, 0, 0, 0]),
    ("pidfd_getfd", "pidfd_getfd", [BAD, BAD, BAD, 0, 0, 0]),
    ("kcmp", "kcmp", [BAD, BAD, 0, 0, 0, 0]),
    ("bpf", "bpf", [BAD, BAD, 0, 0, 0, 0]),
    ("perf_event_open", "perf_event_open", [BAD, 0, BAD, BAD, 0, 0]),
    ("userfaultfd", "userfaultfd", [BAD, 0, 0, 0, 0, 0]),
    ("fanotify_init", "fanotify_init", [BAD, 0, 0, 0, 0, 0]),
    ("io_uring_setup", "io_uring_setup", [0, BAD, 0, 0, 0, 0]),
    ("io_uring_enter", "io_uring_enter", [BAD, 0, 0, 0, 0, 0]),
    ("io_uring_register", "io_uring_register", [BAD, BAD, 0, 0, 0, 0]),
    ("keyctl", "keyctl", [BAD, 0, 0, 0, 0, 0]),
    ("add_key", "add_key", [BAD, BAD, BAD, 0, 0, 0]),
    ("request_key", "request_key", [BAD, BAD, BAD, 0, 0, 0]),
    ("open_by_handle_at", "open_by_handle_at", [BAD, BAD, 0, 0, 0, 0]),
    ("kexec_load", "kexec_load", [0, 0, 0, BAD, 0, 0]),
    ("kexec_file_load", "kexec_file_load", [BAD, BAD, 0, 0, BAD, 0]),
    ("init_module", "init_module", [BAD, 0, BAD, 0, 0, 0]),
    ("finit_module", "finit_module", [BAD, BAD, BAD, 0, 0, 0]),
    ("delete_module", "delete_module", [BAD, 0, 0, 0, 0, 0]),
    // Without the magic numbers nothing reboots.
    ("reboot", "reboot", [0, 0, 0, 0, 0, 0]),
    // A null name would switch accounting off; this one is no address.
    ("acct", "acct", [BAD, 0, 0, 0, 0, 0]),
    ("syslog", "syslog", [BAD, 0, 0, 0, 0, 0]),
    ("quotactl", "quotactl", [BAD, BAD, 0, 0, 0, 0]),
    ("quotactl_fd", "quotactl_fd", [BAD, BAD, 0, 0, 0, 0]),
    ("iopl", "iopl", [4, 0, 0, 0, 0, 0]),
    ("ioperm", "ioperm", [BAD, 1, 1, 0, 0, 0]),
    ("settimeofday", "settimeofday", [BAD, 0, 0, 0, 0, 0]),
    ("clock_settime", "clock_settime", [0, BAD, 0, 0, 0, 0]),
    ("clock_adjtime", "clock_adjtime", [0, BAD, 0, 0, 0, 0]),
    ("adjtimex", "adjtimex", [BAD, 0, 0, 0, 0, 0]),
    ("sethostname", "sethostname", [BAD, BAD, 0, 0, 0, 0]),
    ("setdomainname", "setdomainname", [BAD, BAD, 0, 0, 0, 0]),
    ("F_SETLEASE", "fcntl", [BAD, 1024, 0, 0, 0, 0]),
    ("TIOCSTI", "ioctl", [BAD, 0x5412, BAD, 0, 0, 0]),
    ("TIOCSTI with high bits set", "ioctl", [BAD, 0x1_0000_5412, BAD, 0, 0, 0]),
    ("TIOCLINUX", "ioctl", [BAD, 0x541c, BAD, 0, 0, 0]),
    ("TIOCSETD", "ioctl", [BAD, 0x5423, BAD, 0, 0, 0]),
    ("TIOCCONS", "ioctl", [BAD, 0x541d, BAD, 0, 0, 0]),
    ("openat2", "openat2", [BAD, BAD, BAD, 0, 0, 0]),
    ("openat of a set-user-ID file", "openat", [BAD, BAD, 0o101, SET_USER_ID, 0, 0]),
    ("mknodat of a set-user-ID file", "mknodat", [BAD, BAD, 0o100_000 | SET_USER_ID, 0, 0, 0]),
    ("fchmod to set-user-ID", "fchmod", [BAD, SET_USER_ID, 0, 0, 0, 0]),
    ("socket vsock", "socket", [40, NO_TYPE, 0, 0, 0, 0]),
    ("socket vsock with high bits set", "socket", [0x1_0000_0028, NO_TYPE, 0, 0, 0, 0]),
    ("socket packet", "socket", [17, NO_TYPE, 0, 0, 0, 0]),
    ("socket alg", "socket", [38, NO_TYPE, 0, 0, 0, 0]),
    ("socket key", "socket", [15, NO_TYPE, 0, 0, 0, 0]),
    ("socket xdp", "socket", [44, NO_TYPE, 0, 0, 0, 0]),
    ("socket bluetooth", "socket", [31, NO_TYPE, 0, 0, 0, 0]),
    ("socket can", "socket", [29, NO_TYPE, 0, 0, 0, 0]),
    ("socket tipc", "socket", [30, NO_TYPE, 0, 0, 0, 0]),
    ("socket rds", "socket", [21, NO_TYPE, 0, 0, 0, 0]),
    ("socket smc", "socket", [43, NO_TYPE, 0, 0, 0, 0]),
    ("socket kcm", "socket", [41, NO_TYPE, 0, 0, 0, 0]),
    ("socket qipcrtr", "socket", [42, NO_TYPE, 0, 0, 0, 0]),
];

/// Makes the call of that name in `CALLS` and returns what the kernel answered; `None` for a name that is not there, or
/// a call that this architecture has not got.
pub(crate) fn inert_call(name: &str) -> Option<Errno> {
    let (_, call, arguments) = CALLS.iter().find(|(known, _, _)| *known == name)?;
    let number = libc::c_long::from(Sysno::from_str(call).ok()?.id());
    let [a, b, c, d, e, f] = *arguments;
    // SAFETY: each entry of CALLS passes no address that is mapped and no descriptor or process that exists, so the kernel
    // refuses it before it touches anything.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    // One that succeeds has at least reached the kernel.
    Some(Errno::result(result).err().unwrap_or(Errno::UnknownErrno))
}

/// `getpid` through a call table that is not this program's own (x86-64 only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignTable {
    /// The 32-bit table, by `int 0x80`.
    I386,
    /// The x32 table, by a bit of the call number.
    X32,
}

/// What the kernel answers to `getpid` through another table; a filter may kill the caller instead.
///
/// # Errors
/// `ENOSYS` where the kernel has no such table or the architecture none.
pub(crate) fn foreign_getpid(table: ForeignTable) -> Result<i64, Errno> {
    match table {
        ForeignTable::I386 => i386_getpid(),
        ForeignTable::X32 if cfg!(target_arch = "x86_64") => {
            // SAFETY: getpid takes no argument and touches no memory, whatever table it is found in.
            Errno::result(unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) })
        }
        ForeignTable::X32 => Err(Errno::ENOSYS),
    }
}

#[cfg(target_arch = "x86_64")]
fn i386_getpid() -> Result<i64, Errno> {
    let mut answer: i64 = 20;
    // SAFETY: call 20 of the 32-bit table is getpid, which takes no argument; the kernel clobbers r8 to r11 and keeps the
    // rest.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    // The answer has 32 bits.
    let answer = i64::from(i32::try_from(answer & 0xffff_ffff).unwrap_or(-libc::ENOSYS));
    if answer < 0 { Err(Errno::from_raw(i32::try_from(-answer).unwrap_or(libc::ENOSYS))) } else { Ok(answer) }
}

#[cfg(not(target_arch = "x86_64"))]
fn i386_getpid() -> Result<i64, Errno> {
    Err(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_known_and_none_succeeds() {
        for (name, call, _) in CALLS {
            if cfg!(target_arch = "x86_64") {
                assert!(Sysno::from_str(call).is_ok(), "{name}");
            }
            if let Some(errno) = inert_call(name) {
                assert_ne!(errno, Errno::UnknownErrno, "{name} succeeded");
            }
        }
        assert_eq!(inert_call("exit"), None);
    }
}
