/* Installs a seccomp program with a listener, hands the listener over, and becomes another program.
 * usage: tracee SOCKET-FD PROGRAM-FILE SECRET COMMAND [ARG...] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "tracee: %s: %s\n", what, strerror(errno));
    return 125;
}

int main(int argc, char **argv) {
    static struct sock_filter code[4096];
    if (argc < 5) return 2;
    int sock = atoi(argv[1]);
    int file = open(argv[2], O_RDONLY | O_CLOEXEC);
    unsigned long secret = strtoul(argv[3], 0, 0);
    /* In front: lets the one message pass whose sixth register carries the secret. */
    struct sock_filter exception[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)secret, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    memcpy(code, exception, sizeof exception);
    ssize_t size = file < 0 ? -1 : read(file, (char *)code + sizeof exception, sizeof code - sizeof exception);
    if (size <= 0) return fail("program");
    close(file);
    struct sock_fprog program = {(unsigned short)((sizeof exception + size) / sizeof *code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return fail("no_new_privs");
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | (1UL << 5) /* WAIT_KILLABLE_RECV */;
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (listener < 0) return fail("seccomp");
    char control[CMSG_SPACE(sizeof listener)] = {0};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof listener);
    memcpy(CMSG_DATA(header), &listener, sizeof listener);
    if (syscall(SYS_sendmsg, sock, &message, 0, 0, 0, secret) != 1) return fail("hand over");
    char ack;
    if (read(sock, &ack, 1) != 1) return fail("acknowledgement");
    close(listener);
    close(sock);
    execvp(argv[4], argv + 4);
    return fail(argv[4]);
}
