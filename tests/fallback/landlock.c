// Runs a program on a kernel whose Landlock is older: `landlock ABI PROGRAM [ARG...]`. Where no kernel with that ABI can be
// had, this stands in for it: a supervisor answers landlock_create_ruleset(2) as the older kernel would, the version as well
// as rights and attributes that came later, and all that the older one knew goes to the kernel that is there. What it cannot
// look at (the rights sit in the memory of a process that nobody may read) goes through.
//
// A task has one listener, so that a `stockade` behind this one cannot trace.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { ASKS_VERSION = 1, RULE_NET_PORT = 2 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define IF_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)

static int abi;

// Bits of handled_access_fs: 13 at first, refer with ABI 2, truncate 3, ioctl_dev 5, resolve_unix 9.
static uint64_t known_rights(void) {
    int bits = 13 + (abi >= 2) + (abi >= 3) + (abi >= 5) + (abi >= 9);
    return (1ULL << bits) - 1;
}

// Size of landlock_ruleset_attr: rights on files, on the network with ABI 4, scopes with 6.
static size_t known_size(void) { return 8 + 8 * (abi >= 4) + 8 * (abi >= 6); }

// What an older kernel says of a new ruleset: 0, or an error.
static int judge(const struct seccomp_notif *call) {
    uint64_t attribute[3] = {0};
    size_t size = call->data.args[1] < sizeof attribute ? (size_t)call->data.args[1] : sizeof attribute;
    char path[40];
    snprintf(path, sizeof path, "/proc/%u/mem", call->pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    if (memory < 0) return 0;
    ssize_t got = pread(memory, attribute, size, (off_t)call->data.args[0]);
    close(memory);
    if (got < 0) return 0;
    for (size_t at = known_size() / 8; at < 3; at++)
        if (attribute[at]) return E2BIG;
    return attribute[0] & ~known_rights() ? EINVAL : 0;
}

static void supervise(int listener) {
    struct seccomp_notif call;
    for (;;) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        if (poll(&waiting, 1, -1) < 0 && errno != EINTR) return;
        if (waiting.revents & (POLLHUP | POLLERR)) return;
        memset(&call, 0, sizeof call);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        struct seccomp_notif_resp answer = {.id = call.id};
        int error = 0;
        if (call.data.args[2] == ASKS_VERSION) answer.val = abi;
        else if (call.data.args[2]) answer.error = -EINVAL;
        else if ((error = judge(&call))) answer.error = -error;
        else answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

static int install(void) {
    struct sock_filter program[] = {
        LOAD(nr),
        IF_EQUAL(CREATE_RULESET, 1), RETURN(SECCOMP_RET_USER_NOTIF),
        // Flags came with ABI 7.
        IF_EQUAL(RESTRICT_SELF, 4), LOAD(args[1]), IF_EQUAL(0, 1), RETURN(SECCOMP_RET_ALLOW),
        RETURN(abi < 7 ? SECCOMP_RET_ERRNO | EINVAL : SECCOMP_RET_ALLOW),
        IF_EQUAL(ADD_RULE, 3), LOAD(args[1]), IF_EQUAL(RULE_NET_PORT, 1),
        RETURN(abi < 4 ? SECCOMP_RET_ERRNO | EINVAL : SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof program / sizeof *program, .filter = program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

static int send_descriptor(int socket, int descriptor) {
    char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof descriptor)};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int receive_descriptor(int socket) {
    int descriptor;
    char byte, control[CMSG_SPACE(sizeof descriptor)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message)) return -1;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

int main(int argc, char **argv) {
    if (argc < 3 || (abi = atoi(argv[1])) < 1) return 2;
    long real = syscall(CREATE_RULESET, NULL, 0, ASKS_VERSION);
    if (real < 1) {
        fputs("landlock: there is none here to be made older\n", stderr);
        return 3;
    }
    if (abi > real) abi = (int)real;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return 3;
    // The supervisor is nobody's child, holds nobody's output open, and ends with the last that has the filter.
    pid_t child = fork();
    if (child == 0) {
        if (fork() != 0) _exit(0);
        setsid();
        close(pair[0]);
        int listener = receive_descriptor(pair[1]);
        int nothing = open("/dev/null", O_RDWR);
        for (int standard = 0; standard < 3; standard++) dup2(nothing, standard);
        if (listener >= 0) supervise(listener);
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child) return 3;
    close(pair[1]);
    int listener = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -1 : install();
    if (listener < 0 || send_descriptor(pair[0], listener)) {
        perror("landlock: seccomp");
        return 3;
    }
    close(listener);
    close(pair[0]);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 3;
}
