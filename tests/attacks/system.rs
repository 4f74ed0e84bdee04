//! The kernel: mounts and namespaces, its services, its files under /proc, /sys and /dev, its other call tables.

use crate::table::{Attack, Control, Effect, control};

fn claim(family: &'static str, args: &str) -> Attack {
    Attack::new(family, Effect::Claim, args)
}

const MOUNTS: &[&str] = &[
    "mount tmpfs {out}/empty",
    "mount tmpfs {scratch}",
    "mount proc {out}/empty",
    "mount sysfs {out}/empty",
    "mount devtmpfs {out}/empty",
    "mount mqueue {out}/empty",
    "mount bind {out}/empty /etc",
    "mount bind {ws} {out}",
    "mount shared /",
    "mount umount /proc",
    "mount overlay {out}/empty /etc {ws}/build-upper {ws}/build-work",
    "open-tree {out} file",
    "open-tree-attr {out}",
    "fsopen tmpfs {out}/empty",
    "fsopen tmpfs {scratch}",
    "fspick /",
    "pivot-root {out}",
    "chroot-escape {out} {out}/file",
];

const WORLD_BY_MOUNT: &[&str] = &[
    "remount-write {out} {out}/file old",
    "remount-write / {out}/file old",
    "remount-write / {out}/file new",
    "remount-write {ws} {ws}/.git/config new",
    "umount-write {ws}/.git/hooks {ws}/.git/hooks/pre-commit",
    "umount-write {ws}/.git {ws}/.git/hooks/pre-commit",
    "umount-write {ws} {ws}/.git/hooks/pre-commit",
    "umount-write /tmp {out}/file",
];

const NAMESPACES: &[&str] = &["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];

fn namespaces() -> Vec<Attack> {
    let mut all = Vec::new();
    for kind in NAMESPACES {
        let privileged = |row: Attack| if *kind == "user" { row } else { row.root() };
        all.push(privileged(claim("namespace", &format!("unshare {kind}"))));
        if *kind != "time" {
            all.push(privileged(claim("namespace", &format!("clone-ns {kind}"))));
            all.push(privileged(claim("namespace", &format!("clone3-ns {kind}"))));
            all.push(privileged(claim("namespace", &format!("clone-ns-high {kind}"))));
        }
        if *kind != "user" {
            all.push(claim("namespace", &format!("unshare-user-and {kind}")));
        }
    }
    for kind in ["mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        all.push(claim("namespace", &format!("setns {{pid}} {kind}")).root());
    }
    all.push(claim("namespace", "setns {pid} pidfd").root());
    all.push(claim("namespace", "setns {pid} user").nobody("one's own user namespace cannot be joined again"));
    all.push(claim("namespace", "userns-mount {out}"));
    all.push(claim("namespace", "int80 unshare 0"));
    all
}

/// What tells of the whole host in `/proc`: only a mount can cover it, so Landlock alone leaves it to uid 0.
const HOST_WIDE: &[&str] = &[
    "open-only /proc/kpagecount rdonly",
    "open-only /proc/timer_list rdonly",
    "open-only /proc/kpageflags rdonly",
    "open-only /proc/kpagecgroup rdonly",
    "open-only /proc/slabinfo rdonly",
    "open-only /proc/vmallocinfo rdonly",
];

/// Files of the kernel. Unconfined, what stands there is written back, or the file is only opened.
const KERNEL_FILES: &[&str] = &[
    "write-same /proc/sys/kernel/core_pattern",
    "write-same /proc/sys/kernel/modprobe",
    "write-same /proc/sys/kernel/hostname",
    "write-same /proc/sys/kernel/domainname",
    "write-same /proc/sys/kernel/panic",
    "write-same /proc/sys/kernel/randomize_va_space",
    "write-same /proc/sys/kernel/dmesg_restrict",
    "write-same /proc/sys/kernel/threads-max",
    "write-same /proc/sys/kernel/shmmax",
    "write-same /proc/sys/kernel/msgmax",
    "write-same /proc/sys/vm/overcommit_memory",
    "write-same /proc/sys/vm/swappiness",
    "open-only /proc/sys/vm/drop_caches wronly",
    "write-same /proc/sys/fs/suid_dumpable",
    "write-same /proc/sys/fs/protected_symlinks",
    "write-same /proc/sys/fs/mqueue/queues_max",
    "write-same /proc/sys/net/ipv4/ip_forward",
    "write-same /proc/sys/user/max_user_namespaces",
    "write-same /proc/sys/dev/tty/legacy_tiocsti",
    "open-only /proc/sys/fs/binfmt_misc/register wronly",
    "open-only /proc/sysrq-trigger wronly",
    "write-same /proc/irq/default_smp_affinity",
    "open-only /proc/kcore rdonly",
    "open-only /proc/kmsg rdonly,nonblock",
    "open-only /proc/iomem wronly",
    "open-only /sys/kernel/debug/tracing/trace rdonly",
    "open-only /proc/mtrr rdwr",
    "open-only /proc/bus/pci/devices wronly",
    "open-only /dev/mem rdonly",
    "open-only /dev/port rdonly",
    "open-only /dev/kmsg wronly",
    "open-only /dev/vda rdonly",
    "open-only /dev/vda rdwr",
    "open-only /dev/sda rdwr",
    "open-only /dev/nvme0n1 rdwr",
    "open-only /dev/loop-control rdwr",
    "open-only /dev/loop0 rdwr",
    "open-only /dev/fuse rdwr",
    "open-only /dev/net/tun rdwr",
    "open-only /dev/kvm rdwr",
    "open-only /dev/rtc0 rdonly",
    "open-only /dev/cpu_dma_latency wronly",
    "open-only /dev/uinput wronly",
    "open-only /dev/console wronly,noctty",
    "open-only /dev/tty0 wronly,noctty",
    "open-only /dev/vsock rdwr",
    "open-only /dev/vcs rdonly",
    "open-only /dev/btrfs-control rdwr",
    "device-node {scratch}/n1 /dev/vda rdonly",
    "device-node {ws}/n2 /dev/vda rdwr",
    "device-node {scratch}/n3 /dev/mem rdonly",
    "device-node {ws}/n4 /dev/kmsg wronly",
    "device-node {scratch}/n5 /dev/loop0 rdwr",
    "write-same /sys/kernel/mm/transparent_hugepage/enabled",
    "write-same /sys/kernel/uevent_helper",
    "write-same /sys/kernel/profiling",
    "write-same /sys/kernel/mm/ksm/run",
    "open-only /sys/power/state wronly",
    "open-only /sys/kernel/uevent_seqnum wronly",
    "write-same /sys/block/vda/queue/read_ahead_kb",
    "write-same /sys/module/printk/parameters/time",
    "cgroup-mkdir /sys/fs/cgroup",
    "cgroup-mkdir /sys/fs/cgroup/pids",
    "cgroup-mkdir /sys/fs/cgroup/memory",
    "cgroup-mkdir /sys/fs/cgroup/unified",
    "write-same /sys/fs/cgroup/pids/release_agent",
    "write-same /sys/fs/cgroup/memory/release_agent",
    "write-same /sys/fs/cgroup/pids/notify_on_release",
    "write-same /sys/fs/cgroup/devices/notify_on_release",
    "open-only /sys/fs/cgroup/pids/cgroup.procs wronly",
    "open-only /sys/fs/cgroup/unified/cgroup.procs wronly",
    "open-only /sys/fs/cgroup/devices/devices.allow wronly",
];

const ROOT_CALLS: &[&str] = &[
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "syslog-level",
    "fanotify",
    "adjtimex",
    "clock_adjtime",
    "settimeofday",
    "vhangup",
    "iopl",
    "ioperm",
    "fifo-scheduler",
    "nice-below-zero",
    "ioprio-realtime",
];

/// Numbers of capabilities that no confined command keeps, with the kernel's names.
const CAPABILITIES: &[(u32, &str)] = &[
    (2, "dac_read_search"),
    (5, "kill"),
    (6, "setgid"),
    (7, "setuid"),
    (8, "setpcap"),
    (9, "linux_immutable"),
    (10, "net_bind_service"),
    (12, "net_admin"),
    (13, "net_raw"),
    (14, "ipc_lock"),
    (15, "ipc_owner"),
    (16, "sys_module"),
    (17, "sys_rawio"),
    (18, "sys_chroot"),
    (19, "sys_ptrace"),
    (20, "sys_pacct"),
    (21, "sys_admin"),
    (22, "sys_boot"),
    (23, "sys_nice"),
    (25, "sys_time"),
    (26, "sys_tty_config"),
    (27, "mknod"),
    (28, "lease"),
    (29, "audit_write"),
    (30, "audit_control"),
    (31, "setfcap"),
    (34, "syslog"),
    (37, "audit_read"),
    (38, "perfmon"),
    (39, "bpf"),
    (40, "checkpoint_restore"),
];

pub(crate) fn attacks() -> Vec<Attack> {
    let mut all: Vec<_> = MOUNTS.iter().map(|args| claim("mount", args).root().own("-m")).collect();
    // A remount alters a mount of everybody's: unconfined only in a mount namespace, and there it proves nothing.
    all.extend(WORLD_BY_MOUNT.iter().map(|args| {
        Attack::new("mount", Effect::World, args).nobody("nothing to uncover or remount where nothing is covered")
    }));
    all.extend(namespaces());
    all.extend(HOST_WIDE.iter().map(|args| claim("kernel-file", args).root().gap(&["deny-read"])));
    all.extend(KERNEL_FILES.iter().map(|args| claim("kernel-file", args).root()));
    all.extend(ROOT_CALLS.iter().map(|name| claim("kernel-call", &format!("kernel-call {name}")).root()));
    all.extend([
        claim("kernel-call", "kernel-call sethostname").root().own("-u"),
        claim("kernel-call", "kernel-call setdomainname").root().own("-u"),
        claim("kernel-call", "kernel-call kexec_load").nobody("this kernel has no kexec"),
        claim("kernel-call", "kernel-call kexec_file_load").nobody("this kernel has no kexec"),
        claim("kernel-call", "kernel-call clock_settime").nobody("it would set this host's clock"),
        claim("kernel-call", "kernel-call quotactl"),
        claim("kernel-call", "kernel-call quotactl_fd"),
        claim("kernel-call", "kernel-call process_mrelease"),
        claim("kernel-call", "bpf map").root(),
        claim("kernel-call", "bpf prog").root(),
        claim("kernel-call", "bpf next").root(),
        claim("kernel-call", "perf 0"),
        claim("kernel-call", "perf {pid}"),
        claim("kernel-call", "userfaultfd call"),
        claim("kernel-call", "userfaultfd kernel").root(),
        claim("kernel-call", "userfaultfd device").root(),
        claim("keyring", "add-key"),
        claim("keyring", "add-key-session"),
        claim("keyring", "keyctl-user-keyring"),
        Attack::new("keyring", Effect::Leak, "key-search stockade:session-{token}"),
        Attack::new("keyring", Effect::Leak, "key-read {key}"),
        Attack::new("keyring", Effect::Leak, "request-key stockade:session-{token}"),
        Attack::new("keyring", Effect::World, "key-revoke {key}"),
        claim("keyring", "proc-keys stockade:session-{token}").gap(&["process-isolation"]),
        claim("abi", "int80 getpid 0"),
        claim("abi", "x32 getpid 0").nobody("this kernel has no x32"),
        Attack::new("abi", Effect::World, "x32 open {out}/file").nobody("this kernel has no x32"),
        claim("privilege", "may-gain-privileges"),
        claim("privilege", "core-limit").nobody("the core limit of a login is often zero already"),
        claim("privilege", "set-id setuid").root(),
        claim("privilege", "set-id setgid").root(),
        claim("privilege", "set-id setgroups").root(),
    ]);
    all.extend(CAPABILITIES.iter().map(|(number, _)| claim("privilege", &format!("has-capability {number}")).root()));
    for row in &mut all {
        if let Some(number) = row.args.strip_prefix("has-capability ")
            && let Some((_, name)) = CAPABILITIES.iter().find(|(n, _)| n.to_string() == number)
        {
            row.name = format!("has-capability cap_{name}");
        }
    }
    all
}

pub(crate) const CONTROLS: &[Control] = &[
    control("mount", "sh:cat /proc/self/mountinfo >/dev/null"),
    control("namespace", "sh:(true) && ls /proc/self/ns >/dev/null"),
    control("kernel-file", "read /proc/sys/kernel/ostype"),
    control("kernel-file", "read /proc/meminfo"),
    control("kernel-call", "sh:date >/dev/null && uname -a >/dev/null && nice -n 1 true"),
    control("keyring", "sh:true"),
    control("abi", "sh:/bin/true"),
    control("privilege", "sh:id -u >/dev/null"),
];
