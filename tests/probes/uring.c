/* The same attacks through io_uring, which no system call filter sees. */
#include "probe.h"
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Runs one request in a new ring; returns its result as a negative errno or a value. */
static int one_request(struct io_uring_sqe *request, const char **stage)
{
    struct io_uring_params params = {0};
    int ring = (int)sys(SYS_io_uring_setup, 4, &params);
    *stage = "io_uring_setup";
    if (ring < 0)
        return -errno;
    size_t sq_size = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
    size_t cq_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqes = mmap(NULL, params.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                                     IORING_OFF_SQES);
    *stage = "mmap of the ring";
    if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
        return -errno;
    sqes[0] = *request;
    ((uint32_t *)(sq + params.sq_off.array))[0] = 0;
    __atomic_store_n((uint32_t *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    *stage = "io_uring_enter";
    if (sys(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        return -errno;
    struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
    *stage = "request";
    return done->res;
}

static int finish(struct io_uring_sqe *request)
{
    const char *stage;
    int result = one_request(request, &stage);
    if (result >= 0)
        return DONE;
    errno = -result;
    return refused(stage);
}

PROBE(p_uring, "uring", 2)
{
    struct io_uring_sqe request = {.fd = AT_FDCWD, .addr = (uint64_t)(uintptr_t)argv[1]};
    if (!strcmp(argv[0], "trunc")) {
        request.opcode = IORING_OP_OPENAT;
        request.open_flags = O_WRONLY | O_TRUNC;
    } else if (!strcmp(argv[0], "unlink")) {
        request.opcode = IORING_OP_UNLINKAT;
    } else if (!strcmp(argv[0], "mkdir")) {
        request.opcode = IORING_OP_MKDIRAT;
        request.len = 0755;
    } else if (!strcmp(argv[0], "rename") || !strcmp(argv[0], "link")) {
        request.opcode = !strcmp(argv[0], "link") ? IORING_OP_LINKAT : IORING_OP_RENAMEAT;
        request.len = (uint32_t)AT_FDCWD;
        request.addr2 = (uint64_t)(uintptr_t)argv[2];
    } else if (!strcmp(argv[0], "symlink")) {
        request.opcode = IORING_OP_SYMLINKAT;
        request.addr = (uint64_t)(uintptr_t)argv[2];
        request.addr2 = (uint64_t)(uintptr_t)argv[1];
    } else if (!strcmp(argv[0], "setxattr")) {
        request.opcode = IORING_OP_SETXATTR;
        request.addr = (uint64_t)(uintptr_t) "user.attack";
        request.addr2 = (uint64_t)(uintptr_t) "1";
        request.addr3 = (uint64_t)(uintptr_t)argv[1];
        request.len = 1;
    } else {
        return BUG;
    }
    return finish(&request);
}

PROBE(p_uring_connect, "uring-connect", 2)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct io_uring_sqe request = {.opcode = IORING_OP_CONNECT};
    if (!strcmp(argv[0], "unix")) {
        snprintf(path.sun_path, sizeof path.sun_path, "%s", argv[1]);
        request.fd = socket(AF_UNIX, SOCK_STREAM, 0);
        request.addr = (uint64_t)(uintptr_t)&path;
        request.off = sizeof path;
    } else {
        tcp.sin_port = htons((uint16_t)number(argv[1]));
        request.fd = socket(AF_INET, SOCK_STREAM, 0);
        request.addr = (uint64_t)(uintptr_t)&tcp;
        request.off = sizeof tcp;
    }
    return request.fd < 0 ? refused("socket") : finish(&request);
}

PROBE(p_uring_socket, "uring-socket", 1)
{
    struct io_uring_sqe request = {.opcode = IORING_OP_SOCKET, .fd = (int)number(argv[0]), .off = SOCK_STREAM};
    return finish(&request);
}
