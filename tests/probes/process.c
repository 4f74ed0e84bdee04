/* Other processes: their memory, descriptors, signals and scheduling. The first argument is a process of the host. */
#include "probe.h"
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/prctl.h>

PROBE(p_ptrace, "ptrace", 2)
{
    pid_t pid = (pid_t)number(argv[0]);
    if (!strcmp(argv[1], "traceme"))
        return outcome(sys(SYS_ptrace, PTRACE_TRACEME, 0, NULL, NULL));
    if (!strcmp(argv[1], "seize"))
        return outcome(sys(SYS_ptrace, PTRACE_SEIZE, pid, NULL, NULL));
    if (sys(SYS_ptrace, PTRACE_ATTACH, pid, NULL, NULL))
        return refused("attach");
    waitpid(pid, NULL, __WALL);
    long address = strtol(argv[2], NULL, 0);
    long result = sys(SYS_ptrace, PTRACE_POKEDATA, pid, address, 0x4b43415454415f5fL);
    int error = errno;
    sys(SYS_ptrace, PTRACE_DETACH, pid, NULL, NULL);
    errno = error;
    return outcome(result);
}

PROBE(p_vm_write, "vm-write", 2)
{
    char text[] = "ATTACKED";
    struct iovec here = {text, 8}, there = {(void *)strtoul(argv[1], NULL, 0), 8};
    return outcome(sys(SYS_process_vm_writev, (pid_t)number(argv[0]), &here, 1L, &there, 1L, 0L));
}

PROBE(p_vm_read, "vm-read", 2)
{
    char text[65] = "";
    struct iovec here = {text, 64}, there = {(void *)strtoul(argv[1], NULL, 0), 64};
    if (sys(SYS_process_vm_readv, (pid_t)number(argv[0]), &here, 1L, &there, 1L, 0L) < 0)
        return refused("");
    puts(text);
    return DONE;
}

PROBE(p_pidfd_getfd, "pidfd-getfd", 2)
{
    char text[65] = "";
    int fd = (int)sys(SYS_pidfd_open, (pid_t)number(argv[0]), 0);
    if (fd < 0)
        return refused("pidfd_open");
    int stolen = (int)sys(SYS_pidfd_getfd, fd, (int)number(argv[1]), 0);
    if (stolen < 0)
        return refused("pidfd_getfd");
    if (pread(stolen, text, 64, 0) < 0)
        return refused("read");
    puts(text);
    return DONE;
}

PROBE(p_kcmp, "kcmp", 1)
{
    return outcome(sys(SYS_kcmp, getpid(), (pid_t)number(argv[0]), 1, 0L, 0L));
}

PROBE(p_signal, "signal", 2)
{
    pid_t pid = (pid_t)number(argv[0]);
    int sig = argc > 2 ? (int)number(argv[2]) : SIGUSR1;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_signo = sig;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (!strcmp(argv[1], "kill"))
        return outcome(sys(SYS_kill, pid, sig));
    if (!strcmp(argv[1], "group"))
        return outcome(sys(SYS_kill, -pid, sig));
    if (!strcmp(argv[1], "tkill"))
        return outcome(sys(SYS_tkill, pid, sig));
    if (!strcmp(argv[1], "tgkill"))
        return outcome(sys(SYS_tgkill, pid, pid, sig));
    if (!strcmp(argv[1], "sigqueue"))
        return outcome(sys(SYS_rt_sigqueueinfo, pid, sig, &info));
    if (!strcmp(argv[1], "tgsigqueue"))
        return outcome(sys(SYS_rt_tgsigqueueinfo, pid, pid, sig, &info));
    if (!strcmp(argv[1], "pidfd")) {
        int fd = (int)sys(SYS_pidfd_open, pid, 0);
        return fd < 0 ? refused("pidfd_open") : outcome(sys(SYS_pidfd_send_signal, fd, sig, NULL, 0));
    }
    if (!strcmp(argv[1], "pidfd-proc")) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d", pid);
        int fd = open(path, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? refused("open") : outcome(sys(SYS_pidfd_send_signal, fd, sig, NULL, 0));
    }
    return BUG;
}

/* The caller's own process group, by each spelling; this process ignores what it sends. */
PROBE(p_own_group, "signal-own-group", 1)
{
    signal(SIGUSR1, SIG_IGN);
    if (!strcmp(argv[0], "zero"))
        return outcome(sys(SYS_kill, 0, SIGUSR1));
    if (!strcmp(argv[0], "pgid"))
        return outcome(sys(SYS_kill, -getpgrp(), SIGUSR1));
    if (!strcmp(argv[0], "parent"))
        return outcome(sys(SYS_kill, getppid(), SIGUSR1));
    if (!strcmp(argv[0], "all"))
        return outcome(sys(SYS_kill, -1, SIGUSR1));
    if (!strcmp(argv[0], "pidfd")) {
        int fd = (int)sys(SYS_pidfd_open, getpgrp() ? getpgrp() : getpid(), 0);
        return fd < 0 ? refused("pidfd_open") : outcome(sys(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 4));
    }
    if (!strcmp(argv[0], "sigio")) {
        int ends[2];
        signal(SIGIO, SIG_IGN);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
            return refused("socketpair");
        if (fcntl(ends[0], F_SETOWN, -getpgrp()) || fcntl(ends[0], F_SETSIG, SIGUSR1) ||
            fcntl(ends[0], F_SETFL, O_ASYNC))
            return refused("fcntl");
        if (write(ends[1], "x", 1) != 1)
            return refused("write");
        usleep(20000);
        return DONE;
    }
    return BUG;
}

/* Asks the kernel to signal a process when a descriptor becomes ready. */
PROBE(p_setown, "setown", 2)
{
    pid_t pid = (pid_t)number(argv[0]);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return refused("socketpair");
    if (!strcmp(argv[1], "setown")) {
        if (fcntl(ends[0], F_SETOWN, pid))
            return refused("F_SETOWN");
    } else if (!strcmp(argv[1], "setown-ex")) {
        struct f_owner_ex owner = {F_OWNER_PID, pid};
        if (fcntl(ends[0], F_SETOWN_EX, &owner))
            return refused("F_SETOWN_EX");
    } else if (!strcmp(argv[1], "fiosetown")) {
        if (ioctl(ends[0], 0x8901, &pid)) /* FIOSETOWN */
            return refused("FIOSETOWN");
    } else if (ioctl(ends[0], 0x8902, &pid)) { /* SIOCSPGRP */
        return refused("SIOCSPGRP");
    }
    if (fcntl(ends[0], F_SETSIG, SIGUSR1) || fcntl(ends[0], F_SETFL, O_ASYNC))
        return refused("F_SETFL");
    if (write(ends[1], "x", 1) != 1)
        return refused("write");
    usleep(20000);
    return DONE;
}

PROBE(p_tune, "tune", 2)
{
    pid_t pid = (pid_t)number(argv[0]);
    struct rlimit64 limit = {100, 100};
    cpu_set_t first;
    struct sched_param plain = {0};
    if (!strcmp(argv[1], "prlimit"))
        return outcome(sys(SYS_prlimit64, pid, RLIMIT_NOFILE, &limit, NULL));
    if (!strcmp(argv[1], "prlimit-core")) {
        limit.rlim_cur = limit.rlim_max = 0;
        return outcome(sys(SYS_prlimit64, pid, RLIMIT_CORE, &limit, NULL));
    }
    if (!strcmp(argv[1], "setpriority"))
        return outcome(sys(SYS_setpriority, PRIO_PROCESS, pid, 7));
    if (!strcmp(argv[1], "setpriority-group"))
        return outcome(sys(SYS_setpriority, PRIO_PGRP, pid, 7));
    if (!strcmp(argv[1], "affinity")) {
        CPU_ZERO(&first);
        CPU_SET(0, &first);
        return outcome(sys(SYS_sched_setaffinity, pid, sizeof first, &first));
    }
    if (!strcmp(argv[1], "scheduler"))
        return outcome(sys(SYS_sched_setscheduler, pid, SCHED_BATCH, &plain));
    if (!strcmp(argv[1], "setattr")) {
        struct {
            uint32_t size, policy;
            uint64_t flags;
            int32_t nice;
            uint32_t priority;
            uint64_t runtime, deadline, period;
        } attr = {.size = 48, .policy = SCHED_BATCH};
        return outcome(sys(SYS_sched_setattr, pid, &attr, 0));
    }
    if (!strcmp(argv[1], "setparam"))
        return outcome(sys(SYS_sched_setparam, pid, &plain));
    if (!strcmp(argv[1], "ioprio"))
        return outcome(sys(SYS_ioprio_set, 1, pid, (3 << 13)));
    if (!strcmp(argv[1], "setpgid"))
        return outcome(sys(SYS_setpgid, pid, 0));
    if (!strcmp(argv[1], "madvise")) {
        int fd = (int)sys(SYS_pidfd_open, pid, 0);
        struct iovec piece = {(void *)(strtoul(argv[2], NULL, 0) & ~4095UL), 4096};
        return fd < 0 ? refused("pidfd_open") : outcome(sys(SYS_process_madvise, fd, &piece, 1L, 21, 0));
    }
    if (!strcmp(argv[1], "migrate")) {
        unsigned long nodes = 1;
        return outcome(sys(SYS_migrate_pages, pid, 8L, &nodes, &nodes));
    }
    if (!strcmp(argv[1], "pages")) /* no page is named */
        return outcome(sys(SYS_move_pages, pid, 0L, NULL, NULL, NULL, 0));
    if (!strcmp(argv[1], "core-sched"))
        return outcome(prctl(62, 1, pid, 0, 0)); /* PR_SCHED_CORE, PR_SCHED_CORE_CREATE */
    return BUG;
}

/* Reads what the tuning calls can read. */
PROBE(p_probe_pid, "ask", 2)
{
    pid_t pid = (pid_t)number(argv[0]);
    struct rlimit64 limit;
    void *head = NULL;
    size_t size = 0;
    if (!strcmp(argv[1], "exists"))
        return outcome(sys(SYS_kill, pid, 0));
    if (!strcmp(argv[1], "prlimit"))
        return outcome(sys(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, &limit));
    if (!strcmp(argv[1], "robust"))
        return outcome(sys(SYS_get_robust_list, pid, &head, &size));
    if (!strcmp(argv[1], "pidfd")) {
        int fd = (int)sys(SYS_pidfd_open, pid, 0);
        return outcome(fd);
    }
    return BUG;
}
