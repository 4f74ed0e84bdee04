/* The terminal of whoever started the command. Standard input is the way in, /dev/tty and /dev/pts the others. */
#include "probe.h"
#include <sys/ioctl.h>
#include <termios.h>

static int terminal_of(const char *word)
{
    if (!strcmp(word, "tty"))
        return open("/dev/tty", O_RDWR | O_NOCTTY);
    if (word[0] == '/')
        return open(word, O_RDWR | O_NOCTTY);
    return (int)number(word);
}

PROBE(p_terminal, "terminal", 2)
{
    int fd = terminal_of(argv[0]);
    char byte = 'X';
    const char *how = argv[1];
    if (fd < 0)
        return refused("open");
    if (!strcmp(how, "sti"))
        return outcome(sys(SYS_ioctl, fd, (unsigned long)TIOCSTI, &byte));
    if (!strcmp(how, "sti-high"))
        return outcome(sys(SYS_ioctl, fd, (unsigned long)TIOCSTI | (1UL << 32), &byte));
    if (!strcmp(how, "sti-high63"))
        return outcome(sys(SYS_ioctl, fd, (unsigned long)TIOCSTI | (1UL << 63), &byte));
    if (!strcmp(how, "linux") || !strcmp(how, "linux-high")) {
        unsigned long high = !strcmp(how, "linux-high") ? 1UL << 32 : 0;
        char paste[1] = {3};
        return outcome(sys(SYS_ioctl, fd, 0x541CUL | high, paste));
    }
    if (!strcmp(how, "setd")) {
        int discipline = 3; /* N_PPP-like, not built in everywhere; N_TTY itself proves the door as well */
        if (sys(SYS_ioctl, fd, (unsigned long)TIOCSETD, &discipline) == 0)
            return DONE;
        discipline = 0;
        return outcome(sys(SYS_ioctl, fd, (unsigned long)TIOCSETD, &discipline));
    }
    if (!strcmp(how, "termios")) {
        struct termios now;
        if (tcgetattr(fd, &now))
            return refused("tcgetattr");
        now.c_lflag &= (tcflag_t) ~(ECHO | ISIG);
        return outcome(tcsetattr(fd, TCSANOW, &now));
    }
    if (!strcmp(how, "winsize")) {
        struct winsize size = {7, 7, 0, 0};
        return outcome(ioctl(fd, TIOCSWINSZ, &size));
    }
    if (!strcmp(how, "nonblock"))
        return outcome(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
    if (!strcmp(how, "async"))
        return outcome(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
    if (!strcmp(how, "append"))
        return outcome(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) ^ O_APPEND));
    if (!strcmp(how, "exclusive"))
        return outcome(ioctl(fd, TIOCEXCL));
    if (!strcmp(how, "stop"))
        return outcome(ioctl(fd, TCXONC, TCOOFF));
    if (!strcmp(how, "hangup"))
        return outcome(ioctl(fd, 0x5437)); /* TIOCVHANGUP */
    if (!strcmp(how, "lock")) {
        struct termios mask;
        memset(&mask, 0xff, sizeof mask);
        return outcome(ioctl(fd, 0x5457, &mask)); /* TIOCSLCKTRMIOS */
    }
    if (!strcmp(how, "break"))
        return outcome(ioctl(fd, TIOCSBRK));
    if (!strcmp(how, "flush"))
        return outcome(ioctl(fd, TCFLSH, TCIOFLUSH));
    if (!strcmp(how, "steal")) {
        setsid();
        return outcome(ioctl(fd, TIOCSCTTY, 1));
    }
    if (!strcmp(how, "foreground")) {
        setpgid(0, 0);
        pid_t group = getpgrp();
        signal(SIGTTOU, SIG_IGN);
        return outcome(ioctl(fd, TIOCSPGRP, &group));
    }
    if (!strcmp(how, "signal")) {
        int sig = SIGINT;
        return outcome(ioctl(fd, 0x40045436, (long)sig)); /* TIOCSIG */
    }
    if (!strcmp(how, "read")) {
        char got;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        ssize_t count = read(fd, &got, 1);
        return count == 1 ? DONE : (errno = count ? errno : ENODATA, refused("read"));
    }
    if (!strcmp(how, "write"))
        return mark(fd);
    return BUG;
}
