"""Tries the same operations in each sandbox and prints a table; see ci/try-peers.

usage: compare.py DIR
"""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DIR = sys.argv[1]
UID = 1500

# Each: name, what the command does (python, with HOME, WORK, PORT, PID in the environment; it exits 0 when it succeeded),
# what the host shows when it landed. Without the last, the command's own word counts.
OPERATIONS = [
    ("create a file in the workspace", "open(WORK + '/new', 'w').write('x')", lambda s: os.path.exists(s.work + "/new")),
    ("create a file elsewhere", "open(HOME + '/new', 'w').write('x')", lambda s: os.path.exists(s.home + "/new")),
    ("chmod a file elsewhere", "os.chmod(HOME + '/kept', 0o777)", lambda s: os.stat(s.home + "/kept").st_mode & 0o777 == 0o777),
    ("set the times of a file elsewhere", "os.utime(HOME + '/kept', (1, 1))", lambda s: os.stat(s.home + "/kept").st_mtime == 1),
    ("add a hook to the workspace's repository", "open(WORK + '/.git/hooks/pre-commit', 'w').write('x')",
     lambda s: os.path.exists(s.work + "/.git/hooks/pre-commit")),
    ("change its .git/config", "open(WORK + '/.git/config', 'a').write('x')", lambda s: os.path.getsize(s.work + "/.git/config") > 0),
    ("commit to it", "subprocess.run('git -c user.name=x -c user.email=x@y commit -qm x --allow-empty', shell=True, check=True)",
     lambda s: bool(os.listdir(s.work + "/.git/refs/heads"))),
    ("read ~/.ssh/id_ed25519", "assert open(HOME + '/.ssh/id_ed25519').read() == 'key'", None),
    ("connect to a Unix socket of the host", "socket.socket(socket.AF_UNIX).connect(HOME + '/socket')", None),
    ("connect to the host's loopback", "socket.create_connection(('127.0.0.1', PORT), 2)", None),
    ("send a datagram to the host's loopback", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
     lambda s: s.datagram()),
    ("see another process of the user", "assert b'4242' in open('/proc/%d/cmdline' % PID, 'rb').read()", None),
    ("signal another process of the user", "os.kill(PID, signal.SIGUSR1)", lambda s: s.victim.poll() is not None),
    ("leave a process behind", "subprocess.Popen(['sleep', '4243'], start_new_session=True, "
     "stdin=-3, stdout=-3, stderr=-3)", lambda s: s.left_behind()),
    ("listen on a socket of its own and connect to it", "l = socket.create_server(('127.0.0.1', 0)); "
     "socket.create_connection(l.getsockname(), 2)", None),
]

SANDLOCK = """
import sys, sandlock
work = sys.argv[1]
result = sandlock.Sandbox(fs_readable=['/'], fs_writable=[work, '/dev/null'], cwd=work).run(sys.argv[2:])
sys.exit(0 if result.success else 1)
"""


def peers(scene):
    """Each sandbox in its own words."""
    settings = scene.home + "/srt.json"
    with open(settings, "w") as file:
        file.write('{"network":{"allowedDomains":[],"deniedDomains":[]},'
                   '"filesystem":{"denyRead":[],"allowWrite":["%s"],"denyWrite":[]}}' % scene.work)
    os.chmod(settings, 0o644)
    work = scene.work
    return {
        "stockade": [DIR + "/stockade", "run", "--mode", "workspace-write", "--"],
        "bubblewrap": ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                       "--tmpfs", "/tmp", "--bind", work, work, "--chdir", work, "--"],
        "sandbox-runtime": ["node", DIR + "/node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js", "--settings", settings, "-c"],
        "codex": ["node", DIR + "/node_modules/@openai/codex/bin/codex.js", "sandbox", "-c", 'sandbox_mode="workspace-write"', "--"],
        "sandlock": [DIR + "/venv/bin/python", "-c", SANDLOCK, work],
    }


class Scene:
    """A home, a workspace with a repository, and what a host has beside them; all the user's."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="stockade-peers-scene-", dir="/var/tmp")
        self.home, self.work = self.root + "/home", self.root + "/work"
        for path in [self.home, self.work, self.home + "/.ssh"]:
            os.mkdir(path)
        subprocess.run(["git", "init", "-q", self.work], check=True)
        open(self.work + "/.git/config", "w").close()
        for name, text in [("/kept", "kept"), ("/.ssh/id_ed25519", "key")]:
            with open(self.home + name, "w") as file:
                file.write(text)
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(self.home + "/socket")
        self.unix.listen()
        os.chmod(self.home + "/socket", 0o777)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port = self.tcp.getsockname()[1]
        self.udp.bind(("127.0.0.1", self.port))
        subprocess.run(["chown", "-R", f"{UID}:{UID}", self.root], check=True)
        self.victim = subprocess.Popen(as_user(["sleep", "4242"]))
        time.sleep(0.2)

    def datagram(self):
        self.udp.settimeout(0.3)
        try:
            return bool(self.udp.recv(1))
        except TimeoutError:
            return False

    def left_behind(self):
        time.sleep(0.5)
        found = [pid for pid in os.listdir("/proc") if pid.isdigit() and cmdline(pid) == b"sleep\x004243\0"]
        for pid in found:
            os.kill(int(pid), signal.SIGKILL)
        return bool(found)

    def close(self):
        self.victim.kill()
        self.victim.wait()
        for it in [self.unix, self.tcp, self.udp]:
            it.close()
        shutil.rmtree(self.root)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def as_user(command):
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *command]


def attempt(name, operation):
    """lands, refused, or fails when the sandbox does not even run `true`."""
    _, text, landed = operation
    scene = Scene()
    try:
        environment = {"HOME": scene.home, "PATH": "/usr/local/bin:/usr/bin:/bin", "WORK": scene.work, "LANG": "C.UTF-8"}
        prefix = [] if name == "alone" else peers(scene)[name]
        preamble = (f"import os, signal, socket, subprocess; HOME, WORK, PORT, PID = "
                    f"{scene.home!r}, {scene.work!r}, {scene.port}, {scene.victim.pid}; ")
        # This one takes a command line for a shell.
        join = (lambda command: [shlex.join(command)]) if prefix[-1:] == ["-c"] else list
        run = lambda command: subprocess.run(as_user(prefix + join(command)), cwd=scene.work, env=environment, timeout=60,
                                             stdin=subprocess.DEVNULL, capture_output=True)
        first = run(["/bin/true"])
        if first.returncode != 0:
            return "does not run: " + (first.stderr + first.stdout).decode().strip()[-300:]
        done = run(["/usr/bin/python3", "-c", preamble + text])
        return "lands" if (landed(scene) if landed else done.returncode == 0) else "refused"
    finally:
        scene.close()


def main():
    """The table, a row at a time."""
    names = ["alone", "stockade", "bubblewrap", "sandbox-runtime", "codex", "sandlock"]
    print("| operation | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for operation in OPERATIONS:
        print("| " + operation[0] + " | " + " | ".join(attempt(name, operation) for name in names) + " |", flush=True)


main()
