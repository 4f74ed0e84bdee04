//! The kernel's own services: calls that a filter stops, files under /proc, /sys and /dev.

#![forbid(unsafe_code)]

use super::{excused, refused};
use crate::executor::Gap;
use crate::verify::cell::{Act, Cell, Group};

const MOUNTS: &[&str] = &[
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "swapon",
    "swapoff",
];

const NAMESPACES: &[&str] = &[
    "unshare user",
    "unshare mount",
    "unshare pid",
    "unshare network",
    "unshare ipc",
    "unshare uts",
    "unshare cgroup",
    "unshare time",
    "clone user",
    "clone mount",
    "clone pid",
    "clone network",
    "clone ipc",
    "clone uts",
    "clone cgroup",
    "clone3",
    "setns",
];

const PROCESSES: &[&str] =
    &["ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp"];

const KEYRINGS: &[&str] = &["keyctl", "add_key", "request_key"];

const KERNEL: &[&str] = &[
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "fanotify_init",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "open_by_handle_at",
    "openat2",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "acct",
    "syslog",
    "quotactl",
    "quotactl_fd",
    "iopl",
    "ioperm",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "F_SETLEASE",
];

const TERMINAL: &[&str] = &["TIOCSTI", "TIOCSTI with high bits set", "TIOCLINUX", "TIOCSETD", "TIOCCONS"];

const PRIVILEGES: &[&str] = &["openat of a set-user-ID file", "mknodat of a set-user-ID file", "fchmod to set-user-ID"];

const FAMILIES: &[&str] = &[
    "socket vsock",
    "socket vsock with high bits set",
    "socket packet",
    "socket alg",
    "socket key",
    "socket xdp",
    "socket bluetooth",
    "socket can",
    "socket tipc",
    "socket rds",
    "socket smc",
    "socket kcm",
    "socket qipcrtr",
];

const READ: &[&str] = &["/dev/mem", "/dev/port"];

/// Covered by masks, which need mounts.
const MASKED: &[&str] = &["/proc/kcore", "/proc/kpageflags", "/proc/kpagecount", "/proc/slabinfo", "/proc/timer_list"];

const WRITE: &[&str] = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/fs/protected_symlinks",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/profiling",
    "/sys/power/state",
    "/sys/fs/cgroup/cgroup.procs",
    "/dev/kmsg",
    "/dev/fuse",
    "/dev/net/tun",
    "/dev/kvm",
    "/dev/loop-control",
    "/dev/cpu_dma_latency",
    "/dev/uinput",
];

pub(super) fn cells() -> Vec<Cell> {
    let reach = |group: Group, calls: &[&'static str]| -> Vec<Cell> {
        calls.iter().map(|call| refused(group, "reach the call", call, Act::Reach(call))).collect()
    };
    let mut all = [
        reach(Group::Mounts, MOUNTS),
        reach(Group::Namespaces, NAMESPACES),
        reach(Group::Processes, PROCESSES),
        reach(Group::Keyrings, KEYRINGS),
        reach(Group::Kernel, KERNEL),
        reach(Group::Terminal, TERMINAL),
        reach(Group::Privileges, PRIVILEGES),
        reach(Group::Network, FAMILIES),
    ]
    .concat();
    all.push(refused(Group::Mounts, "mount a file system", "in another directory", Act::MountTmpfs));
    all.push(refused(Group::Namespaces, "create a user namespace", "", Act::UserNamespace));
    all.push(refused(Group::Kernel, "use the 32-bit call table", "", Act::ForeignTable32));
    all.push(refused(Group::Kernel, "use the x32 call table", "", Act::ForeignTableX32));
    let masked = |path: &&'static str| {
        excused(Gap::DenyRead, refused(Group::KernelFiles, "open for reading", path, Act::OpenRead(path)))
    };
    all.extend(MASKED.iter().map(masked));
    all.extend(READ.iter().map(|path| refused(Group::KernelFiles, "open for reading", path, Act::OpenRead(path))));
    all.push(refused(Group::KernelFiles, "open for reading", "a disk", Act::OpenDisk));
    all.extend(WRITE.iter().map(|path| refused(Group::KernelFiles, "open for writing", path, Act::OpenWrite(path))));
    all
}
