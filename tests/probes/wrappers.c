/* Surroundings for a command: `probe WRAPPER ARGS -- COMMAND...` */
#include "probe.h"
#include <linux/keyctl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <termios.h>

static char **command_of(char **argv)
{
    for (; *argv; argv++)
        if (!strcmp(*argv, "--"))
            return argv + 1;
    exit(BUG);
}

static int run(char **command)
{
    execvp(command[0], command);
    perror(command[0]);
    return BUG;
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return BUG;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A session keyring of its own, with the secret in it. */
PROBE(p_with_session, "with-session", 2)
{
    char name[128];
    const char *canary = getenv("STOCKADE_CANARY");
    snprintf(name, sizeof name, "stockade:session-%s", argv[0]);
    if (!canary || sys(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
        return BUG;
    if (sys(SYS_add_key, "user", name, canary, strlen(canary), KEY_SPEC_SESSION_KEYRING) < 0)
        return BUG;
    unsetenv("STOCKADE_CANARY");
    return run(command_of(argv));
}

/* Descriptors left open: a file to append to and a directory. */
PROBE(p_with_fd, "with-fd", 4)
{
    int file = open(argv[1], O_RDWR | O_APPEND), directory = open(argv[2], O_RDONLY | O_DIRECTORY);
    int number_of = (int)number(argv[0]);
    if (file < 0 || directory < 0)
        return BUG;
    if (dup2(file, number_of) < 0 || dup2(directory, number_of + 1) < 0)
        return BUG;
    close(file);
    close(directory);
    return run(command_of(argv));
}

/* A mount inside the workspace that leads elsewhere, in a mount namespace of its own. */
PROBE(p_with_mount, "with-mount", 3)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount(argv[0], argv[1], NULL, MS_BIND, NULL)) {
        perror("with-mount");
        return BUG;
    }
    return run(command_of(argv));
}

/* A bystander in the command's own process group; what reaches it is told on standard error. */
PROBE(p_group, "with-group", 1)
{
    sigset_t all, before;
    if (setpgid(0, 0) && getpgrp() != getpid())
        return BUG;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t bystander = fork();
    if (bystander == 0) {
        struct signalfd_siginfo info;
        int signals = signalfd(-1, &all, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (read(signals, &info, sizeof info) == sizeof info)
            dprintf(2, "GROUP signal %u\n", info.ssi_signo);
        _exit(BUG);
    }
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(run(command_of(argv)));
    }
    int status = wait_for(child);
    usleep(20000);
    kill(bystander, SIGKILL);
    wait_for(bystander);
    return status;
}

/* A terminal for the command, looked at afterwards. Changes are told on standard error as `TERMINAL ...`. */
PROBE(p_pty, "with-pty", 1)
{
    char name[64], buffer[4096];
    struct termios before, after;
    struct winsize size = {24, 80, 0, 0}, size_after;
    int waiting = 0, exclusive = 0, discipline = 0, number_of = 0;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), report = fcntl(2, F_DUPFD_CLOEXEC, 100);
    memset(&before, 0, sizeof before); /* padding is compared too */
    memset(&after, 0, sizeof after);
    if (master < 0 || grantpt(master) || unlockpt(master) || ioctl(master, TIOCGPTN, &number_of))
        return BUG;
    snprintf(name, sizeof name, "/dev/pts/%d", number_of);
    setsid();
    int slave = open(name, O_RDWR | O_NOCTTY);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) || tcgetattr(slave, &before))
        return BUG;
    before.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    tcsetattr(slave, TCSANOW, &before);
    tcgetattr(slave, &before);
    ioctl(slave, TIOCSWINSZ, &size);
    int flags = fcntl(slave, F_GETFL);
    (void)!write(master, "Z", 1); /* what the person has typed ahead */
    signal(SIGHUP, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        tcsetpgrp(slave, getpid());
        signal(SIGHUP, SIG_DFL);
        signal(SIGTTOU, SIG_DFL);
        for (int fd = 0; fd < 3; fd++)
            dup2(slave, fd);
        close(slave);
        _exit(run(command_of(argv)));
    }
    int status = 0, ended = 0;
    for (int turns = 0;; turns++) { /* a command may fill the terminal: it is kept empty until the command has ended, and once more then */
        struct pollfd ready = {master, POLLIN, 0};
        ssize_t got = 0;
        if (poll(&ready, 1, ended ? 0 : 10) > 0 && (got = read(master, buffer, sizeof buffer)) > 0)
            (void)!write(1, buffer, (size_t)got);
        if (ended && got <= 0)
            break;
        if (!ended && turns > 400) { /* four seconds: output that was stopped stops the command too */
            /* One that stopped a terminal of its own can be asked to end, and puts ours back. */
            kill(-child, SIGTERM);
            for (int asked = 0; asked < 300 && !ended; asked++, usleep(10000)) {
                (void)!poll(&ready, 1, 0);
                if ((ready.revents & POLLIN) && (got = read(master, buffer, sizeof buffer)) > 0)
                    (void)!write(1, buffer, (size_t)got);
                ended = waitpid(child, &status, WNOHANG) == child;
            }
            if (!ended) {
                dprintf(report, "TERMINAL the command could not go on\n");
                kill(-child, SIGKILL);
                wait_for(child);
                ended = 1;
            }
        }
        if (!ended && waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
            ended = 1;
            if (WIFSTOPPED(status)) {
                dprintf(report, "TERMINAL stopped the command with signal %d\n", WSTOPSIG(status));
                kill(child, SIGKILL);
                wait_for(child);
            }
        }
    }
    if (tcgetpgrp(slave) != child)
        dprintf(report, "TERMINAL foreground group changed\n");
    tcsetpgrp(slave, getpgrp());
    /* A relay of the terminal reads what is typed, as the command itself might; more than was typed is another matter. */
    if (ioctl(slave, FIONREAD, &waiting))
        dprintf(report, "TERMINAL hung up\n");
    else if (waiting > 1)
        dprintf(report, "TERMINAL %d bytes of input where one at most was typed\n", waiting);
    int writer = open(name, O_WRONLY | O_NOCTTY | O_NONBLOCK);
    if (writer >= 0 && write(writer, ".", 1) < 0)
        dprintf(report, "TERMINAL output stopped\n");
    struct termios locked;
    memset(&locked, 0, sizeof locked);
    if (ioctl(slave, 0x5456, &locked) == 0 && locked.c_lflag) /* TIOCGLCKTRMIOS */
        dprintf(report, "TERMINAL settings locked\n");
    if (tcgetattr(slave, &after) == 0 && memcmp(&before, &after, sizeof before))
        dprintf(report, "TERMINAL settings changed\n");
    if (ioctl(slave, TIOCGWINSZ, &size_after) == 0 && memcmp(&size, &size_after, sizeof size))
        dprintf(report, "TERMINAL size changed\n");
    if (fcntl(slave, F_GETFL) != flags)
        dprintf(report, "TERMINAL shared flags changed\n");
    if (ioctl(slave, TIOCGEXCL, &exclusive) == 0 && exclusive)
        dprintf(report, "TERMINAL made exclusive\n");
    if (ioctl(slave, TIOCGETD, &discipline) == 0 && discipline)
        dprintf(report, "TERMINAL discipline changed\n");
    if (tcgetsid(slave) != getsid(0))
        dprintf(report, "TERMINAL stolen\n");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
