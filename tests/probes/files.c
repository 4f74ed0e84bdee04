/* Writes to files by every call that opens, creates, moves or removes. */
#include "probe.h"
#include <linux/openat2.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <linux/fs.h>
#include <linux/falloc.h>

/* Whether the new file is to have a setuid or setgid bit: a write would take it off again. */
static int gains;

static int finish_open(long fd, int flags)
{
    if (fd < 0)
        return refused("open");
    if (gains)
        return DONE;
    if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) == O_PATH)
        return DONE;
    if (flags & O_DIRECT) {
        void *page = NULL;
        if (posix_memalign(&page, 4096, 4096))
            return BUG;
        memset(page, 'A', 4096);
        return outcome(write((int)fd, page, 4096));
    }
    return mark((int)fd);
}

PROBE(p_open, "open", 2)
{
    int flags = open_flags(argv[1]);
    mode_t mode = argc > 2 ? (mode_t)number(argv[2]) : 0644;
    gains = mode & 06000;
#ifdef SYS_open
    return finish_open(sys(SYS_open, argv[0], flags, mode), flags);
#else
    return finish_open(sys(SYS_openat, AT_FDCWD, argv[0], flags, mode), flags);
#endif
}

PROBE(p_openat, "openat", 3)
{
    int dir = (int)sys(SYS_openat, AT_FDCWD, argv[0], O_PATH | O_DIRECTORY);
    if (dir < 0)
        return refused("directory");
    int flags = open_flags(argv[2]);
    return finish_open(sys(SYS_openat, dir, argv[1], flags, 0644), flags);
}

PROBE(p_openat2, "openat2", 3)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)open_flags(argv[1]), .mode = 0, .resolve = 0};
    if (how.flags & (O_CREAT | O_TMPFILE))
        how.mode = (uint64_t)number(argv[2]);
    gains = how.mode & 06000;
    return finish_open(sys(SYS_openat2, AT_FDCWD, argv[0], &how, sizeof how), (int)how.flags);
}

/* Walks up by `..` from the start directory, so no absolute name is ever used. */
PROBE(p_dotdot, "dotdot", 2)
{
    char path[4096] = "";
    for (int i = 0; i < 40; i++)
        strcat(path, "../");
    strcat(path, argv[0][0] == '/' ? argv[0] + 1 : argv[0]);
    int flags = open_flags(argv[1]);
    return finish_open(sys(SYS_openat, AT_FDCWD, path, flags, 0644), flags);
}

PROBE(p_creat, "creat", 1)
{
    mode_t mode = argc > 1 ? (mode_t)number(argv[1]) : 0644;
    gains = mode & 06000;
#ifdef SYS_creat
    return finish_open(sys(SYS_creat, argv[0], mode), O_WRONLY);
#else
    return finish_open(sys(SYS_openat, AT_FDCWD, argv[0], O_CREAT | O_TRUNC | O_WRONLY, mode), O_WRONLY);
#endif
}

PROBE(p_truncate, "truncate", 2) { return outcome(sys(SYS_truncate, argv[0], number(argv[1]))); }

PROBE(p_ftruncate, "ftruncate", 2)
{
    int fd = open(argv[0], O_RDWR);
    return fd < 0 ? refused("open") : outcome(sys(SYS_ftruncate, fd, number(argv[1])));
}

PROBE(p_rename, "rename", 2) { return outcome(sys(SYS_renameat, AT_FDCWD, argv[0], AT_FDCWD, argv[1])); }

PROBE(p_renameat2, "renameat2", 3)
{
    unsigned flags = !strcmp(argv[2], "exchange") ? 2 : !strcmp(argv[2], "whiteout") ? 4 : 1;
    return outcome(sys(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], flags));
}

/* Away and back again, with a change in between: what a guard that looks only before and after would miss. */
PROBE(p_rename_edit_back, "rename-edit-back", 3)
{
    char aside[4096], inner[8192];
    snprintf(aside, sizeof aside, "%s.aside", argv[0]);
    snprintf(inner, sizeof inner, "%s/%s", aside, argv[1]);
    if (sys(SYS_renameat, AT_FDCWD, argv[0], AT_FDCWD, aside))
        return refused("rename");
    int fd = open(inner, O_WRONLY | O_CREAT | O_APPEND, 0755);
    int result = fd < 0 ? refused("open") : mark(fd);
    if (!strcmp(argv[2], "back") && sys(SYS_renameat, AT_FDCWD, aside, AT_FDCWD, argv[0]))
        return refused("rename back");
    return result;
}

PROBE(p_link, "link", 2) { return outcome(sys(SYS_linkat, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 0)); }

PROBE(p_link_write, "link-write", 2)
{
    if (sys(SYS_linkat, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 0))
        return refused("link");
    int fd = open(argv[1], O_WRONLY | O_APPEND);
    return fd < 0 ? refused("open") : mark(fd);
}

PROBE(p_linkat_empty, "linkat-empty", 2)
{
    int fd = open(argv[0], O_PATH);
    return fd < 0 ? refused("open") : outcome(sys(SYS_linkat, fd, "", AT_FDCWD, argv[1], AT_EMPTY_PATH));
}

PROBE(p_linkat_proc, "linkat-proc", 2)
{
    char name[64];
    int fd = open(argv[0], O_RDONLY);
    if (fd < 0)
        return refused("open");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return outcome(sys(SYS_linkat, AT_FDCWD, name, AT_FDCWD, argv[1], AT_SYMLINK_FOLLOW));
}

PROBE(p_symlink, "symlink", 2) { return outcome(sys(SYS_symlinkat, argv[0], AT_FDCWD, argv[1])); }

/* The name is replaced by a symbolic link: unlink or rename over, both in one. */
PROBE(p_replace_symlink, "replace-by-symlink", 3)
{
    char temp[4096];
    snprintf(temp, sizeof temp, "%s.new", argv[1]);
    if (argc > 3)
        snprintf(temp, sizeof temp, "%s", argv[3]);
    if (sys(SYS_symlinkat, argv[0], AT_FDCWD, temp))
        return refused("symlink");
    if (!strcmp(argv[2], "exchange"))
        return outcome(sys(SYS_renameat2, AT_FDCWD, temp, AT_FDCWD, argv[1], 2));
    return outcome(sys(SYS_renameat, AT_FDCWD, temp, AT_FDCWD, argv[1]));
}

PROBE(p_unlink, "unlink", 1) { return outcome(sys(SYS_unlinkat, AT_FDCWD, argv[0], 0)); }
PROBE(p_rmdir, "rmdir", 1) { return outcome(sys(SYS_unlinkat, AT_FDCWD, argv[0], AT_REMOVEDIR)); }
PROBE(p_mkdir, "mkdir", 1)
{
    return outcome(sys(SYS_mkdirat, AT_FDCWD, argv[0], argc > 1 ? (mode_t)number(argv[1]) : 0755));
}

PROBE(p_mknod, "mknod", 2)
{
    mode_t mode = (argc > 2 ? (mode_t)number(argv[2]) : 0644);
    dev_t device = 0;
    switch (argv[1][0]) {
    case 'f': mode |= S_IFIFO; break;
    case 'c': mode |= S_IFCHR; device = makedev(1, 3); break;
    case 'w': mode |= S_IFCHR; break; /* the whiteout, 0:0, which needs no capability */
    case 'b': mode |= S_IFBLK; device = makedev(7, 200); break;
    case 's': mode |= S_IFSOCK; break;
    default: mode |= S_IFREG;
    }
    return outcome(sys(SYS_mknodat, AT_FDCWD, argv[0], mode, device));
}

PROBE(p_bind_unix, "bind-unix", 1)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", argv[0]);
    int fd = socket(AF_UNIX, argc > 1 ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd < 0)
        return refused("socket");
    return outcome(sys(SYS_bind, fd, &name, sizeof name));
}

PROBE(p_fallocate, "fallocate", 2)
{
    int mode = 0;
    int fd = open(argv[0], O_RDWR);
    if (fd < 0)
        return refused("open");
    if (!strcmp(argv[1], "punch"))
        mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    else if (!strcmp(argv[1], "zero"))
        mode = FALLOC_FL_ZERO_RANGE;
    else if (!strcmp(argv[1], "collapse"))
        mode = FALLOC_FL_COLLAPSE_RANGE;
    else if (!strcmp(argv[1], "insert"))
        mode = FALLOC_FL_INSERT_RANGE;
    return outcome(sys(SYS_fallocate, fd, mode, 0L, 4096L));
}

PROBE(p_copy, "copy", 3)
{
    int from = open(argv[0], O_RDONLY);
    int to = open(argv[1], O_WRONLY);
    int ends[2];
    if (from < 0 || to < 0)
        return refused("open");
    if (!strcmp(argv[2], "range"))
        return outcome(sys(SYS_copy_file_range, from, NULL, to, NULL, 16L, 0));
    if (!strcmp(argv[2], "sendfile"))
        return outcome(sys(SYS_sendfile, to, from, NULL, 16L));
    if (!strcmp(argv[2], "clone")) {
        int result = ioctl(to, FICLONE, from);
        return result < 0 && (errno == EOPNOTSUPP || errno == EINVAL) ? untried("no reflinks on this file system")
                                                                      : outcome(result);
    }
    if (pipe(ends))
        return refused("pipe");
    if (!strcmp(argv[2], "vmsplice")) {
        struct iovec {
            void *base;
            size_t len;
        } piece = {"ATTACKED", 8};
        if (sys(SYS_vmsplice, ends[1], &piece, 1L, 0) < 0)
            return refused("vmsplice");
    } else if (sys(SYS_splice, from, NULL, ends[1], NULL, 16L, 0) < 0) {
        return refused("splice in");
    }
    return outcome(sys(SYS_splice, ends[0], NULL, to, NULL, 8L, 0));
}

PROBE(p_mmap, "mmap-shared", 1)
{
    int fd = open(argv[0], O_RDWR);
    if (fd < 0)
        return refused("open");
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return refused("mmap");
    at[0] = '!';
    return outcome(msync(at, 4096, MS_SYNC));
}

PROBE(p_pwritev, "pwritev2", 1)
{
    struct iovec {
        void *base;
        size_t len;
    } piece = {"ATTACKED", 8};
    int fd = open(argv[0], O_RDWR);
    return fd < 0 ? refused("open") : outcome(sys(SYS_pwritev2, fd, &piece, 1L, 0L, 0L, 0));
}

/* Opens for reading and asks the kernel for the same file again, for writing, by its descriptor's name. */
PROBE(p_reopen, "reopen", 3)
{
    char name[64];
    int fd = open(argv[0], !strcmp(argv[1], "path") ? O_PATH : O_RDONLY);
    if (fd < 0)
        return refused("open");
    snprintf(name, sizeof name, argv[2], fd);
    int again = open(name, O_WRONLY | O_APPEND);
    return again < 0 ? refused("reopen") : mark(again);
}

PROBE(p_tmpfile, "tmpfile-link", 3)
{
    char name[64];
    int fd = open(argv[0], O_TMPFILE | O_RDWR, 0755);
    if (fd < 0)
        return refused("tmpfile");
    if (mark(fd))
        return REFUSED;
    if (!strcmp(argv[2], "empty"))
        return outcome(sys(SYS_linkat, fd, "", AT_FDCWD, argv[1], AT_EMPTY_PATH));
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return outcome(sys(SYS_linkat, AT_FDCWD, name, AT_FDCWD, argv[1], AT_SYMLINK_FOLLOW));
}

PROBE(p_handle, "open-by-handle", 2)
{
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handle;
    int mount_id = 0;
    handle.head.handle_bytes = MAX_HANDLE_SZ;
    if (sys(SYS_name_to_handle_at, AT_FDCWD, argv[0], &handle, &mount_id, 0))
        return refused("name_to_handle_at");
    int dir = open(argv[1], O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return refused("mount descriptor");
    int fd = (int)sys(SYS_open_by_handle_at, dir, &handle, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("open_by_handle_at") : mark(fd);
}

/* Writes to a descriptor that the caller left open. */
PROBE(p_fd_write, "fd-write", 1) { return mark((int)number(argv[0])); }

PROBE(p_fd_truncate, "fd-truncate", 1) { return outcome(ftruncate((int)number(argv[0]), 1)); }

PROBE(p_fd_dir, "fd-dir-openat", 3)
{
    int flags = open_flags(argv[2]);
    return finish_open(sys(SYS_openat, (int)number(argv[0]), argv[1], flags, 0644), flags);
}

/* Any descriptor beyond the standard three is one that somebody forgot. */
PROBE(p_fd_list, "fd-any-above", 1)
{
    for (int fd = (int)number(argv[0]); fd < 4096; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return printf("descriptor %d is open\n", fd), DONE;
    errno = EBADF;
    return refused("none open");
}

PROBE(p_append_env, "print-env", 1)
{
    const char *value = getenv(argv[0]);
    if (!value) {
        errno = ENOENT;
        return refused("not in the environment");
    }
    puts(value);
    return DONE;
}

PROBE(p_read, "read", 1)
{
    char text[4096];
    int fd = open(argv[0], O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return refused("open");
    ssize_t got = read(fd, text, sizeof text);
    if (got < 0)
        return refused("read");
    for (ssize_t i = 0; i < got; i++)
        if (!text[i])
            text[i] = '\n';
    if (fwrite(text, 1, (size_t)got, stdout) != (size_t)got)
        return BUG;
    puts("");
    return got > 0 ? DONE : (errno = ENODATA, refused("empty"));
}
