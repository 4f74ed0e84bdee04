/* The kernel's other doors: 32-bit calls by int 0x80 and the x32 numbers. */
#include "probe.h"

#ifdef __x86_64__
#include <setjmp.h>

static sigjmp_buf no_door;

static void on_fault(int sig) { siglongjmp(no_door, sig); }

static long int80(long nr, long a, long b, long c)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

static char *low_copy(const char *text)
{
    char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED)
        exit(BUG);
    return strcpy(low, text);
}

PROBE(p_int80, "int80", 2)
{
    long result;
    signal(SIGSEGV, on_fault);
    signal(SIGSYS, on_fault);
    int fault = sigsetjmp(no_door, 1);
    if (fault == SIGSYS) {
        errno = ENOSYS;
        return refused("SIGSYS");
    }
    if (fault)
        return untried("no 32-bit calls in this kernel");
    if (!strcmp(argv[0], "open"))
        result = int80(5, (long)low_copy(argv[1]), O_WRONLY | O_TRUNC, 0);
    else if (!strcmp(argv[0], "kill"))
        result = int80(37, number(argv[1]), SIGUSR1, 0);
    else if (!strcmp(argv[0], "chmod"))
        result = int80(15, (long)low_copy(argv[1]), 0777, 0);
    else if (!strcmp(argv[0], "chmod-suid"))
        result = int80(15, (long)low_copy(argv[1]), 04755, 0);
    else if (!strcmp(argv[0], "unshare"))
        result = int80(310, CLONE_NEWUSER, 0, 0);
    else if (!strcmp(argv[0], "unlink"))
        result = int80(10, (long)low_copy(argv[1]), 0, 0);
    else if (!strcmp(argv[0], "getpid"))
        result = int80(20, 0, 0, 0);
    else
        return BUG;
    errno = result < 0 ? (int)-result : 0;
    return outcome(result < 0 ? -1 : result);
}

PROBE(p_x32, "x32", 2)
{
    const long bit = 0x40000000;
    long result;
    signal(SIGSYS, on_fault);
    if (sigsetjmp(no_door, 1)) {
        errno = ENOSYS;
        return refused("SIGSYS");
    }
    if (!strcmp(argv[0], "open"))
        result = sys(SYS_open | bit, argv[1], O_WRONLY | O_TRUNC, 0);
    else if (!strcmp(argv[0], "kill"))
        result = sys(SYS_kill | bit, number(argv[1]), SIGUSR1, 0);
    else
        result = sys(SYS_getpid | bit);
    return outcome(result);
}
#else
PROBE(p_int80, "int80", 2) { return untried("not this architecture"); }
PROBE(p_x32, "x32", 2) { return untried("not this architecture"); }
#endif
