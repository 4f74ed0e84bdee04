/* Carries out system calls one by one and prints what each returned: one "errno" a line, 0 for success.
 * usage: probe OP|ARG|ARG... */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char *a[8];
static int is(const char *name) { return !strcmp(a[0], name); }
static int flags(const char *s) { return s ? (int)strtol(s, 0, 0) : 0; }

static int ip(int family, int type, const char *host, int port, int what) {
    struct sockaddr_storage s = {0};
    socklen_t len;
    if (family == AF_INET) {
        struct sockaddr_in *in = (void *)&s;
        in->sin_family = AF_INET, in->sin_port = htons(port), len = sizeof *in;
        inet_pton(AF_INET, host, &in->sin_addr);
    } else {
        struct sockaddr_in6 *in = (void *)&s;
        in->sin6_family = AF_INET6, in->sin6_port = htons(port), len = sizeof *in;
        inet_pton(AF_INET6, host, &in->sin6_addr);
    }
    int fd = socket(family, type, 0), r;
    static const char dns[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\6crates\2io\0\0\1\0\1";
    struct iovec v = {(void *)dns, sizeof dns - 1};
    if (what == 'c') r = connect(fd, (void *)&s, len);
    else if (what == 'b') r = bind(fd, (void *)&s, len);
    else if (what == 's') r = sendto(fd, dns, sizeof dns - 1, 0, (void *)&s, len);
    else if (what == 'm') {
        struct msghdr m = {.msg_name = &s, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1};
        r = sendmsg(fd, &m, 0);
    } else { /* resolver: connected socket, sendmmsg, answer */
        struct mmsghdr m[1] = {{.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}}};
        r = connect(fd, (void *)&s, len);
        if (!r) r = sendmmsg(fd, m, 1, 0) < 0 ? -1 : 0;
        char b[16];
        if (!r) r = recv(fd, b, sizeof b, 0) < 0 ? -1 : 0;
    }
    int e = errno;
    close(fd);
    errno = e;
    return r < 0 ? -1 : 0;
}

static int unixsock(const char *name, int abstract, int what) {
    struct sockaddr_un s = {.sun_family = AF_UNIX};
    strncpy(s.sun_path + abstract, name, sizeof s.sun_path - 2);
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name) + !abstract;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return what == 'b' ? bind(fd, (void *)&s, len) : connect(fd, (void *)&s, len);
}

static int by_fd(int what) {
    int fd = open(a[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    struct timeval now[2] = {{0}};
    int attr = 0;
    int r = what == 'm' ? fchmod(fd, 0640) : what == 't' ? futimes(fd, now) : ioctl(fd, 0x40086602, &attr);
    int e = errno;
    close(fd);
    errno = e;
    return r;
}

static int op(void) {
    if (is("open")) { int fd = syscall(SYS_openat, AT_FDCWD, a[1], flags(a[2]), 0600); return fd < 0 ? -1 : close(fd); }
    if (is("openin")) { int d = open(a[1], O_RDONLY), fd = openat(d, a[2], flags(a[3]), 0600); int e = errno; close(d); errno = e; return fd < 0 ? -1 : close(fd); }
    if (is("openraw")) { int fd = syscall(SYS_open, a[1], flags(a[2]), 0600); return fd < 0 ? -1 : close(fd); }
    if (is("creat")) { int fd = syscall(SYS_creat, a[1], 0600); return fd < 0 ? -1 : close(fd); }
    if (is("openat2")) { struct open_how h = {.flags = flags(a[2]), .resolve = flags(a[3])}; if (h.flags & 0100) h.mode = 0600; int fd = syscall(SYS_openat2, AT_FDCWD, a[1], &h, sizeof h); return fd < 0 ? -1 : close(fd); }
    if (is("openinroot")) { int d = open(a[1], O_RDONLY); struct open_how h = {.flags = 0101, .mode = 0600, .resolve = RESOLVE_IN_ROOT}; int fd = syscall(SYS_openat2, d, a[2], &h, sizeof h); int e = errno; close(d); errno = e; return fd < 0 ? -1 : close(fd); }
    if (is("mkdir")) return mkdir(a[1], 0700);
    if (is("rmdir")) return rmdir(a[1]);
    if (is("unlink")) return unlink(a[1]);
    if (is("rename")) return rename(a[1], a[2]);
    if (is("renamenr")) return syscall(SYS_renameat2, AT_FDCWD, a[1], AT_FDCWD, a[2], 1);
    if (is("exchange")) return syscall(SYS_renameat2, AT_FDCWD, a[1], AT_FDCWD, a[2], 2);
    if (is("link")) return link(a[1], a[2]);
    if (is("symlink")) return symlink(a[1], a[2]);
    if (is("mkfifo")) return mknod(a[1], S_IFIFO | 0600, 0);
    if (is("truncate")) return truncate(a[1], 0);
    if (is("chmod")) return chmod(a[1], 0640);
    if (is("chown")) return chown(a[1], getuid(), -1);
    if (is("lchown")) return lchown(a[1], getuid(), -1);
    if (is("utimes")) return utimensat(AT_FDCWD, a[1], 0, 0);
    if (is("fchmod")) return by_fd('m');
    if (is("futimes")) return by_fd('t');
    if (is("setflags")) return by_fd('f');
    if (is("setxattr")) return setxattr(a[1], "user.probe", "x", 1, 0);
    if (is("chdir")) return chdir(a[1]);
    if (is("connect4")) return ip(AF_INET, flags(a[3]), a[1], flags(a[2]), 'c');
    if (is("connect6")) return ip(AF_INET6, flags(a[3]), a[1], flags(a[2]), 'c');
    if (is("bind4")) return ip(AF_INET, flags(a[3]), a[1], flags(a[2]), 'b');
    if (is("sendto4")) return ip(AF_INET, SOCK_DGRAM, a[1], flags(a[2]), 's');
    if (is("sendmsg4")) return ip(AF_INET, SOCK_DGRAM, a[1], flags(a[2]), 'm');
    if (is("resolve4")) return ip(AF_INET, SOCK_DGRAM, a[1], flags(a[2]), 'r');
    if (is("unixconnect")) return unixsock(a[1], 0, 'c');
    if (is("unixbind")) return unixsock(a[1], 0, 'b');
    if (is("abstract")) return unixsock(a[1], 1, 'c');
    if (is("kill")) return kill(flags(a[1]), 0);
    if (is("mount")) return mount("none", a[1], "tmpfs", 0, 0);
    if (is("clonens")) { long p = syscall(SYS_clone, flags(a[1]) | SIGCHLD, 0, 0, 0, 0); if (!p) _exit(0); if (p > 0) waitpid(p, 0, 0); return p < 0 ? -1 : 0; }
    if (is("flood")) { for (int i = flags(a[2]); i > 0; i--) { int fd = open(a[1], O_WRONLY | O_CREAT | O_TRUNC, 0600); if (fd >= 0) close(fd); } return 0; }
    if (is("floodnames")) { char n[4096]; for (int i = flags(a[2]); i > 0; i--) { snprintf(n, sizeof n, "%s%d", a[1], i); mkdir(n, 0700); } return 0; }
    if (is("killed")) { /* children killed while their calls are pending */
        for (int i = flags(a[2]); i > 0; i--) { pid_t p = fork(); if (!p) for (;;) mkdir(a[1], 0700); usleep(i % 7 * 50); kill(p, SIGKILL); waitpid(p, 0, 0); }
        return 0; }
    if (is("exit")) { fflush(stdout); _exit(flags(a[1])); }
    fprintf(stderr, "probe: no such operation %s\n", a[0]);
    exit(2);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        memset(a, 0, sizeof a);
        int n = 0;
        for (char *s = strdup(argv[i]); n < 8 && (a[n] = strsep(&s, "|")); n++);
        errno = 0;
        printf("%d\n", op() < 0 ? errno : 0);
        fflush(stdout);
    }
    return 0;
}
