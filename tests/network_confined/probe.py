"""What the tests do with sockets, inside and outside. Prints one word a line; exits 1 when the last thing was refused."""
import base64, os, socket, struct, sys, urllib.parse


def fails(call):
    try:
        call()
    except OSError as error:
        print("refused", error.__class__.__name__, error.errno)
        sys.exit(1)
    print("reached")


def serve_and_connect(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    client = socket.socket(family)
    client.connect(server.getsockname())
    peer, _ = server.accept()
    client.sendall(b"ping")
    assert peer.recv(4) == b"ping"


def own(directory):
    """Everything a command may do with itself."""
    serve_and_connect(socket.AF_INET, ("127.0.0.1", 0))
    serve_and_connect(socket.AF_INET6, ("::1", 0))
    server = socket.create_server(("localhost", 0))
    socket.create_connection(("localhost", server.getsockname()[1])).close()
    for path in [directory + "/own.sock", "/tmp/own.sock", "\0own"]:
        serve_and_connect(socket.AF_UNIX, path)
        if path[0] != "\0":
            os.unlink(path)
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        one.send(b"x")
        assert other.recv(1) == b"x"
    print("own sockets work")


def tcp(host, port):
    fails(lambda: socket.create_connection((host, int(port)), timeout=4))


def unix(path):
    name = "\0" + path[1:] if path.startswith("@") else path
    fails(lambda: socket.socket(socket.AF_UNIX).connect(name))


def look(name):
    """One question, in a datagram of its own."""
    print(socket.gethostbyname(name))


def look_both(name):
    """Two at once, one for each kind of address."""
    print(socket.getaddrinfo(name, 80))


def dns(server, name):
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + question + struct.pack("!2H", 1, 1)
    fails(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(query, (server, 53)))


def udp(host, port):
    """A datagram that asks no name server."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    fails(lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, int(port))))


def ask(head, url=None):
    """Sends a request head to the proxy of the environment with its credentials, and prints the status."""
    proxy = urllib.parse.urlsplit(url or os.environ["HTTP_PROXY"])
    if proxy.username:
        pair = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        head += f"Proxy-Authorization: Basic {pair}\r\n"
    with socket.create_connection((proxy.hostname, proxy.port), timeout=4) as stream:
        stream.sendall((head + "\r\n").encode())
        return stream.recv(4096).split(b"\r\n")[0].split()[1].decode()


def notations(port, *hosts):
    for host in hosts:
        to = f"{host}:{port}"
        print(host, ask(f"GET http://{to}/a.txt HTTP/1.1\r\nHost: {to}\r\n"),
              ask(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n"))


def connect(to):
    print(ask(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n"))


def hosts(to, *named):
    """A request for `to` whose Host headers say other things."""
    headers = "".join(f"Host: {host}\r\n" for host in named)
    print(ask(f"GET http://{to}/a.txt HTTP/1.1\r\n{headers}"))


def through(proxy, to):
    print(ask(f"GET http://{to}/a.txt HTTP/1.1\r\nHost: {to}\r\n", proxy))


def tunnels(count, to):
    """Opens so many tunnels at once, sends something else through each, and waits with all of them open."""
    streams = []
    for at in range(int(count)):
        stream = tunnel(to)
        stream.sendall(b"%5d" % at)
        streams.append(stream)
    for at, stream in enumerate(streams):
        assert stream.recv(5, socket.MSG_WAITALL) == b"%5d" % at
    open("all-open", "w").close()
    streams[0].recv(1)


def many(count, to):
    """Opens so many tunnels at once and says how many there are."""
    print(len([tunnel(to) for _ in range(int(count))]))


def tunnel(to):
    proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
    pair = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    stream = socket.create_connection((proxy.hostname, proxy.port))
    stream.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nProxy-Authorization: Basic {pair}\r\n\r\n".encode())
    assert b" 200 " in stream.recv(4096)
    return stream


def raw(request):
    """Bytes as they are but for TOKEN, which is the header with the credentials; prints the status of each answer."""
    proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
    pair = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    data = request.encode("latin-1").decode("unicode_escape").replace("TOKEN", f"Proxy-Authorization: Basic {pair}")
    with socket.create_connection((proxy.hostname, proxy.port), timeout=4) as stream:
        stream.sendall(data.encode("latin-1"))
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    print(" ".join(line.split()[1].decode() for line in answer.split(b"\n") if line.startswith(b"HTTP/1.1 ")))


def hold(to):
    """Opens a tunnel, sends a byte through it and waits."""
    stream = tunnel(to)
    stream.sendall(b"x")
    stream.recv(1)


def stdin(port):
    """Aims the socket on descriptor 0 at the host's loopback, having disconnected it."""
    given = socket.socket(fileno=0)
    import ctypes
    nothing = ctypes.create_string_buffer(16)
    ctypes.CDLL(None).connect(0, nothing, 16)
    fails(lambda: given.connect(("127.0.0.1", int(port))))


globals()[sys.argv[1]](*sys.argv[2:])
