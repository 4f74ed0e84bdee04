/* A bystander of the host: a process with secrets, services and System V objects, that tells what befell it.
 *
 * `probe victim TOKEN DIRECTORY KEY` reads the secret from $STOCKADE_CANARY, prints `name=value` lines and `ready`,
 * then prints `event ...` for every signal and contact. `state` on its standard input makes it print its condition
 * between `state` and `end`. End of file on standard input ends it, and it removes what it made. */
#include "probe.h"
#include <arpa/inet.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

static char secret[4096] __attribute__((aligned(4096)));

struct service {
    int fd, stream, rights;
    const char *name;
};
static struct service services[16];
static int service_count;

static int listen_on(const char *name, int type, const void *address, socklen_t length, int protocol)
{
    int fd = socket(((const struct sockaddr *)address)->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0 || bind(fd, address, length) || (type != SOCK_DGRAM && listen(fd, 64))) {
        printf("%s=0\n", name);
        if (fd >= 0)
            close(fd);
        return 0;
    }
    services[service_count++] = (struct service){fd, type != SOCK_DGRAM, 0, name};
    struct sockaddr_in6 got;
    socklen_t size = sizeof got;
    if (getsockname(fd, (struct sockaddr *)&got, &size) == 0 &&
        (got.sin6_family == AF_INET || got.sin6_family == AF_INET6))
        printf("%s=%d\n", name, ntohs(got.sin6_port));
    return fd;
}

static void unix_service(const char *name, const char *path, int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        at.sun_path[0] = 0;
    else
        length++;
    listen_on(name, type, &at, length, 0);
}

static void send_rights(int to, int fd)
{
    char byte = 'r', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    (void)!sendmsg(to, &message, MSG_NOSIGNAL);
}

static void contact(struct service *service, int rights_fd)
{
    char text[64] = "";
    if (!service->stream) {
        while (recv(service->fd, text, sizeof text - 1, MSG_DONTWAIT) >= 0)
            printf("event datagram %s\n", service->name);
        return;
    }
    int peer;
    while ((peer = accept4(service->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        printf("event contact %s\n", service->name);
        if (service->rights)
            send_rights(peer, rights_fd);
        close(peer);
    }
}

struct objects {
    int shm, sem, msg;
    char *shared, *posix;
    mqd_t queue;
    long key;
};

static void print_state(const struct objects *objects)
{
    struct rlimit limit;
    struct msqid_ds msg;
    struct mq_attr queue;
    struct shmid_ds shm;
    cpu_set_t cpus;
    char text[128] = "";
    puts("state");
    printf("memory %s\n", secret);
    printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
    printf("scheduler %d\n", sched_getscheduler(0));
    printf("ioprio %ld\n", sys(SYS_ioprio_get, 1, 0));
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        printf("cpus %d\n", CPU_COUNT(&cpus));
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        printf("files %lu %lu\n", limit.rlim_cur, limit.rlim_max);
    if (getrlimit(RLIMIT_CORE, &limit) == 0)
        printf("core %lu %lu\n", limit.rlim_cur, limit.rlim_max);
    printf("group %d\n", getpgrp());
    for (const char *const *name = (const char *const[]){"oom_score_adj", "timerslack_ns", "comm", "coredump_filter",
                                                          "autogroup", NULL};
         *name; name++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/%s", *name);
        FILE *file = fopen(path, "r");
        if (file) {
            if (fgets(text, sizeof text, file))
                printf("%s %s\n", *name, strtok(text, "\n"));
            fclose(file);
        }
    }
    printf("shm %s\n", objects->shared);
    if (shmctl(objects->shm, IPC_STAT, &shm) == 0)
        printf("shm-mode %o attached %lu\n", shm.shm_perm.mode, (unsigned long)shm.shm_nattch);
    printf("sem %d\n", semctl(objects->sem, 0, GETVAL));
    if (msgctl(objects->msg, IPC_STAT, &msg) == 0)
        printf("messages %lu\n", (unsigned long)msg.msg_qnum);
    if (mq_getattr(objects->queue, &queue) == 0)
        printf("queue %ld\n", queue.mq_curmsgs);
    printf("posix %s\n", objects->posix);
    memset(text, 0, sizeof text);
    if (sys(SYS_keyctl, KEYCTL_READ, objects->key, text, sizeof text - 1) >= 0)
        printf("key %s\n", text);
    puts("end");
    fflush(stdout);
}

static void make_objects(struct objects *objects, const char *token, key_t key)
{
    char name[128];
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 16};
    objects->shm = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
    objects->shared = shmat(objects->shm, NULL, 0);
    if (objects->shared == (char *)-1)
        exit(BUG);
    strcpy(objects->shared, secret);
    objects->sem = semget(key, 1, IPC_CREAT | IPC_EXCL | 0600);
    objects->msg = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
    snprintf(name, sizeof name, "/%s", token);
    objects->queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attr);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, 4096))
        exit(BUG);
    objects->posix = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (objects->posix == MAP_FAILED)
        exit(BUG);
    strcpy(objects->posix, secret);
    close(fd);
    snprintf(name, sizeof name, "stockade:%s", token);
    sys(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    objects->key = sys(SYS_add_key, "user", name, secret, strlen(secret), KEY_SPEC_SESSION_KEYRING);
    sys(SYS_keyctl, KEYCTL_SETPERM, objects->key, 0x3f3f0000L);
}

static void remove_objects(const struct objects *objects, const char *token)
{
    char name[128];
    snprintf(name, sizeof name, "/%s", token);
    shmctl(objects->shm, IPC_RMID, NULL);
    semctl(objects->sem, 0, IPC_RMID);
    msgctl(objects->msg, IPC_RMID, NULL);
    mq_unlink(name);
    shm_unlink(name);
}

PROBE(p_victim, "victim", 3)
{
    char path[256];
    sigset_t all;
    struct objects objects;
    const char *token = argv[0], *directory = argv[1], *canary = getenv("STOCKADE_CANARY");
    snprintf(secret, sizeof secret, "%s", canary ? canary : "");
    setpgid(0, 0);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    make_objects(&objects, token, (key_t)number(argv[2]));

    snprintf(path, sizeof path, "%s/held", directory);
    int held = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    (void)!write(held, secret, strlen(secret));
    unlink(path);
    snprintf(path, sizeof path, "%s/rights", directory);
    int rights = open(path, O_RDWR | O_APPEND);
    if (signals < 0 || held < 0 || rights < 0)
        return BUG;

    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int one = 3, tcp = listen_on("tcp", SOCK_STREAM, &four, sizeof four, 0);
    setsockopt(tcp, IPPROTO_TCP, 23, &one, sizeof one); /* TCP_FASTOPEN */
    listen_on("tcp6", SOCK_STREAM, &six, sizeof six, 0);
    listen_on("udp", SOCK_DGRAM, &four, sizeof four, 0);
    listen_on("udp6", SOCK_DGRAM, &six, sizeof six, 0);
    listen_on("mptcp", SOCK_STREAM, &four, sizeof four, 262);
    listen_on("udplite", SOCK_DGRAM, &four, sizeof four, 136);
    snprintf(path, sizeof path, "%s/stream.sock", directory);
    unix_service("stream.sock", path, SOCK_STREAM);
    services[service_count - 1].rights = 1;
    snprintf(path, sizeof path, "%s/dgram.sock", directory);
    unix_service("dgram.sock", path, SOCK_DGRAM);
    snprintf(path, sizeof path, "%s/seq.sock", directory);
    unix_service("seq.sock", path, SOCK_SEQPACKET);
    snprintf(path, sizeof path, "@%s-stream", token);
    unix_service("abstract-stream", path, SOCK_STREAM);
    snprintf(path, sizeof path, "@%s-dgram", token);
    unix_service("abstract-dgram", path, SOCK_DGRAM);

    printf("pid=%d\naddr=%#lx\nheld=%d\nkey=%ld\nready\n", getpid(), (unsigned long)secret, held, objects.key);
    fflush(stdout);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd ready[20] = {{0, POLLIN, 0}, {signals, POLLIN, 0}};
        for (int i = 0; i < service_count; i++)
            ready[2 + i] = (struct pollfd){services[i].fd, POLLIN, 0};
        if (poll(ready, (nfds_t)(2 + service_count), -1) < 0)
            continue;
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == sizeof info)
            if (info.ssi_signo != SIGCONT)
                printf("event signal %u\n", info.ssi_signo);
        for (int i = 0; i < service_count; i++)
            if (ready[2 + i].revents)
                contact(&services[i], rights);
        if (ready[0].revents) {
            char text[16];
            if (read(0, text, sizeof text) <= 0)
                break;
            print_state(&objects);
        }
    }
    remove_objects(&objects, token);
    return DONE;
}

/* Removes what a bystander that was killed could not remove. */
PROBE(p_victim_cleanup, "victim-cleanup", 2)
{
    key_t key = (key_t)number(argv[1]);
    struct objects left = {shmget(key, 0, 0), semget(key, 0, 0), msgget(key, 0), NULL, NULL, -1, 0};
    remove_objects(&left, argv[0]);
    return DONE;
}
