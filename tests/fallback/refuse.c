// Runs a program on a host that lacks something: `refuse WHAT PROGRAM [ARG...]`. A seccomp filter answers for the kernel.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 64
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define IF_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define IF_ANY(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip)

static struct sock_filter program[MOST];
static unsigned short length;

static void add(struct sock_filter instruction) { program[length++] = instruction; }

static void refuse_call(unsigned int number, unsigned int error) {
    add((struct sock_filter)LOAD(nr));
    add((struct sock_filter)IF_EQUAL(number, 1));
    add((struct sock_filter)RETURN(SECCOMP_RET_ERRNO | error));
}

static void refuse_flags(unsigned int number, unsigned int bits, unsigned int error) {
    add((struct sock_filter)LOAD(nr));
    add((struct sock_filter)IF_EQUAL(number, 3));
    add((struct sock_filter)LOAD(args[0]));
    add((struct sock_filter)IF_ANY(bits, 1));
    add((struct sock_filter)RETURN(SECCOMP_RET_ERRNO | error));
}

static const unsigned int any_namespace = 0x7e020000, new_user = 0x10000000, new_network = 0x40000000;

// As in the default profiles of container engines: clone3 cannot be looked into, so it does not exist.
static void refuse_namespaces(unsigned int flags, unsigned int error) {
    refuse_flags(SYS_clone, flags, error);
    refuse_flags(SYS_unshare, flags, error);
    refuse_call(SYS_clone3, ENOSYS);
}

static void refuse_mounts(unsigned int error) {
    unsigned int calls[] = {SYS_mount, SYS_umount2, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_mount_setattr};
    for (unsigned int i = 0; i < sizeof calls / sizeof *calls; i++) refuse_call(calls[i], error);
}

// A Landlock domain that refuses almost nothing (making character devices); inside any, mounting is refused.
static int enter_domain(void) {
    uint64_t handled = 1 << 6;
    long ruleset = syscall(444, &handled, sizeof handled, 0);
    return ruleset < 0 ? -1 : (int)syscall(446, (int)ruleset, 0);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *what = argv[1];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 3;
    if (!strcmp(what, "domain")) {
        if (enter_domain()) {
            perror("refuse: landlock");
            return 3;
        }
    } else if (!strcmp(what, "namespaces")) refuse_namespaces(any_namespace, EPERM);
    else if (!strcmp(what, "user-namespaces")) refuse_namespaces(new_user, EPERM);
    else if (!strcmp(what, "network-namespaces")) refuse_namespaces(new_network, EINVAL);
    else if (!strcmp(what, "mounts")) refuse_mounts(EPERM);
    else if (!strcmp(what, "mount-calls")) refuse_mounts(ENOSYS);
    else if (!strcmp(what, "open-tree")) refuse_call(SYS_open_tree, EPERM);
    else if (!strcmp(what, "move-mount")) refuse_call(SYS_move_mount, EPERM);
    else if (!strcmp(what, "mount-setattr")) refuse_call(SYS_mount_setattr, EPERM);
    else if (!strcmp(what, "fsopen")) refuse_call(SYS_fsopen, EPERM);
    else return 2;
    add((struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
    struct sock_fprog filter = {.len = length, .filter = program};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("refuse: seccomp");
        return 3;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 3;
}
