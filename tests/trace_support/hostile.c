/* System calls as a hostile command makes them: to hide a refusal, or to feign one. Prints the errno of each, 0 for
 * success; each runs in a child of its own.
 * usage: hostile BASE TRICK... */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *base, *trick;
#define IS(name) (!strcmp(trick, name))
#define NEW (O_WRONLY | O_CREAT)

/* The path of something in the read-only directory. */
static char *in(const char *name) {
    static char paths[4][2048];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/ro/%s", base, name);
    return path;
}

static int made(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags, 0600); }

/* Two pages, the second of which may be taken away. */
static char *pages(int keep_second) {
    char *at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!keep_second) munmap(at + 4096, 4096);
    return at;
}

static int at_page_end(const char *text, int with_end, int keep_second, int beyond) {
    char *at = pages(keep_second) + 4096 - strlen(text) - with_end + beyond;
    memcpy(at, text, strlen(text) + with_end);
    return made(at, NEW);
}

/* A path of so many bytes to the same place. */
static int padded(size_t length, const char *name) {
    char *path = calloc(1, 8192);
    size_t tail = strlen(in(name));
    memset(path, '/', length - tail);
    strcat(path, in(name));
    return made(path, NEW);
}

struct args { const char *where, *what; int flags, result, error; };
static void *in_thread(void *p) {
    struct args *a = p;
    if (a->flags) unshare(a->flags);
    a->result = a->where ? chdir(a->where) : 0;
    if (!a->result && a->what) a->result = made(a->what, NEW);
    a->error = errno;
    return 0;
}
static int thread(const char *where, const char *what, int flags) {
    struct args a = {where, what, flags, 0, 0};
    pthread_t t;
    pthread_create(&t, 0, in_thread, &a);
    pthread_join(t, 0);
    errno = a.error;
    return a.result;
}

static int full_table(void) {
    struct rlimit limit = {3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    return made(in("emfile"), NEW);
}

static int deleted_name(void) {
    if (mkdir("a (deleted)", 0700) || chdir("a (deleted)")) return 0;
    return made("../../ro/deleted-name", NEW);
}

static int gone(const char *then) {
    char here[64];
    snprintf(here, sizeof here, "gone-%s", trick);
    if (mkdir(here, 0700) || chdir(here)) return 0;
    snprintf(here, sizeof here, "../gone-%s", trick);
    if (rmdir(here)) return 0;
    return made(then, NEW);
}

static int connected(int fd, int flags, int how) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_pton(AF_INET, "192.0.2.7", &to.sin_addr);
    if (how == 's') return sendto(fd, "x", 1, flags, (void *)&to, sizeof to);
    if (how == 'b') return bind(fd, (void *)&to, sizeof to);
    if (how == 'm') {
        struct iovec piece = {"x", 1};
        struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1};
        return sendmsg(fd, &message, flags);
    }
    return connect(fd, (void *)&to, sizeof to);
}

static int feigned(void) {
    struct timespec odd[2] = {{0, 2000000000}, {0, 0}};
    if (IS("null")) return made(0, NEW);
    if (IS("unmapped")) return made((char *)8, NEW);
    if (IS("no-end")) return at_page_end(in("no-end"), 0, 0, 0);
    if (IS("beyond-file")) { int fd = memfd_create("m", 0); char *at = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0); return made(at, NEW); }
    if (IS("protected")) { char *at = pages(1); strcpy(at, in("protected")); mprotect(at, 4096, PROT_NONE); return made(at, NEW); }
    if (IS("path-max")) return padded(4096, "path-max");
    if (IS("name-max")) { char name[300] = {0}; memset(name, 'n', 256); return made(in(name), NEW); }
    if (IS("not-a-directory")) return made(in("file/x"), NEW);
    if (IS("loop")) return made(in("loop/x"), NEW);
    if (IS("empty")) return made("", NEW);
    if (IS("bad-descriptor")) return syscall(SYS_openat, 999, "x", NEW, 0600);
    if (IS("file-as-directory")) return syscall(SYS_openat, open(in("file"), O_RDONLY), "x", NEW, 0600);
    if (IS("create-directory")) return made(in("create-directory"), NEW | O_DIRECTORY);
    if (IS("tmpfile-read")) return made(in(""), O_TMPFILE | O_RDONLY);
    if (IS("full-table")) return full_table();
    if (IS("rename-flags")) return syscall(SYS_renameat2, AT_FDCWD, in("file"), AT_FDCWD, in("x"), 0x40);
    if (IS("rename-both")) return syscall(SYS_renameat2, AT_FDCWD, in("file"), AT_FDCWD, in("x"), 3);
    if (IS("link-flags")) return linkat(AT_FDCWD, in("file"), AT_FDCWD, in("x"), 0x8000);
    if (IS("unlink-flags")) return unlinkat(AT_FDCWD, in("file"), 0x8000);
    if (IS("chown-flags")) return syscall(SYS_fchownat, AT_FDCWD, in("file"), -1, -1, 0x8000);
    if (IS("chmod-flags")) return syscall(452 /* fchmodat2 */, AT_FDCWD, in("file"), 0600, 0x8000);
    if (IS("times-flags")) return syscall(SYS_utimensat, AT_FDCWD, in("file"), 0, 0x8000);
    if (IS("times-odd")) return syscall(SYS_utimensat, AT_FDCWD, in("file"), odd, 0);
    if (IS("times-omitted")) { struct timespec none[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}}; return syscall(SYS_utimensat, AT_FDCWD, in("file"), none, 0); }
    if (IS("times-null")) return syscall(SYS_utimensat, AT_FDCWD, in("file"), (void *)8, 0);
    if (IS("truncate-below")) return truncate(in("file"), -1);
    if (IS("node-directory")) return mknod(in("node"), S_IFDIR | 0700, 0);
    if (IS("node-odd")) return mknod(in("node"), 0170000, 0);
    if (IS("link-text-null")) return symlink((char *)8, in("s"));
    if (IS("link-text-empty")) return symlink("", in("s"));
    if (IS("attribute-name")) return setxattr(in("file"), "", "x", 1, 0);
    if (IS("attribute-size")) return syscall(SYS_setxattr, in("file"), "user.x", "x", 70000, 0);
    if (IS("attribute-null")) return syscall(SYS_setxattr, in("file"), "user.x", 8, 1, 0);
    if (IS("gone")) return gone("x");
    if (IS("connect-nothing")) return connected(999, 0, 'c');
    if (IS("connect-file")) return connected(open("/dev/null", O_RDONLY), 0, 'c');
    if (IS("connect-unix")) return connected(socket(AF_UNIX, SOCK_STREAM, 0), 0, 'c');
    if (IS("bind-nothing")) return connected(999, 0, 'b');
    if (IS("send-nothing")) return connected(999, 0, 's');
    if (IS("send-stream")) return connected(socket(AF_INET, SOCK_STREAM, 0), MSG_NOSIGNAL, 's');
    if (IS("message-stream")) return connected(socket(AF_INET, SOCK_STREAM, 0), MSG_NOSIGNAL, 'm');
    return -2;
}

static int hidden(void) {
    if (IS("page-end")) return at_page_end(in("page-end"), 1, 0, 0);
    if (IS("straddle")) return at_page_end(in("straddle"), 1, 1, 9);
    if (IS("longest")) return padded(4095, "longest");
    if (IS("high-bits")) return syscall(SYS_openat, 0xDEADBEEF00000000UL | (unsigned)AT_FDCWD, in("high-bits"), 0xFFFF000000000000UL | NEW, 0600);
    if (IS("dirfd")) return syscall(SYS_openat, open(in(""), O_PATH), "dirfd", NEW, 0600);
    if (IS("through-proc")) { char p[64]; snprintf(p, sizeof p, "/proc/self/fd/%d/through-proc", open(in(""), O_PATH)); return made(p, NEW); }
    if (IS("reopen")) { char p[64]; snprintf(p, sizeof p, "/proc/self/fd/%d", open(in("file"), O_PATH)); return made(p, O_WRONLY); }
    if (IS("root-link")) { char p[2048]; snprintf(p, sizeof p, "/proc/self/root%s", in("root-link")); return made(p, NEW); }
    if (IS("parent-of-link")) return made("out/../ro/parent-of-link", NEW);
    if (IS("chain")) return made("chain0/chain", NEW);
    if (IS("deleted-name")) return deleted_name();
    if (IS("gone-absolute")) return gone(in("gone-absolute"));
    if (IS("shared-cwd")) { thread(in(""), 0, 0); return made("shared-cwd", NEW); }
    if (IS("own-cwd")) return thread(in(""), "own-cwd", CLONE_FS);
    if (IS("undumpable")) { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); return made(in("undumpable"), NEW); }
    if (IS("silent")) { close(0); close(2); return made(in("silent"), NEW); }
    if (IS("vfork")) { volatile int error = 0; if (!vfork()) { error = mkdir(in("vfork"), 0700) ? errno : 0; _exit(0); } errno = error; return error ? -1 : 0; }
    if (IS("handle")) {
        struct { struct file_handle h; char room[128]; } h = {.h.handle_bytes = 128};
        int mount;
        name_to_handle_at(AT_FDCWD, in("file"), &h.h, &mount, 0);
        return made(in("handle"), NEW);
    }
    if (IS("orphan")) { if (!fork()) { if (fork()) _exit(0); return made(in("orphan"), NEW); } waitpid(-1, 0, 0); _exit(0); }
    return -2;
}

int main(int argc, char **argv) {
    base = argv[1];
    for (int i = 2; i < argc; i++) {
        trick = argv[i];
        int results[2];
        if (pipe(results)) return 125;
        pid_t child = fork();
        if (!child) {
            errno = 0;
            int result = feigned();
            if (result == -2) result = hidden();
            int error = result == -2 ? 9999 : result < 0 ? errno : 0;
            if (write(results[1], &error, sizeof error) < 0) _exit(1);
            _exit(0);
        }
        close(results[1]);
        int error = 8888;
        if (read(results[0], &error, sizeof error) < 0) return 125;
        close(results[0]);
        waitpid(child, 0, 0);
        printf("%d\n", error);
        fflush(stdout);
    }
    return 0;
}
