//! Python and node, with what their libraries ask of the kernel.

use crate::worker::{Left, Worker};

fn python(program: &str, left: &[Left]) {
    for worker in Worker::all() {
        std::fs::write(worker.root().join("program.py"), program).unwrap();
        worker.works("python3 ../program.py >said", left);
    }
}

#[test]
fn processes_and_shared_memory() {
    python(
        r#"
import multiprocessing as m
from multiprocessing import shared_memory

def double(x):
    return 2 * x

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = m.get_context(method)
        with context.Pool(3) as pool:
            assert pool.map(double, range(9)) == [2 * x for x in range(9)]
    queue = m.Queue()
    process = m.Process(target=queue.put, args=(5,))
    process.start()
    assert queue.get() == 5
    process.join()
    with m.Manager() as manager:
        shared = manager.dict()
        shared["a"] = 1
        assert shared["a"] == 1
    first = shared_memory.SharedMemory(create=True, size=1 << 20)
    second = shared_memory.SharedMemory(name=first.name)
    second.buf[0] = 7
    assert first.buf[0] == 7
    second.close()
    first.close()
    first.unlink()
    print("done")
"#,
        &[Left::Text("said", "done\n")],
    );
}

#[test]
fn a_terminal_of_its_own() {
    python(
        r#"
import os, pty
controller, terminal = pty.openpty()
assert os.isatty(terminal) and os.ttyname(terminal).startswith("/dev/pts/")
pid, fd = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "-c", "test -t 0 && tty && echo typed >/dev/tty"])
text = b""
try:
    while chunk := os.read(fd, 1000):
        text += chunk
except OSError:
    pass
assert b"typed" in text and b"/dev/pts/" in text, text
assert os.waitpid(pid, 0)[1] == 0
print("done")
"#,
        &[Left::Text("said", "done\n")],
    );
}

#[test]
fn a_server_on_the_loopback() {
    python(
        r#"
import http.server, socket, threading, urllib.request

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://localhost:{server.server_port}/said"
with urllib.request.urlopen(url) as answer, open("fetched", "w") as file:
    file.write(str(answer.status))
server.shutdown()
six = socket.create_server(("::1", 0), family=socket.AF_INET6)
socket.create_connection(six.getsockname()[:2]).close()
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagram.bind(("127.0.0.1", 0))
datagram.sendto(b"x", datagram.getsockname())
assert datagram.recv(10) == b"x"
unix = socket.socket(socket.AF_UNIX)
unix.bind("socket")
unix.listen()
socket.socket(socket.AF_UNIX).connect("socket")
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0name")
abstract.listen()
socket.socket(socket.AF_UNIX).connect("\0name")
"#,
        &[Left::Text("fetched", "200"), Left::Text("said", "")],
    );
}

#[test]
fn a_virtual_environment() {
    for worker in Worker::all() {
        worker.works(
            "python3 -m venv env; env/bin/python -c 'import sys; open(\"prefix\", \"w\").write(sys.prefix[-4:])'
             env/bin/pip --version >pip; . env/bin/activate; python -m compileall -q env/lib >/dev/null",
            &[Left::Text("prefix", "/env"), Left::Bytes("pip", 10), Left::Bytes("env/pyvenv.cfg", 10)],
        );
    }
}

#[test]
fn a_database() {
    python(
        r#"
import sqlite3
for mode in ("delete", "wal"):
    base = sqlite3.connect("base-" + mode)
    base.execute("pragma journal_mode=" + mode)
    base.execute("create table t(a)")
    base.executemany("insert into t values (?)", [(i,) for i in range(2000)])
    base.commit()
    base.execute("vacuum")
    assert base.execute("select count(*) from t").fetchone() == (2000,)
    base.close()
"#,
        &[Left::Bytes("base-delete", 4096), Left::Bytes("base-wal", 4096), Left::Nothing("base-wal-wal")],
    );
}

#[test]
fn npm_scripts() {
    for worker in Worker::all() {
        // Looking for a newer npm is what costs a minute where there is no network, inside as outside.
        worker.works(
            "export npm_config_update_notifier=false npm_config_cache=$PWD/cache
             npm init -y >/dev/null; npm pkg set scripts.build='node build.js' scripts.prebuild='echo first >before'
             echo 'require(\"fs\").writeFileSync(\"built\", \"yes\")' >build.js
             npm run --silent build; npm pack --silent >packed; tar tzf $(cat packed) >list",
            &[
                Left::Text("built", "yes"),
                Left::Text("before", "first\n"),
                Left::Bytes("package.json", 50),
                Left::Bytes("list", 10),
            ],
        );
    }
}

#[test]
fn a_node_server_workers_and_children() {
    for worker in Worker::all() {
        let program = r#"
const http = require("http"), fs = require("fs"), { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
fs.writeFileSync("child", execFileSync("echo", ["child"]));
new Worker('require("fs").writeFileSync("thread", "ran")', { eval: true }).on("exit", () => {
  const server = http.createServer((_, response) => response.end("served"));
  server.listen(0, "127.0.0.1", () =>
    http.get({ host: "127.0.0.1", port: server.address().port }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => { fs.writeFileSync("answer", text); server.close(); });
    }));
});
"#;
        std::fs::write(worker.root().join("program.js"), program).unwrap();
        worker.works(
            "node ../program.js",
            &[Left::Text("answer", "served"), Left::Text("thread", "ran"), Left::Text("child", "child\n")],
        );
    }
}
