"""Every way out of a host without network namespaces, and what must go on working; prints what became of each."""
import os, socket, sys

port = int(sys.argv[1])
abstract = sys.argv[2]


def attempt(name, call):
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, "refused", error.errno)


def stream(family, address, protocol=0):
    kind = socket.socket(family, socket.SOCK_STREAM, protocol)
    kind.settimeout(4)
    kind.connect(address)


def fast_open():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).sendto(b"x", 0x20000000, ("127.0.0.1", port))


def datagram(family, host):
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, port))


def own(path):
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    client.connect(path)
    client.sendall(b"x")
    assert server.accept()[0].recv(1) == b"x"


def pairs():
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        one.send(b"x")
        assert other.recv(1) == b"x"


attempt("tcp", lambda: stream(socket.AF_INET, ("127.0.0.1", port)))
attempt("tcp6", lambda: stream(socket.AF_INET6, ("::1", port)))
attempt("mapped", lambda: stream(socket.AF_INET6, ("::ffff:127.0.0.1", port)))
attempt("mptcp", lambda: stream(socket.AF_INET, ("127.0.0.1", port), 262))
attempt("sctp", lambda: stream(socket.AF_INET, ("127.0.0.1", port), 132))
attempt("fast-open", fast_open)
attempt("udp", lambda: datagram(socket.AF_INET, "127.0.0.1"))
attempt("udp6", lambda: datagram(socket.AF_INET6, "::1"))
attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0" + abstract))
attempt("own-path", lambda: own(os.path.join(os.getcwd(), "own.sock")))
attempt("own-tmp", lambda: own(os.path.join(os.environ.get("TMPDIR", "/tmp"), "own.sock")))
attempt("own-abstract", lambda: own("\0own-" + abstract))
attempt("pairs", pairs)
