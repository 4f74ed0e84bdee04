/* Changes that leave a file's bytes alone: mode, owner, times, attributes, flags, locks. */
#include "probe.h"
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

PROBE(p_chmod, "chmod", 3)
{
    mode_t mode = (mode_t)number(argv[1]);
    char name[64];
    int fd;
    if (!strcmp(argv[2], "chmod"))
#ifdef SYS_chmod
        return outcome(sys(SYS_chmod, argv[0], mode));
#else
        return untried("no chmod(2) on this architecture");
#endif
    if (!strcmp(argv[2], "fchmodat"))
        return outcome(sys(SYS_fchmodat, AT_FDCWD, argv[0], mode));
    if (!strcmp(argv[2], "fchmodat2"))
        return outcome(sys(SYS_fchmodat2, AT_FDCWD, argv[0], mode, AT_SYMLINK_NOFOLLOW));
    if (!strcmp(argv[2], "fchmodat2-empty")) {
        fd = open(argv[0], O_PATH);
        return fd < 0 ? refused("open") : outcome(sys(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH));
    }
    if (!strcmp(argv[2], "fchmod-rdonly")) {
        fd = open(argv[0], O_RDONLY);
        return fd < 0 ? refused("open") : outcome(sys(SYS_fchmod, fd, mode));
    }
    if (!strcmp(argv[2], "proc-fd")) {
        fd = open(argv[0], O_PATH);
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        return fd < 0 ? refused("open") : outcome(sys(SYS_fchmodat, AT_FDCWD, name, mode));
    }
    return BUG;
}

PROBE(p_chown, "chown", 4)
{
    uid_t uid = (uid_t)number(argv[1]);
    gid_t gid = (gid_t)number(argv[2]);
    if (!strcmp(argv[3], "fchownat"))
        return outcome(sys(SYS_fchownat, AT_FDCWD, argv[0], uid, gid, 0));
#ifdef SYS_chown
    if (!strcmp(argv[3], "chown"))
        return outcome(sys(SYS_chown, argv[0], uid, gid));
    if (!strcmp(argv[3], "lchown"))
        return outcome(sys(SYS_lchown, argv[0], uid, gid));
#endif
    if (!strcmp(argv[3], "chown"))
        return outcome(sys(SYS_fchownat, AT_FDCWD, argv[0], uid, gid, 0));
    if (!strcmp(argv[3], "lchown"))
        return outcome(sys(SYS_fchownat, AT_FDCWD, argv[0], uid, gid, AT_SYMLINK_NOFOLLOW));
    if (!strcmp(argv[3], "empty")) {
        int fd = open(argv[0], O_PATH);
        return fd < 0 ? refused("open") : outcome(sys(SYS_fchownat, fd, "", uid, gid, AT_EMPTY_PATH));
    }
    int fd = open(argv[0], O_RDONLY);
    return fd < 0 ? refused("open") : outcome(sys(SYS_fchown, fd, uid, gid));
}

PROBE(p_times, "utimes", 2)
{
    struct timespec stamps[2] = {{1, 0}, {1, 0}};
    struct timeval old[2] = {{1, 0}, {1, 0}};
    if (!strcmp(argv[1], "utimensat"))
        return outcome(sys(SYS_utimensat, AT_FDCWD, argv[0], stamps, 0));
    if (!strcmp(argv[1], "nofollow"))
        return outcome(sys(SYS_utimensat, AT_FDCWD, argv[0], stamps, AT_SYMLINK_NOFOLLOW));
    if (!strcmp(argv[1], "now"))
        return outcome(sys(SYS_utimensat, AT_FDCWD, argv[0], NULL, 0));
    if (!strcmp(argv[1], "rdonly")) {
        int fd = open(argv[0], O_RDONLY);
        return fd < 0 ? refused("open") : outcome(sys(SYS_utimensat, fd, NULL, stamps, 0));
    }
#ifdef SYS_utimes
    if (!strcmp(argv[1], "utimes"))
        return outcome(sys(SYS_utimes, argv[0], old));
    if (!strcmp(argv[1], "futimesat"))
        return outcome(sys(SYS_futimesat, AT_FDCWD, argv[0], old));
    struct utimbuf older = {1, 1};
    return outcome(sys(SYS_utime, argv[0], &older));
#else
    (void)old;
    return untried("no utimes(2) on this architecture");
#endif
}

PROBE(p_setxattr, "setxattr", 3)
{
    const char *value = "1";
    size_t size = 1;
    /* A version 2 capability set: cap_net_raw, effective. */
    static const uint32_t caps[5] = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, 1u << CAP_NET_RAW, 0, 0, 0};
    /* A minimal access list, one named user added: rw-r--r-- plus uid 1 rw. */
    static const unsigned char acl[] = {2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 1, 0, 0, 0,
                                        4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255,
                                        32, 0, 4, 0, 255, 255, 255, 255};
    if (!strcmp(argv[1], "security.capability"))
        value = (const char *)caps, size = sizeof caps;
    if (!strcmp(argv[1], "system.posix_acl_access"))
        value = (const char *)acl, size = sizeof acl;
    if (!strcmp(argv[2], "setxattr"))
        return outcome(sys(SYS_setxattr, argv[0], argv[1], value, size, 0));
    if (!strcmp(argv[2], "lsetxattr"))
        return outcome(sys(SYS_lsetxattr, argv[0], argv[1], value, size, 0));
    if (!strcmp(argv[2], "setxattrat")) {
        struct {
            uint64_t value;
            uint32_t size, flags;
        } args = {(uint64_t)(uintptr_t)value, (uint32_t)size, 0};
        return outcome(sys(SYS_setxattrat, AT_FDCWD, argv[0], 0, argv[1], &args, sizeof args));
    }
    int fd = open(argv[0], O_RDONLY);
    return fd < 0 ? refused("open") : outcome(sys(SYS_fsetxattr, fd, argv[1], value, size, 0));
}

PROBE(p_removexattr, "removexattr", 3)
{
    if (!strcmp(argv[2], "removexattr"))
        return outcome(sys(SYS_removexattr, argv[0], argv[1]));
    if (!strcmp(argv[2], "lremovexattr"))
        return outcome(sys(SYS_lremovexattr, argv[0], argv[1]));
    if (!strcmp(argv[2], "removexattrat"))
        return outcome(sys(SYS_removexattrat, AT_FDCWD, argv[0], 0, argv[1]));
    int fd = open(argv[0], O_RDONLY);
    return fd < 0 ? refused("open") : outcome(sys(SYS_fremovexattr, fd, argv[1]));
}

PROBE(p_setflags, "setflags", 2)
{
    int fd = open(argv[0], O_RDONLY);
    if (fd < 0)
        return refused("open");
    if (!strcmp(argv[1], "xattr")) {
        struct fsxattr attributes;
        if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes))
            return untried("no extended flags on this file system");
        attributes.fsx_xflags ^= FS_XFLAG_NODUMP;
        return outcome(ioctl(fd, FS_IOC_FSSETXATTR, &attributes));
    }
    if (!strcmp(argv[1], "version") || !strcmp(argv[1], "ext4-version")) {
        long version = 4242;
        unsigned long own = _IOW('f', 4, long); /* EXT4_IOC_SETVERSION */
        return outcome(ioctl(fd, argv[1][0] == 'v' ? FS_IOC_SETVERSION : own, &version));
    }
    if (!strcmp(argv[1], "verity")) {
        struct fsverity_enable_arg arg = {.version = 1, .hash_algorithm = 1, .block_size = 4096};
        int result = ioctl(fd, FS_IOC_ENABLE_VERITY, &arg);
        return result && (errno == EOPNOTSUPP || errno == ENOTTY) ? untried("no fs-verity here") : outcome(result);
    }
    long flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
        return untried("no inode flags on this file system");
    flags ^= !strcmp(argv[1], "nodump") ? FS_NODUMP_FL : FS_NOATIME_FL;
    return outcome(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

PROBE(p_file_setattr, "file-setattr", 1)
{
    struct {
        uint64_t xflags;
        uint32_t extsize, nextents, projid, cowextsize;
    } attributes = {FS_XFLAG_NODUMP, 0, 0, 0, 0};
    long result = sys(SYS_file_setattr, AT_FDCWD, argv[0], &attributes, sizeof attributes, 0);
    return result < 0 && errno == ENOSYS ? refused("file_setattr") : outcome(result);
}

/* Locks and leases: they stop or delay whoever else uses the file. */
PROBE(p_lock, "lock", 2)
{
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = open(argv[0], O_RDONLY);
    if (fd < 0)
        return refused("open");
    if (!strcmp(argv[1], "flock"))
        return outcome(flock(fd, LOCK_EX | LOCK_NB));
    if (!strcmp(argv[1], "posix"))
        return outcome(fcntl(fd, F_SETLK, &range));
    if (!strcmp(argv[1], "ofd"))
        return outcome(fcntl(fd, F_OFD_SETLK, &range));
    if (!strcmp(argv[1], "lease"))
        return outcome(fcntl(fd, F_SETLEASE, F_RDLCK));
    if (!strcmp(argv[1], "notify"))
        return outcome(fcntl(fd, F_NOTIFY, DN_MODIFY));
    return BUG;
}
