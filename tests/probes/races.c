/* A name that changes between the check and the use. */
#include "probe.h"
#include <pthread.h>

static char *link_name, *safe_target, *far_target, *spare_name;
static volatile int stop;

static void *flip_link(void *unused)
{
    (void)unused;
    for (unsigned turn = 0; !stop; turn++) {
        unlink(spare_name);
        if (symlink(turn & 1 ? far_target : safe_target, spare_name) == 0)
            rename(spare_name, link_name);
    }
    return NULL;
}

/* link, safe target, far target: one thread flips the link, this one writes through it. */
PROBE(p_race_link, "race-symlink", 3)
{
    char spare[4096];
    pthread_t flipper;
    int opened = 0, failure = ENOENT;
    link_name = argv[0], safe_target = argv[1], far_target = argv[2];
    snprintf(spare, sizeof spare, "%s.spare", link_name);
    spare_name = spare;
    if (symlink(safe_target, link_name) && errno != EEXIST)
        return refused("symlink");
    if (pthread_create(&flipper, NULL, flip_link, NULL))
        return BUG;
    for (int i = 0; i < 20000; i++) {
        int fd = open(link_name, O_WRONLY | O_APPEND);
        if (fd < 0) {
            failure = errno;
            continue;
        }
        opened++;
        (void)!write(fd, "RACE\n", 5);
        close(fd);
    }
    stop = 1;
    pthread_join(flipper, NULL);
    errno = failure;
    return opened ? DONE : refused("never opened");
}

static void *flip_directories(void *unused)
{
    (void)unused;
    while (!stop)
        (void)!syscall(SYS_renameat2, AT_FDCWD, link_name, AT_FDCWD, spare_name, 2);
    return NULL;
}

/* directory, link to a far directory, name in both: the two are exchanged while a file is opened in one. */
PROBE(p_race_dir, "race-exchange", 3)
{
    char path[4096];
    pthread_t flipper;
    int opened = 0, failure = ENOENT;
    link_name = argv[0], spare_name = argv[1];
    snprintf(path, sizeof path, "%s/%s", argv[0], argv[2]);
    if (pthread_create(&flipper, NULL, flip_directories, NULL))
        return BUG;
    for (int i = 0; i < 20000; i++) {
        int fd = open(path, O_WRONLY | O_APPEND);
        if (fd < 0) {
            failure = errno;
            continue;
        }
        opened++;
        (void)!write(fd, "RACE\n", 5);
        close(fd);
    }
    stop = 1;
    pthread_join(flipper, NULL);
    errno = failure;
    return opened ? DONE : refused("never opened");
}
