/* Other processes and the kernel reached through /proc, /sys and /dev. */
#include "probe.h"
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <dirent.h>

static int write_path(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    return fd < 0 ? refused("open") : mark(fd);
}

static const char *pid_name(const char *word)
{
    static char text[32];
    if (strcmp(word, "parent"))
        return word;
    snprintf(text, sizeof text, "%d", getppid());
    return text;
}

/* root or cwd of a process, then a path below it. */
PROBE(p_proc_link, "proc-link", 3)
{
    char path[4096];
    snprintf(path, sizeof path, "/proc/%s/%s/%s", pid_name(argv[0]), argv[1], argv[2]);
    return write_path(path);
}

PROBE(p_proc_read, "proc-read", 2)
{
    static char text[1 << 16];
    char path[256];
    snprintf(path, sizeof path, "/proc/%s/%s", pid_name(argv[0]), argv[1]);
    int fd = open(path, O_RDONLY);
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

/* The environment of this process's forebears, at most `depth` of them. */
PROBE(p_ancestors, "ancestors-environ", 1)
{
    static char text[1 << 16];
    int pid = getppid(), seen = 0;
    for (long depth = number(argv[0]); depth > 0 && pid > 0; depth--) {
        char path[64], stat[512];
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        int fd = open(path, O_RDONLY);
        ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        for (ssize_t i = 0; i < got; i++)
            if (!text[i])
                text[i] = '\n';
        if (got > 0) {
            text[got] = 0;
            /* Only the test's own line is printed; whatever else stands there is nobody's business. */
            for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
                if (strstr(line, "canary-stk"))
                    printf("%d: %s\n", pid, line), seen = 1;
        }
        if (fd >= 0)
            close(fd);
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(stat, sizeof stat, file))
            break;
        fclose(file);
        char *after = strrchr(stat, ')');
        if (!after || sscanf(after + 1, " %*c %d", &pid) != 1)
            break;
    }
    if (seen)
        return DONE;
    errno = EACCES;
    return refused("nothing found");
}

PROBE(p_proc_mem, "proc-mem-write", 2)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/mem", pid_name(argv[0]));
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return refused("open");
    return outcome(pwrite(fd, "ATTACKED", 8, (off_t)strtoul(argv[1], NULL, 0)));
}

PROBE(p_proc_mem_read, "proc-mem-read", 2)
{
    char path[64], text[65] = "";
    snprintf(path, sizeof path, "/proc/%s/mem", pid_name(argv[0]));
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return refused("open");
    if (pread(fd, text, 64, (off_t)strtoul(argv[1], NULL, 0)) < 0)
        return refused("read");
    puts(text);
    return DONE;
}

/* A file of a process set to a value: oom_score_adj, timerslack and their like. */
PROBE(p_proc_set, "proc-set", 3)
{
    char path[256];
    snprintf(path, sizeof path, "/proc/%s/%s", pid_name(argv[0]), argv[1]);
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return refused("open");
    return outcome(write(fd, argv[2], strlen(argv[2])));
}

/* Proves write access without changing anything: the value that stands there is written back. */
PROBE(p_write_same, "write-same", 1)
{
    char text[4096];
    int fd = open(argv[0], O_RDONLY);
    if (fd < 0)
        return errno == ENOENT ? untried("no such file") : refused("open");
    ssize_t got = read(fd, text, sizeof text);
    close(fd);
    if (got < 0)
        return refused("read");
    if (got == 0)
        text[0] = '\n', got = 1;
    char *chosen = memchr(text, '[', (size_t)got), *end = memchr(text, ']', (size_t)got);
    if (chosen && end && chosen < end) /* of several words, the one in brackets is the value */
        got = end - chosen - 1, memmove(text, chosen + 1, (size_t)got);
    fd = open(argv[0], O_WRONLY);
    if (fd < 0)
        return errno == ENOENT ? untried("no such file") : refused("open for writing");
    return outcome(write(fd, text, (size_t)got));
}

/* Opens for writing and closes again: as far as one goes with a file whose every write has an effect. */
PROBE(p_open_only, "open-only", 2)
{
    int fd = open(argv[0], open_flags(argv[1]));
    if (fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV) && argc < 3)
        return untried("no such file here");
    return fd < 0 ? refused("open") : DONE;
}

/* A directory made and removed again in a hierarchy of the kernel's. */
PROBE(p_cgroup, "cgroup-mkdir", 1)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/stockade-probe-%d", argv[0], getpid());
    if (mkdir(path, 0755))
        return errno == ENOENT ? untried("no such hierarchy") : refused("mkdir");
    rmdir(path);
    return DONE;
}

/* A device node of the probe's own making, opened. The node is removed; nothing is written to the device. */
PROBE(p_device_node, "device-node", 3)
{
    struct stat found;
    if (stat(argv[1], &found))
        return untried("no such device here");
    if (sys(SYS_mknodat, AT_FDCWD, argv[0], (found.st_mode & S_IFMT) | 0600, found.st_rdev))
        return refused("mknod");
    int fd = open(argv[0], open_flags(argv[2]));
    int result = fd < 0 ? refused("open") : DONE;
    unlink(argv[0]);
    return result;
}

/* Sees a process of the host. */
PROBE(p_see_pid, "see-pid", 2)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof path, "/proc/%s/cmdline", argv[0]);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return refused("open");
    ssize_t got = read(fd, text, sizeof text - 1);
    for (ssize_t i = 0; i < got; i++)
        if (!text[i])
            text[i] = ' ';
    if (got <= 0 || !strstr(text, argv[1])) {
        errno = ESRCH;
        return refused("another process");
    }
    return DONE;
}

/* Counts processes whose command line has the token, this one left out. */
PROBE(p_see_any, "see-any", 1)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return refused("opendir");
    for (struct dirent *entry; (entry = readdir(proc));) {
        char path[300], text[4096] = "";
        int pid = atoi(entry->d_name);
        if (pid <= 0 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        ssize_t got = read(fd, text, sizeof text - 1);
        close(fd);
        for (ssize_t i = 0; i < got; i++)
            if (!text[i])
                text[i] = ' ';
        if (got > 0 && strstr(text, argv[0]) && strstr(text, "victim"))
            return printf("sees %d\n", pid), DONE;
    }
    errno = ESRCH;
    return refused("not seen");
}
