/* What the outside compares: one line for every file below the given paths. */
#include "probe.h"
#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

static uint64_t mix(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
    return hash;
}

static void describe(FILE *to, const char *path, const struct stat *file)
{
    static char buffer[1 << 16];
    uint64_t hash = 0xcbf29ce484222325ULL;
    long flags = 0;
    uint32_t generation = 0;
    if (S_ISREG(file->st_mode) || S_ISDIR(file->st_mode)) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        if (fd >= 0) {
            ssize_t got;
            while (S_ISREG(file->st_mode) && (got = read(fd, buffer, sizeof buffer)) > 0)
                hash = mix(hash, buffer, (size_t)got);
            ioctl(fd, FS_IOC_GETFLAGS, &flags);
            ioctl(fd, FS_IOC_GETVERSION, &generation);
            close(fd);
        }
    } else if (S_ISLNK(file->st_mode)) {
        ssize_t got = readlink(path, buffer, sizeof buffer);
        if (got > 0)
            hash = mix(hash, buffer, (size_t)got);
    }
    ssize_t names = llistxattr(path, buffer, sizeof buffer);
    if (names > 0) {
        static char value[1 << 16];
        for (char *name = buffer; name < buffer + names; name += strlen(name) + 1) {
            hash = mix(hash, name, strlen(name) + 1);
            ssize_t got = lgetxattr(path, name, value, sizeof value);
            if (got > 0)
                hash = mix(hash, value, (size_t)got);
        }
    }
    fprintf(to, "%s mode=%o uid=%u gid=%u size=%lld links=%lu mtime=%lld.%09ld ctime=%lld.%09ld flags=%lx gen=%x sum=%016lx\n",
           path, file->st_mode, file->st_uid, file->st_gid, (long long)file->st_size, (unsigned long)file->st_nlink,
           (long long)file->st_mtim.tv_sec, file->st_mtim.tv_nsec, (long long)file->st_ctim.tv_sec,
           file->st_ctim.tv_nsec, flags, generation, (unsigned long)hash);
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

void snapshot(FILE *to, const char *path, int special_only)
{
    struct stat file;
    if (lstat(path, &file)) {
        if (!special_only)
            fprintf(to, "%s missing\n", path);
        return;
    }
    int special = (S_ISREG(file.st_mode) && (file.st_mode & 06000)) || S_ISCHR(file.st_mode) ||
                  S_ISBLK(file.st_mode) || lgetxattr(path, "security.capability", NULL, 0) > 0;
    if (special_only && S_ISCHR(file.st_mode) && file.st_rdev == 0)
        special = 0; /* a whiteout: no device, only a mark */
    if (!special_only || special)
        describe(to, path, &file);
    if (!S_ISDIR(file.st_mode))
        return;
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, ".") && strcmp(entries[i]->d_name, "..")) {
            char below[8192];
            snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name);
            snapshot(to, below, special_only);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

PROBE(p_snapshot, "snapshot", 1)
{
    for (int i = 0; i < argc; i++)
        snapshot(stdout, argv[i], 0);
    return DONE;
}

/* Only what must never come into being: setuid and setgid programs, file capabilities, device nodes. */
PROBE(p_special, "special", 1)
{
    for (int i = 0; i < argc; i++)
        snapshot(stdout, argv[i], 1);
    return DONE;
}
