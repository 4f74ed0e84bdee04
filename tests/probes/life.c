/* Outliving the command, and eating what the host has. */
#include "probe.h"
#include <sys/prctl.h>

static void linger(const char *token, int seconds)
{
    int null = open("/dev/null", O_RDWR);
    char text[16];
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    snprintf(text, sizeof text, "%d", seconds);
    /* The token in the command line is what the test looks for from outside. */
    execl("/proc/self/exe", "probe", "sleep", text, token, (char *)NULL);
    _exit(BUG);
}

PROBE(p_sleep, "sleep", 1)
{
    sleep((unsigned)number(argv[0]));
    return DONE;
}

PROBE(p_daemon, "daemon", 2)
{
    const char *how = argv[0];
    pid_t child;
    if (!strcmp(how, "clone-parent")) {
        child = (pid_t)sys(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    } else {
        child = fork();
    }
    if (child < 0)
        return refused("fork");
    if (child == 0) {
        setsid();
        if (!strcmp(how, "ignore-term"))
            signal(SIGTERM, SIG_IGN), signal(SIGHUP, SIG_IGN), signal(SIGINT, SIG_IGN);
        if (!strcmp(how, "hop")) /* a new process every few milliseconds */
            for (int i = 0; i < 300; i++) {
                pid_t next = fork();
                if (next > 0)
                    _exit(0);
                setsid();
                usleep(2000);
            }
        if (!strcmp(how, "stopped")) {
            pid_t still = fork();
            if (still == 0)
                linger(argv[1], 40);
            usleep(50000);
            kill(still, SIGSTOP);
            _exit(0);
        }
        if (strcmp(how, "single") && fork() > 0)
            _exit(0);
        if (!strcmp(how, "undumpable"))
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (!strcmp(how, "subreaper"))
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        linger(argv[1], 40);
    }
    usleep(100000);
    return DONE;
}

/* Forks until refused or until the bound; every child only waits to be killed. */
PROBE(p_forks, "fork-bomb", 1)
{
    long want = number(argv[0]), made = 0;
    int gate[2], failure = 0;
    if (pipe(gate))
        return refused("pipe");
    for (; made < want; made++) {
        pid_t child = fork();
        if (child < 0) {
            failure = errno;
            break;
        }
        if (child == 0) {
            char byte;
            close(gate[1]);
            (void)!read(gate[0], &byte, 1);
            _exit(0);
        }
    }
    close(gate[1]);
    while (wait(NULL) > 0)
        ;
    printf("made %ld\n", made);
    errno = failure;
    return made == want ? DONE : refused("fork");
}

/* Reserves disk in a directory without writing it, and gives it back. */
PROBE(p_fill, "disk-fill", 2)
{
    int fd = open(argv[0], O_TMPFILE | O_RDWR, 0600);
    if (fd < 0)
        return refused("open");
    return outcome(fallocate(fd, 0, 0, number(argv[1]) << 20));
}

PROBE(p_memory, "memory-bomb", 1)
{
    size_t step = 16 << 20;
    for (long mib = number(argv[0]); mib > 0; mib -= 16) {
        char *at = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return refused("mmap");
        memset(at, 1, step);
    }
    return DONE;
}

PROBE(p_flood, "flood", 1)
{
    static char block[1 << 16];
    memset(block, 'y', sizeof block);
    for (long left = number(argv[0]) << 20; left > 0; left -= (long)sizeof block)
        if (write(1, block, sizeof block) < 0)
            return REFUSED;
    return DONE;
}
