/* Attack probes: one small program, one attack per name.
 *
 * `probe NAME ARGS...` exits 0 when the attack's effect was reached as far as this process can tell, 10 when the
 * kernel refused it (the errno's name is printed), 20 when it cannot be tried here (the reason is printed).
 * Anything else is a bug in the probe. Calls go through syscall(2) so that no library wrapper gets between. */
#ifndef PROBE_H
#define PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DONE = 0, REFUSED = 10, UNTRIED = 20, BUG = 99 };

typedef int (*probe_fn)(int argc, char **argv);

void probe_register(const char *name, int min_args, probe_fn run);
/* Runs the probe named by the second word, as `main` does. */
int probe_run(int argc, char **argv);

/* Lists a path and all below it, one line each; or only setuid programs, file capabilities and device nodes. */
void snapshot(FILE *to, const char *path, int special_only);

/* Defines a probe. Inside, argv[0] is the first argument after the name. */
#define PROBE(ident, name, min_args)                                                                                   \
    static int ident(int argc, char **argv);                                                                           \
    __attribute__((constructor)) static void ident##_register(void) { probe_register(name, min_args, ident); }         \
    static int ident(int argc __attribute__((unused)), char **argv __attribute__((unused)))

/* REFUSED with the name of errno when `result` is negative, else DONE. */
int outcome(long result);
int refused(const char *what);
int untried(const char *why);

/* Parses `wronly,creat,trunc` and the like; unknown words end the program as a bug. */
int open_flags(const char *words);
long number(const char *text);

/* Writes the attack's mark to a descriptor: DONE or REFUSED. */
int mark(int fd);

#define sys(...) syscall(__VA_ARGS__)

/* Numbers that older headers lack; the generic ones are the same on every architecture since 424. */
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

#endif
