/* Sockets of every family, towards services of the host. */
#include "probe.h"
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/ioctl.h>

static socklen_t unix_name(struct sockaddr_un *name, const char *text)
{
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    snprintf(name->sun_path, sizeof name->sun_path, "%s", text);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
    if (text[0] == '@')
        name->sun_path[0] = 0;
    else
        length++;
    return length;
}

static int kind_of(const char *word)
{
    return !strcmp(word, "dgram") ? SOCK_DGRAM : !strcmp(word, "seqpacket") ? SOCK_SEQPACKET : SOCK_STREAM;
}

/* A path, or an abstract name written with @. */
PROBE(p_unix, "unix-connect", 2)
{
    struct sockaddr_un name;
    socklen_t length = unix_name(&name, argv[0]);
    int fd = socket(AF_UNIX, kind_of(argv[1]), 0);
    if (fd < 0)
        return refused("socket");
    if (sys(SYS_connect, fd, &name, length))
        return refused("connect");
    return mark(fd);
}

PROBE(p_unix_sendto, "unix-sendto", 1)
{
    struct sockaddr_un name;
    socklen_t length = unix_name(&name, argv[0]);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return fd < 0 ? refused("socket") : outcome(sys(SYS_sendto, fd, "ATTACKED", 8L, 0, &name, length));
}

/* Half of a socketpair, turned towards somebody else. */
PROBE(p_reaim, "socketpair-reaim", 2)
{
    struct sockaddr_un name;
    socklen_t length = unix_name(&name, argv[0]);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends))
        return refused("socketpair");
    if (!strcmp(argv[1], "connect")) {
        if (sys(SYS_connect, ends[0], &name, length))
            return refused("connect");
        return mark(ends[0]);
    }
    if (!strcmp(argv[1], "sendto"))
        return outcome(sys(SYS_sendto, ends[0], "ATTACKED", 8L, 0, &name, length));
    struct iovec piece = {"ATTACKED", 8};
    struct msghdr message = {.msg_name = &name, .msg_namelen = length, .msg_iov = &piece, .msg_iovlen = 1};
    if (!strcmp(argv[1], "sendmsg"))
        return outcome(sys(SYS_sendmsg, ends[0], &message, 0));
    struct mmsghdr many = {.msg_hdr = message};
    return outcome(sys(SYS_sendmmsg, ends[0], &many, 1, 0));
}

/* The service of the host hands out a descriptor; it is written to. */
PROBE(p_rights, "scm-rights", 1)
{
    struct sockaddr_un name;
    socklen_t length = unix_name(&name, argv[0]);
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int got, fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return refused("socket");
    if (connect(fd, (struct sockaddr *)&name, length))
        return refused("connect");
    struct pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, 3000) <= 0 || recvmsg(fd, &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
        return refused("nothing received");
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    return mark(got);
}

static int inet_target(struct sockaddr_storage *at, int family, const char *port, socklen_t *length)
{
    memset(at, 0, sizeof *at);
    if (family == AF_INET6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)at;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)number(port));
        six->sin6_addr = in6addr_loopback;
        *length = sizeof *six;
    } else {
        struct sockaddr_in *four = (struct sockaddr_in *)at;
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)number(port));
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *length = sizeof *four;
    }
    return 0;
}

/* tcp, tcp6, mapped, mptcp, fastopen, fastopen-connect, udp, udp6, udp-sendto, udp-sendmmsg, sctp, udplite */
PROBE(p_inet, "inet", 2)
{
    const char *how = argv[0];
    struct sockaddr_storage at;
    socklen_t length;
    int six = strstr(how, "6") != NULL, udp = !strncmp(how, "udp", 3), one = 1;
    inet_target(&at, six ? AF_INET6 : AF_INET, argv[1], &length);
    if (!strcmp(how, "mapped")) {
        struct sockaddr_in6 *target = (struct sockaddr_in6 *)&at;
        inet_target(&at, AF_INET6, argv[1], &length);
        if (inet_pton(AF_INET6, "::ffff:127.0.0.1", &target->sin6_addr) != 1)
            return BUG;
        six = 1;
    }
    int protocol = !strcmp(how, "mptcp") ? 262 : !strcmp(how, "sctp") ? IPPROTO_SCTP : !strcmp(how, "udplite") ? 136 : 0;
    int fd = socket(six ? AF_INET6 : AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, protocol);
    if (fd < 0)
        return errno == EPROTONOSUPPORT ? untried("no such protocol in this kernel") : refused("socket");
    if (!strcmp(how, "fastopen")) {
        if (sys(SYS_sendto, fd, "ATTACKED", 8L, MSG_FASTOPEN, &at, length) < 0)
            return refused("sendto");
        return DONE;
    }
    if (!strcmp(how, "fastopen-connect") && setsockopt(fd, IPPROTO_TCP, 30, &one, sizeof one))
        return refused("TCP_FASTOPEN_CONNECT");
    if (strstr(how, "sendto"))
        return outcome(sys(SYS_sendto, fd, "ATTACKED", 8L, 0, &at, length));
    if (strstr(how, "sendmmsg")) {
        struct iovec piece = {"ATTACKED", 8};
        struct mmsghdr many = {
            .msg_hdr = {.msg_name = &at, .msg_namelen = length, .msg_iov = &piece, .msg_iovlen = 1}};
        return outcome(sys(SYS_sendmmsg, fd, &many, 1, 0));
    }
    if (sys(SYS_connect, fd, &at, length))
        return refused("connect");
    return mark(fd);
}

/* Only the making of a socket: family, type, protocol. */
PROBE(p_socket, "socket", 3)
{
    int fd = (int)sys(SYS_socket, (int)number(argv[0]), (int)number(argv[1]), (int)number(argv[2]));
    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
        return refused("socket");
    return outcome(fd);
}

/* The same, with bits above the 32 that the kernel reads. */
PROBE(p_socket_high, "socket-high", 3)
{
    return outcome(sys(SYS_socket, number(argv[0]) | (1L << 33), number(argv[1]) | (1L << 33), number(argv[2])));
}

PROBE(p_vsock, "vsock", 0)
{
    struct sockaddr_vm at = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = VMADDR_PORT_ANY};
    int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
    if (fd < 0)
        return refused("socket");
    return outcome(bind(fd, (struct sockaddr *)&at, sizeof at));
}

/* Sets the loopback up by rtnetlink: the caller runs this in a network namespace of its own. */
PROBE(p_setlink, "netlink-setlink", 0)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } request = {{sizeof request, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0},
                 {.ifi_index = 1, .ifi_flags = 1, .ifi_change = 1}};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (fd < 0)
        return refused("socket");
    if (send(fd, &request, sizeof request, 0) < 0)
        return refused("send");
    if (recv(fd, &answer, sizeof answer, 0) < 0)
        return refused("recv");
    errno = -answer.error.error;
    return errno ? refused("answer") : DONE;
}

PROBE(p_uevent, "netlink-bind", 2)
{
    struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = (uint32_t)number(argv[1])};
    int fd = socket(AF_NETLINK, SOCK_RAW, (int)number(argv[0]));
    if (fd < 0)
        return refused("socket");
    return outcome(bind(fd, (struct sockaddr *)&at, sizeof at));
}

/* Listening without a bind takes a port nobody named. Reports the port so that the outside can try it. */
PROBE(p_listen, "serve", 2)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, !strcmp(argv[0], "mptcp") ? 262 : 0);
    if (fd < 0)
        return refused("socket");
    if (strcmp(argv[0], "unbound")) {
        at.sin_port = htons((uint16_t)number(argv[1]));
        if (bind(fd, (struct sockaddr *)&at, sizeof at))
            return refused("bind");
    }
    if (listen(fd, 1))
        return refused("listen");
    return outcome(getsockname(fd, (struct sockaddr *)&at, &length));
}

/* Interfaces beside the loopback are ways out. */
PROBE(p_interfaces, "interfaces", 0)
{
    struct ifconf {
        int length;
        char *buffer;
    } config;
    static char buffer[8192];
    config.length = sizeof buffer, config.buffer = buffer;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        return refused("socket");
    if (ioctl(fd, 0x8912, &config)) /* SIOCGIFCONF */
        return refused("ioctl");
    for (int at = 0; at < config.length; at += 40)
        if (strcmp(buffer + at, "lo"))
            return printf("interface %s\n", buffer + at), DONE;
    errno = ENODEV;
    return refused("loopback only");
}
