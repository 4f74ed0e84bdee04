/* Kernel services that a confined command has no use for. */
#include "probe.h"
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/timex.h>
#include <time.h>
#ifdef __x86_64__
#include <sys/io.h>
#endif

/* For calls whose permission check stands before all others: any other answer means that the door is open. */
static int passed_check(long result)
{
    if (result < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES))
        return refused("");
    return DONE;
}

PROBE(p_add_key, "add-key", 0)
{
    return outcome(sys(SYS_add_key, "user", "stockade:attack", "x", 1L, KEY_SPEC_PROCESS_KEYRING));
}

PROBE(p_add_key_session, "add-key-session", 0)
{
    return outcome(sys(SYS_add_key, "user", "stockade:attack", "x", 1L, KEY_SPEC_SESSION_KEYRING));
}

PROBE(p_request_key, "request-key", 1)
{
    char text[128] = "";
    long key = sys(SYS_request_key, "user", argv[0], NULL, 0L);
    if (key < 0)
        return refused("request_key");
    if (sys(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1) < 0)
        return refused("read");
    puts(text);
    return DONE;
}

PROBE(p_key_search, "key-search", 1)
{
    char text[128] = "";
    long key = sys(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", argv[0], 0L);
    if (key < 0)
        return refused("search");
    if (sys(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1) < 0)
        return refused("read");
    puts(text);
    return DONE;
}

/* A key's number is all it takes when its permissions are the user's. */
PROBE(p_key_read, "key-read", 1)
{
    char text[128] = "";
    if (sys(SYS_keyctl, KEYCTL_READ, number(argv[0]), text, sizeof text - 1) < 0)
        return refused("read");
    puts(text);
    return DONE;
}

PROBE(p_key_revoke, "key-revoke", 1) { return outcome(sys(SYS_keyctl, KEYCTL_REVOKE, number(argv[0]))); }

PROBE(p_keyctl, "keyctl-user-keyring", 0)
{
    return outcome(sys(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1));
}

PROBE(p_proc_keys, "proc-keys", 1)
{
    char line[512];
    FILE *file = fopen("/proc/keys", "r");
    if (!file)
        return refused("open");
    while (fgets(line, sizeof line, file))
        if (strstr(line, argv[0]))
            return fputs(line, stdout), DONE;
    errno = ENOENT;
    return refused("not listed");
}

PROBE(p_bpf, "bpf", 1)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!strcmp(argv[0], "map")) {
        attr.map_type = BPF_MAP_TYPE_ARRAY;
        attr.key_size = 4, attr.value_size = 8, attr.max_entries = 1;
        return outcome(sys(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
    }
    if (!strcmp(argv[0], "prog")) {
        struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
        attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
        attr.insns = (uint64_t)(uintptr_t)code;
        attr.insn_cnt = 2;
        attr.license = (uint64_t)(uintptr_t) "GPL";
        return outcome(sys(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr));
    }
    return passed_check(sys(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof attr));
}

PROBE(p_perf, "perf", 1)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return outcome(sys(SYS_perf_event_open, &attr, (pid_t)number(argv[0]), -1, -1, 0L));
}

PROBE(p_userfault, "userfaultfd", 1)
{
    if (!strcmp(argv[0], "call"))
        return outcome(sys(SYS_userfaultfd, O_CLOEXEC | 1)); /* UFFD_USER_MODE_ONLY */
    if (!strcmp(argv[0], "kernel"))
        return outcome(sys(SYS_userfaultfd, O_CLOEXEC));
    int fd = open("/dev/userfaultfd", O_RDWR);
    return fd < 0 && errno == ENOENT ? untried("no /dev/userfaultfd") : outcome(fd);
}

PROBE(p_kernel, "kernel-call", 1)
{
    const char *name = argv[0];
    if (!strcmp(name, "init_module"))
        return passed_check(sys(SYS_init_module, NULL, 0L, ""));
    if (!strcmp(name, "finit_module"))
        return passed_check(sys(SYS_finit_module, -1, "", 0));
    if (!strcmp(name, "delete_module"))
        return passed_check(sys(SYS_delete_module, "stockade_no_such_module", O_NONBLOCK));
    if (!strcmp(name, "kexec_load"))
        return passed_check(sys(SYS_kexec_load, 0L, 0L, NULL, ~0UL));
#ifdef SYS_kexec_file_load
    if (!strcmp(name, "kexec_file_load"))
        return passed_check(sys(SYS_kexec_file_load, -1, -1, 0L, "", ~0UL));
#endif
    if (!strcmp(name, "reboot")) /* the magic is wrong, so nothing happens even where it is allowed */
        return passed_check(sys(SYS_reboot, 1, 2, 3, NULL));
    if (!strcmp(name, "swapon"))
        return passed_check(sys(SYS_swapon, "/nonexistent", 0));
    if (!strcmp(name, "swapoff"))
        return passed_check(sys(SYS_swapoff, "/nonexistent"));
    if (!strcmp(name, "acct"))
        return passed_check(sys(SYS_acct, "/nonexistent"));
    if (!strcmp(name, "syslog"))
        return passed_check(sys(SYS_syslog, 3, argv, 1));
    if (!strcmp(name, "syslog-level")) /* level 0 is refused as a value, after the permission check */
        return passed_check(sys(SYS_syslog, 8, NULL, 0));
    if (!strcmp(name, "quotactl"))
        return outcome(sys(SYS_quotactl, 0x80000100, NULL, 0, NULL));
    if (!strcmp(name, "quotactl_fd"))
        return passed_check(sys(SYS_quotactl_fd, -1, 0x80000100, 0, NULL));
    if (!strcmp(name, "process_mrelease"))
        return passed_check(sys(SYS_process_mrelease, -1, 0));
    if (!strcmp(name, "settimeofday")) /* without a time and a zone nothing is set, after the permission check */
        return outcome(sys(SYS_settimeofday, NULL, NULL));
    if (!strcmp(name, "fanotify"))
        return outcome(sys(SYS_fanotify_init, 4, O_RDONLY)); /* FAN_CLASS_CONTENT */
    if (!strcmp(name, "fanotify-user"))
        return outcome(sys(SYS_fanotify_init, 0x200, O_RDONLY)); /* FAN_REPORT_FID, open to every user */
    if (!strcmp(name, "sethostname")) {
        char host[256];
        return gethostname(host, sizeof host) ? BUG : outcome(sys(SYS_sethostname, host, strlen(host)));
    }
    if (!strcmp(name, "setdomainname"))
        return outcome(sys(SYS_setdomainname, "(none)", 6L));
    if (!strcmp(name, "adjtimex")) { /* the tick that is set already */
        struct timex now = {0};
        if (adjtimex(&now) < 0)
            return refused("read");
        now.modes = ADJ_TICK;
        return outcome(sys(SYS_adjtimex, &now));
    }
    if (!strcmp(name, "clock_adjtime")) {
        struct timex now = {0};
        if (adjtimex(&now) < 0)
            return refused("read");
        now.modes = ADJ_TICK;
        return outcome(sys(SYS_clock_adjtime, CLOCK_REALTIME, &now));
    }
    if (!strcmp(name, "clock_settime")) { /* a time before the boot is refused, after the permission check */
        struct timespec early = {0, 0};
        return passed_check(sys(SYS_clock_settime, CLOCK_REALTIME, &early));
    }
    if (!strcmp(name, "vhangup")) {
        pid_t child = fork();
        if (child == 0) {
            setsid(); /* no terminal of anybody's is hung up */
            _exit(sys(SYS_vhangup) ? REFUSED : DONE);
        }
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : BUG;
    }
#ifdef __x86_64__
    if (!strcmp(name, "iopl"))
        return outcome(sys(SYS_iopl, 3));
    if (!strcmp(name, "ioperm"))
        return outcome(sys(SYS_ioperm, 0x80L, 1L, 1));
    if (!strcmp(name, "modify_ldt")) {
        char buffer[16];
        return outcome(sys(SYS_modify_ldt, 0, buffer, 16L));
    }
#endif
    if (!strcmp(name, "fifo-scheduler")) {
        struct sched_param param = {.sched_priority = 1};
        return outcome(sys(SYS_sched_setscheduler, 0, SCHED_FIFO, &param));
    }
    if (!strcmp(name, "nice-below-zero"))
        return outcome(sys(SYS_setpriority, 0, 0, -5));
    if (!strcmp(name, "ioprio-realtime"))
        return outcome(sys(SYS_ioprio_set, 1, 0, 1 << 13));
    if (!strcmp(name, "mlock-much")) {
        void *at = mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return at == MAP_FAILED ? BUG : outcome(sys(SYS_mlock2, at, 64L << 20, 1));
    }
    return BUG;
}

PROBE(p_capability, "has-capability", 1)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    long cap = number(argv[0]);
    if (sys(SYS_capget, &head, data))
        return refused("capget");
    uint32_t all = data[cap / 32].effective | data[cap / 32].permitted | data[cap / 32].inheritable;
    if (all & (1u << (cap % 32)))
        return DONE;
    if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
        return puts("in the bounding set, and privileges may grow"), DONE;
    errno = EPERM;
    return refused("not held");
}

PROBE(p_setuid, "set-id", 1)
{
    if (!strcmp(argv[0], "setuid"))
        return outcome(sys(SYS_setresuid, 12345, 12345, 12345));
    if (!strcmp(argv[0], "setgid"))
        return outcome(sys(SYS_setresgid, 12345, 12345, 12345));
    if (!strcmp(argv[0], "setuid0"))
        return outcome(sys(SYS_setresuid, 0, 0, 0));
    if (!strcmp(argv[0], "setgroups")) {
        gid_t groups[] = {6, 42};
        return outcome(sys(SYS_setgroups, 2L, groups));
    }
    return BUG;
}

/* A program that gains on exec: without no_new_privs a setuid file would work. */
PROBE(p_nnp, "may-gain-privileges", 0)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
        return DONE;
    errno = EPERM;
    return refused("no_new_privs is set");
}

PROBE(p_dumpable, "core-limit", 0)
{
    char text[256];
    FILE *file = fopen("/proc/self/limits", "r");
    if (!file)
        return untried("no /proc/self/limits");
    while (fgets(text, sizeof text, file))
        if (!strncmp(text, "Max core file size", 18) && !strstr(text, " 0  "))
            return fputs(text, stdout), DONE;
    errno = EPERM;
    return refused("no cores");
}
