/* Mounts by the old and the new calls, changed roots, namespaces. */
#include "probe.h"
#include <linux/sched.h>
#include <linux/mount.h>
#include <sys/mount.h>
#ifndef MS_RDONLY
#include <linux/fs.h>
#endif

static int write_name(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    return fd < 0 ? refused("open") : mark(fd);
}

PROBE(p_mount, "mount", 2)
{
    if (!strcmp(argv[0], "tmpfs"))
        return outcome(sys(SYS_mount, "none", argv[1], "tmpfs", 0L, NULL));
    if (!strcmp(argv[0], "proc"))
        return outcome(sys(SYS_mount, "none", argv[1], "proc", 0L, NULL));
    if (!strcmp(argv[0], "sysfs"))
        return outcome(sys(SYS_mount, "none", argv[1], "sysfs", 0L, NULL));
    if (!strcmp(argv[0], "cgroup2"))
        return outcome(sys(SYS_mount, "none", argv[1], "cgroup2", 0L, NULL));
    if (!strcmp(argv[0], "devtmpfs"))
        return outcome(sys(SYS_mount, "none", argv[1], "devtmpfs", 0L, NULL));
    if (!strcmp(argv[0], "mqueue"))
        return outcome(sys(SYS_mount, "none", argv[1], "mqueue", 0L, NULL));
    if (!strcmp(argv[0], "bind"))
        return outcome(sys(SYS_mount, argv[2], argv[1], NULL, MS_BIND | MS_REC, NULL));
    if (!strcmp(argv[0], "move"))
        return outcome(sys(SYS_mount, argv[2], argv[1], NULL, MS_MOVE, NULL));
    if (!strcmp(argv[0], "shared"))
        return outcome(sys(SYS_mount, "none", argv[1], NULL, MS_SHARED | MS_REC, NULL));
    if (!strcmp(argv[0], "umount"))
        return outcome(sys(SYS_umount2, argv[1], MNT_DETACH));
    if (!strcmp(argv[0], "overlay")) {
        char options[8192];
        snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s", argv[2], argv[3], argv[4]);
        return outcome(sys(SYS_mount, "overlay", argv[1], "overlay", 0L, options));
    }
    return BUG;
}

/* Makes the mount at the path writable again, then writes the file. */
PROBE(p_remount, "remount-write", 3)
{
    if (!strcmp(argv[2], "old")) {
        if (sys(SYS_mount, NULL, argv[0], NULL, MS_REMOUNT | MS_BIND, NULL))
            return refused("remount");
    } else {
        struct {
            uint64_t set, clear, propagation, userns;
        } change = {0, MOUNT_ATTR_RDONLY, 0, 0};
        if (sys(SYS_mount_setattr, AT_FDCWD, argv[0], 0, &change, sizeof change))
            return refused("mount_setattr");
    }
    return write_name(argv[1]);
}

/* Covers are lifted and what is below is written. */
PROBE(p_uncover, "umount-write", 2)
{
    if (sys(SYS_umount2, argv[0], MNT_DETACH))
        return refused("umount");
    return write_name(argv[1]);
}

PROBE(p_open_tree, "open-tree", 2)
{
    int tree = (int)sys(SYS_open_tree, AT_FDCWD, argv[0], OPEN_TREE_CLONE | AT_RECURSIVE);
    if (tree < 0)
        return refused("open_tree");
    struct {
        uint64_t set, clear, propagation, userns;
    } change = {0, MOUNT_ATTR_RDONLY, 0, 0};
    if (sys(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof change))
        return refused("mount_setattr");
    int fd = openat(tree, argv[1], O_WRONLY | O_APPEND);
    return fd < 0 ? refused("open") : mark(fd);
}

PROBE(p_open_tree_attr, "open-tree-attr", 1)
{
    struct {
        uint64_t set, clear, propagation, userns;
    } change = {0, MOUNT_ATTR_RDONLY, 0, 0};
    return outcome(sys(SYS_open_tree_attr, AT_FDCWD, argv[0], OPEN_TREE_CLONE, &change, sizeof change));
}

PROBE(p_fsopen, "fsopen", 2)
{
    int context = (int)sys(SYS_fsopen, argv[0], 0);
    if (context < 0)
        return refused("fsopen");
    if (sys(SYS_fsconfig, context, 6, NULL, NULL, 0)) /* FSCONFIG_CMD_CREATE */
        return refused("fsconfig");
    int made = (int)sys(SYS_fsmount, context, 0, 0);
    if (made < 0)
        return refused("fsmount");
    return outcome(sys(SYS_move_mount, made, "", AT_FDCWD, argv[1], 4)); /* MOVE_MOUNT_F_EMPTY_PATH */
}

PROBE(p_fspick, "fspick", 1) { return outcome(sys(SYS_fspick, AT_FDCWD, argv[0], 0)); }

PROBE(p_pivot, "pivot-root", 1)
{
    if (sys(SYS_mount, argv[0], argv[0], NULL, MS_BIND, NULL))
        return refused("bind");
    if (chdir(argv[0]))
        return refused("chdir");
    return outcome(sys(SYS_pivot_root, ".", "."));
}

/* chroot below, keep a descriptor above, walk out. */
PROBE(p_chroot, "chroot-escape", 2)
{
    int above = open("/", O_RDONLY | O_DIRECTORY);
    if (above < 0)
        return refused("open");
    if (sys(SYS_chroot, argv[0]))
        return refused("chroot");
    if (fchdir(above))
        return refused("fchdir");
    for (int i = 0; i < 64; i++)
        if (chdir(".."))
            return refused("chdir");
    return write_name(argv[1][0] == '/' ? argv[1] + 1 : argv[1]);
}

static long namespace_flag(const char *word)
{
    static const struct {
        const char *word;
        long flag;
    } known[] = {{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},   {"pid", CLONE_NEWPID},       {"net", CLONE_NEWNET},
                 {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS},  {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80},
                 {"fs", CLONE_FS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].word, word))
            return known[i].flag;
    exit(BUG);
}

PROBE(p_unshare, "unshare", 1) { return outcome(sys(SYS_unshare, namespace_flag(argv[0]))); }

/* Unshare of a user namespace and of another with it, in one call. */
PROBE(p_unshare_user, "unshare-user-and", 1)
{
    return outcome(sys(SYS_unshare, CLONE_NEWUSER | namespace_flag(argv[0])));
}

PROBE(p_clone_ns, "clone-ns", 1)
{
#ifdef __x86_64__
    long child = sys(SYS_clone, namespace_flag(argv[0]) | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    if (child < 0)
        return refused("clone");
    waitpid((pid_t)child, NULL, 0);
    return DONE;
#else
    return untried("argument order of another architecture");
#endif
}

/* The flag among others, and the number with bits set above the 32 that the kernel reads. */
PROBE(p_clone_high, "clone-ns-high", 1)
{
    long child = sys(SYS_clone, (namespace_flag(argv[0]) | SIGCHLD) | (1L << 40), NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    if (child < 0)
        return refused("clone");
    waitpid((pid_t)child, NULL, 0);
    return DONE;
}

PROBE(p_clone3, "clone3-ns", 1)
{
    struct clone_args args = {.flags = (uint64_t)namespace_flag(argv[0]), .exit_signal = SIGCHLD};
    long child = sys(SYS_clone3, &args, sizeof args);
    if (child == 0)
        _exit(0);
    if (child < 0)
        return refused("clone3");
    waitpid((pid_t)child, NULL, 0);
    return DONE;
}

PROBE(p_setns, "setns", 2)
{
    char path[64];
    if (!strcmp(argv[1], "pidfd")) {
        int fd = (int)sys(SYS_pidfd_open, (pid_t)number(argv[0]), 0);
        return fd < 0 ? refused("pidfd_open") : outcome(sys(SYS_setns, fd, CLONE_NEWNS | CLONE_NEWPID));
    }
    snprintf(path, sizeof path, "/proc/%s/ns/%s", argv[0], argv[1]);
    int fd = open(path, O_RDONLY);
    return fd < 0 ? refused("open") : outcome(sys(SYS_setns, fd, 0));
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    int result = write(fd, text, strlen(text)) < 0 ? -1 : 0;
    close(fd);
    return result;
}

/* A user namespace with all capabilities, and a mount of one's own in it. */
PROBE(p_userns_mount, "userns-mount", 1)
{
    char map[64];
    uid_t uid = getuid();
    if (sys(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS))
        return refused("unshare");
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (write_text("/proc/self/uid_map", map))
        return refused("uid_map");
    return outcome(sys(SYS_mount, "none", argv[0], "tmpfs", 0L, NULL));
}
