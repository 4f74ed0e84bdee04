/* System V and POSIX objects that belong to a process of the host. */
#include "probe.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

PROBE(p_shm, "sysv-shm", 2)
{
    int id = (int)sys(SYS_shmget, (key_t)number(argv[0]), 0L, 0);
    if (id < 0)
        return refused("shmget");
    if (!strcmp(argv[1], "remove"))
        return outcome(sys(SYS_shmctl, id, IPC_RMID, NULL));
    char *at = (char *)sys(SYS_shmat, id, NULL, 0);
    if (at == (char *)-1)
        return refused("shmat");
    puts(at);
    if (!strcmp(argv[1], "write"))
        strcpy(at, "ATTACKED");
    return DONE;
}

PROBE(p_sem, "sysv-sem", 1)
{
    struct sembuf up = {0, 5, IPC_NOWAIT};
    int id = (int)sys(SYS_semget, (key_t)number(argv[0]), 0, 0);
    if (id < 0)
        return refused("semget");
    if (argv[1] && !strcmp(argv[1], "timed"))
        return outcome(sys(SYS_semtimedop, id, &up, 1L, NULL));
    if (argv[1] && !strcmp(argv[1], "remove"))
        return outcome(sys(SYS_semctl, id, 0, IPC_RMID));
    return outcome(sys(SYS_semop, id, &up, 1L));
}

PROBE(p_msg, "sysv-msg", 1)
{
    struct {
        long type;
        char text[8];
    } message = {1, "ATTACK"};
    int id = (int)sys(SYS_msgget, (key_t)number(argv[0]), 0);
    if (id < 0)
        return refused("msgget");
    if (argv[1] && !strcmp(argv[1], "remove"))
        return outcome(sys(SYS_msgctl, id, IPC_RMID, NULL));
    if (argv[1] && !strcmp(argv[1], "receive")) /* nothing is sent to the victim: that there is no message says enough */
        return sys(SYS_msgrcv, id, &message, 8L, 0L, IPC_NOWAIT) < 0 && errno != ENOMSG ? refused("msgrcv") : DONE;
    return outcome(sys(SYS_msgsnd, id, &message, 8L, IPC_NOWAIT));
}

PROBE(p_mq, "posix-mq", 2)
{
    if (!strcmp(argv[1], "unlink"))
        return outcome(sys(SYS_mq_unlink, argv[0] + 1));
    mqd_t queue = mq_open(argv[0], O_WRONLY | O_NONBLOCK);
    return queue < 0 ? refused("mq_open") : outcome(mq_send(queue, "ATTACKED", 8, 0));
}

PROBE(p_shm_open, "posix-shm", 1)
{
    int fd = shm_open(argv[0], O_RDWR, 0);
    if (fd < 0)
        return refused("shm_open");
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return refused("mmap");
    puts(at);
    strcpy(at, "ATTACKED");
    return DONE;
}

PROBE(p_sysv_own, "sysv-own", 0)
{
    int id = (int)sys(SYS_shmget, IPC_PRIVATE, 4096L, IPC_CREAT | 0600);
    return id < 0 ? refused("shmget") : outcome(sys(SYS_shmctl, id, IPC_RMID, NULL));
}
