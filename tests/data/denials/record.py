#!/usr/bin/env python3
"""Records what real tools print when a sandbox refuses them, as cases for tests/denial_text.rs.

Run as root in a mount and network namespace of its own. Mounts and files stay in there; anything else root can
change (clock, host name, kernel settings, other processes) does not, so no command in the lists may do that:

    unshare -m -n python3 record.py erofs > erofs.toml      every path read-only, as the mount backend answers
    unshare -m -n python3 record.py eacces > eacces.toml    directories of another owner, as Landlock answers
    unshare -m -n python3 record.py network > network.toml  a private network with only its loopback

The right answers below were written by hand; `{}` stands for the project directory. A command whose tool is not
installed is left out, so a new recording may hold fewer cases: compare before replacing.
"""
import json, os, shutil, subprocess, sys

P = "/home/dev/project"

def fs(kind, path, blocking=True):
    return {"kind": "fs." + kind, "path": path if path.startswith("/") else f"{P}/{path}", "blocking": blocking}

# command, expected denials. A `*` in a path stands for a random part.
FILES = [
    ("touch new", [fs("create", "new")]),
    ("touch f", [fs("write", "f")]),
    ("mkdir nd", [fs("create", "nd")]),
    ("mkdir -p a/b", [fs("create", "a")]),
    ("rm f", [fs("remove", "f")]),
    ("rm -rf d", [fs("remove", "d/g")]),
    ("rmdir e", [fs("remove", "e")]),
    ("mv f g", [fs("rename", "f")]),
    ("cp f g", [fs("create", "g")]),
    ("cp f d/new", [fs("create", "d/new")]),
    ("cp /etc/hostname f", [fs("write", "f")]),
    ("ln -s f l", [fs("create", "l")]),
    ("ln f l", [fs("create", "l")]),
    ("sed -i s/a/b/ f", [fs("create", "sed*")]),
    ("echo x | tee new", [fs("create", "new")]),
    ("echo x | tee f", [fs("write", "f")]),
    ("echo x | tee new | head -1", [fs("create", "new")]),
    ("dd if=/dev/zero of=new count=1", [fs("create", "new")]),
    ("truncate -s 0 f", [fs("truncate", "f")]),
    ("install f g", [fs("create", "g")]),
    ("mktemp -p .", [fs("create", "tmp.*")]),
    ("mkfifo p", [fs("create", "p")]),
    ("split f", [fs("create", "xaa")]),
    ("sort -o f f", [fs("write", "f")]),
    ("shred f", [fs("write", "f")]),
    ("find . -name g -delete", [fs("remove", "d/g")]),
    ("find . -name g -exec rm {} \\;", [fs("remove", "d/g")]),
    ("unlink f", [fs("remove", "f")]),
    ("echo x > new", [fs("create", "new")]),
    ("echo x >> f", [fs("write", "f")]),
    ("echo x > 'a b'", [fs("create", "a b")]),
    ("touch \"it's\"", [fs("create", "it's")]),
    ("touch 'a\nb'", [fs("create", "a\nb")]),
    ("dash -c 'echo x > new'", [fs("create", "new")]),
    ("dash -c 'echo x > f'", [fs("write", "f")]),
    ("cd d && touch n", [fs("create", "d/n")]),
    ("(cd d && echo x > g)", [fs("write", "d/g")]),
    ("cd /home/dev/project/d; rm g", [fs("remove", "d/g")]),
    ("touch a1 a2 a3", [fs("create", "a1"), fs("create", "a2"), fs("create", "a3")]),
    ("touch new; true", [fs("create", "new")]),
    ("touch new 2>&1 | cat", [fs("create", "new")]),
    ("touch new 2>/dev/null || true", []),
    ("tar cf n.tar f", [fs("create", "n.tar")]),
    ("tar xf /home/dev/t.tar -C e", [fs("create", "e/f"), fs("create", "e/d")]),
    ("gzip -k f", [fs("create", "f.gz")]),
    ("bzip2 -k f", [fs("create", "f.bz2")]),
    ("xz -k f", [fs("create", "f.xz")]),
    ("python3 -c 'open(\"new\",\"w\")'", [fs("create", "new")]),
    ("python3 -c 'open(\"f\",\"a\")'", [fs("write", "f")]),
    ("python3 -c 'import os; os.mkdir(\"nd\")'", [fs("create", "nd")]),
    ("python3 -c 'import os; os.rename(\"f\",\"g\")'", [fs("rename", "f")]),
    ("python3 -c 'import os; os.remove(\"f\")'", [fs("remove", "f")]),
    ("python3 -c 'import os; os.symlink(\"f\",\"l\")'", [fs("create", "l")]),
    ("python3 -c 'import pathlib; pathlib.Path(\"n\").write_text(\"a\")'", [fs("create", "n")]),
    ("python3 -c 'import shutil; shutil.copy(\"f\",\"g\")'", [fs("create", "g")]),
    ("python3 w.py", [fs("create", "out/new")]),
    ("python3 -m venv v", [fs("create", "v")]),
    ("python3 -c 'import sqlite3; sqlite3.connect(\"db.sqlite\").execute(\"insert into t values(1)\")'", [fs("write", "db.sqlite")]),
    ("sqlite3 db.sqlite 'insert into t values(1)'", [fs("write", "db.sqlite")]),
    ("sqlite3 n.db 'create table t(a)'", [fs("create", "n.db")]),
    ("node -e 'fs.writeFileSync(\"new\",\"x\")'", [fs("create", "new")]),
    ("node -e 'fs.appendFileSync(\"f\",\"x\")'", [fs("write", "f")]),
    ("node -e 'fs.mkdirSync(\"nd\")'", [fs("create", "nd")]),
    ("node -e 'fs.renameSync(\"f\",\"g\")'", [fs("rename", "f")]),
    ("node -e 'fs.unlinkSync(\"f\")'", [fs("remove", "f")]),
    ("node -e 'fs.copyFileSync(\"f\",\"g\")'", [fs("create", "g")]),
    ("node -e 'fs.symlinkSync(\"d\",\"l\")'", [fs("create", "l")]),
    ("node -e 'fs.promises.writeFile(\"n\",\"x\")'", [fs("create", "n")]),
    ("node -e 'fs.createWriteStream(\"n\")'", [fs("create", "n")]),
    ("npm init -y", [fs("write", "package.json")]),
    ("git init r2", [fs("create", "r2")]),
    ("cd repo && git add Makefile", [fs("create", "repo/.git/index.lock")]),
    ("cd repo && git commit -am x", [fs("create", "repo/.git/index.lock")]),
    ("git -C repo config a.b c", [fs("create", "repo/.git/config.lock")]),
    ("cd repo && git checkout -b x", [fs("create", "repo/.git/refs/heads/x.lock")]),
    ("cd repo && git tag t", [fs("create", "repo/.git/refs/tags/t.lock")]),
    ("git -C repo checkout nosuchbranch", [fs("create", "repo/.git/index.lock")]),
    ("cd repo && git status", []),
    ("cd repo && git log --oneline", []),
    ("git clone repo r3", [fs("create", "r3")]),
    ("cd repo && git fetch ../repo", [fs("create", "repo/.git/FETCH_HEAD")]),
    ("cd repo && git clean -fdx", [fs("remove", "repo/Makefile"), fs("remove", "repo/junk")]),
    ("gcc -o a a.c", [fs("create", "a")]),
    ("gcc -c a.c", [fs("create", "a.o")]),
    ("gcc -S a.c", [fs("create", "a.s")]),
    ("ar rc l.a f", [fs("create", "l.a")]),
    ("make -C repo", [fs("create", "repo/out")]),
    ("javac A.java", [fs("create", "A.class")]),
    ("java A.java", [fs("create", "x.out")]),
    ("perl -e 'open(F,\">new\") or die \"cannot open new: $!\"'", [fs("create", "new")]),
    ("curl -o new file:///etc/hostname", [fs("create", "new")]),
    ("cargo new foo", [fs("create", "foo")]),
    ("rustc --crate-type lib -o l.rlib /home/dev/l.rs", [fs("create", "rmeta*")]),
    ("awk 'BEGIN{print 1 > \"new\"}'", [fs("create", "new")]),
    ("ssh-keygen -q -N '' -f key", [fs("create", "key")]),
    ("openssl genrsa -out key.pem 512", [fs("create", "key.pem")]),
    ("script -c true ts", [fs("create", "ts")]),
    ("flock lk true", [fs("create", "lk")]),
    ("patch f < /home/dev/p.diff", [fs("create", "f.*")]),
]
READ_ONLY_ONLY = [
    ("chmod 600 f", [fs("metadata", "f")]),
    ("chown 0 f", [fs("metadata", "f")]),
    ("chgrp 5 f", [fs("metadata", "f")]),
    ("touch -c f", [fs("metadata", "f")]),
    ("setfattr -n user.a -v b f", [fs("metadata", "f")]),
    ("setfacl -m u:1:r f", [fs("metadata", "f")]),
    ("python3 -c 'import os; os.chmod(\"f\",0)'", [fs("metadata", "f")]),
    ("node -e 'fs.chmodSync(\"f\",0)'", [fs("metadata", "f")]),
    ("mv /home/dev/loose .", [fs("rename", "/home/dev/loose")]),
    ("unzip -o /home/dev/z.zip", [fs("create", "z")]),
]
# Ordinary failures that a keyword search takes for refusals.
ORDINARY = [
    "cat missing", "ls /nosuch", "cd /nosuch", "touch /nosuch/x", "mkdir /nosuch/a/b", "rm missing", "cp missing x 2>&1 | cat",
    "./noexec.sh", "bash nosuch.sh", "cat /etc/hostname/x", "mkdir d", "cat /root/secret", "ls /root", "cat /etc/shadow",
    "python3 -c 'open(\"missing\")'", "python3 -c 'open(\"/etc/shadow\")'", "python3 -c 'import os; os.listdir(\"/root\")'",
    "python3 -c 'raise PermissionError(\"no\")'", "python3 -c 'import sys; sys.exit(\"Permission denied\")'",
    "node -e 'fs.readFileSync(\"/etc/shadow\")'", "node -e 'throw new Error(\"EACCES\")'", "node -e 'fs.readFileSync(\"missing\")'",
    "find /root -name x", "grep -r x /root", "echo 'Permission denied' >&2; exit 1", "echo 'Read-only file system' >&2; exit 1",
    "echo \"touch: cannot touch '/etc/x': Read-only file system\" >&2; exit 1", "cat old.log >&2; exit 1", "cat old.log; exit 1",
    "grep denied old.log", "grep -c denied old.log >&2; exit 1", "git -C /nosuch status", "git -C repo push",
    "gcc nosuch.c", "gcc bad.c", "make nosuchtarget", "tar xf nosuch.tar", "kill -0 1", "ls -la | nosuchtool", "false", "exit 3",
    "test -w /etc/passwd", "[ -w f ]", "python3 -c 'assert False, \"Operation not permitted\"'", "sh -c 'exit 126'",
    "diff f missing", "perl -e 'die \"Permission denied\"'", "perl -e 'open(F,\"<\",\"/etc/shadow\") or die \"cannot open /etc/shadow: $!\"'",
    "head -c 10 /etc/shadow", "source /etc/shadow", "stat missing", "curl file:///nosuch", "cat < /etc/shadow",
    "sqlite3 /nosuch/x.db 'create table t(a)'", "java NoSuchClass", "node nosuch.js", "python3 nosuch.py", "npm run nosuch",
]
def net(kind, host, port=None, blocking=True):
    return {"kind": "net." + kind, "host": host, **({"port": port} if port else {}), "blocking": blocking}
NETWORK = [
    ("curl -s http://example.com/", []),
    ("curl -sS http://example.com/", [net("resolve", "example.com")]),
    ("curl -sS http://192.0.2.1/", [net("connect", "192.0.2.1", 80)]),
    ("curl -sS http://192.0.2.1:8080/ || true", [net("connect", "192.0.2.1", 8080)]),
    ("curl -sS http://127.0.0.1:5432/", [net("connect", "127.0.0.1", 5432)]),
    ("curl -sS http://localhost:5432/", [net("connect", "localhost", 5432)]),
    ("curl -sS http://127.0.0.1:9/", []),
    ("wget -O- http://example.com/", [net("resolve", "example.com")]),
    ("wget -O- http://192.0.2.1/", [net("connect", "192.0.2.1", 80)]),
    ("wget -O- http://127.0.0.1:9/", []),
    ("ssh -o BatchMode=yes example.com", [net("resolve", "example.com")]),
    ("ssh -o BatchMode=yes 192.0.2.1", [net("connect", "192.0.2.1", 22)]),
    ("git clone https://example.com/x.git /tmp/x", [net("resolve", "example.com")]),
    ("git clone git://example.com/x.git /tmp/x", [net("resolve", "example.com")]),
    ("git clone git@example.com:x/y.git /tmp/x", [net("resolve", "example.com")]),
    ("git clone http://192.0.2.1/x.git /tmp/x", [net("connect", "192.0.2.1", 80)]),
    ("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'", [net("connect", "192.0.2.1", 80)]),
    ("python3 -c 'import socket; socket.create_connection((\"example.com\", 443))'", [net("resolve", "example.com")]),
    ("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 5432))'", [net("connect", "127.0.0.1", 5432)]),
    ("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'", []),
    ("python3 -c 'import urllib.request; urllib.request.urlopen(\"http://example.com/\")'", [net("resolve", "example.com")]),
    ("node -e 'require(\"http\").get(\"http://example.com/\")'", [net("resolve", "example.com")]),
    ("node -e 'require(\"net\").connect(80, \"192.0.2.1\")'", [net("connect", "192.0.2.1", 80)]),
    ("node -e 'require(\"net\").connect(5432, \"127.0.0.1\")'", [net("connect", "127.0.0.1", 5432)]),
    ("node -e 'require(\"net\").connect(9, \"127.0.0.1\")'", []),
    ("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"192.0.2.1:80\") or die \"connect to 192.0.2.1:80: $@\"'", [net("connect", "192.0.2.1", 80)]),
    ("exec 3<>/dev/tcp/192.0.2.1/80", [net("connect", "192.0.2.1", 80)]),
    ("exec 3<>/dev/tcp/127.0.0.1/9", []),
    ("npm view left-pad --fetch-retries=0 --cache /tmp/npmc", [net("resolve", "registry.npmjs.org")]),
]

def world():
    """A small project under a private /home; /tmp is private too, so that nothing is left behind."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/tmp"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/home"], check=True)
    os.makedirs(f"{P}/d"); os.makedirs(f"{P}/e"); os.makedirs(f"{P}/out"); os.chdir(P)
    files = {"f": "hi\n", "d/g": "x\n", "a.c": "int main(){}\n", "bad.c": "int main({}\n", "package.json": '{"name":"p"}\n',
             "run.sh": "#!/bin/sh\n", "noexec.sh": "#!/bin/sh\n", "w.py": "open('out/new', 'w')\n",
             "A.java": "class A{public static void main(String[] a)throws Exception{new java.io.FileOutputStream(\"x.out\");}}\n",
             "old.log": "touch: cannot touch '/etc/x': Permission denied\nrm: cannot remove 'f': Read-only file system\n",
             "../loose": "l\n", "../l.rs": "pub fn a(){}\n", "../p.diff": "--- f\n+++ f\n@@ -1 +1 @@\n-hi\n+ho\n", "../z": "z\n"}
    for name, text in files.items():
        with open(name, "w") as out: out.write(text)
    os.chmod("run.sh", 0o755)
    run = lambda c: subprocess.run(c, shell=True, check=True, capture_output=True)
    run("tar cf ../t.tar f d; cd .. && zip -q z.zip z && rm z")
    run("sqlite3 db.sqlite 'create table t(a)'")
    run("git init -q repo && cd repo && git config user.email a@b && git config user.name a && echo a>a && git add a"
        " && git commit -qm a && printf 'all:\\n\\ttouch out\\n' > Makefile && echo j > junk")

def record(command, answers, user):
    argv = ["setpriv", "--reuid=1500", "--regid=1500", "--clear-groups"] if user else []
    env = {"PATH": os.environ["PATH"] if not user else "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/dev", "TERM": "dumb",
           "NO_COLOR": "1", "LANG": "C.UTF-8", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
           "GIT_CONFIG_VALUE_0": "*", "PYTHONDONTWRITEBYTECODE": "1"}
    if not user:
        env["CARGO_HOME"] = os.environ.get("CARGO_HOME", "/root/.cargo"); env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", "/root/.rustup")
    tool = command.split()[0]
    if tool not in ("cd", "echo", "exec", "[", "exit", "source") and not tool.startswith(("(", "./")) and not shutil.which(tool, path=env["PATH"]):
        return
    done = subprocess.run(argv + ["bash", "-c", command], cwd=P, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=90)
    if done.returncode == 0 and answers and not done.stderr and not done.stdout:
        return
    prefix = sys.base_prefix
    text = lambda data: json.dumps(data.decode("utf-8", "replace").replace(prefix, "/usr")[-3000:], ensure_ascii=False)
    print("[[case]]")
    print("command =", json.dumps(command, ensure_ascii=False))
    code = done.returncode
    print("exit =", code if code >= 0 else 128 - code)
    if done.stdout: print("stdout =", text(done.stdout))
    print("stderr =", text(done.stderr))
    rows = ["{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in a.items()) + " }" for a in answers]
    print("denials = [" + ", ".join(rows) + "]\n")

def main():
    which = sys.argv[1]
    world()
    print(f"# Recorded by record.py {which}; the answers are hand-written there.\n")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    if which == "erofs":
        subprocess.run(["mount", "-o", "remount,ro", "/home"], check=True); os.chdir(P)
        for command, answers in FILES + READ_ONLY_ONLY: record(command, answers, False)
    elif which == "eacces":
        for command, answers in FILES: record(command, answers, True)
        for command in ORDINARY: record(command, [], True)
    else:
        for command, answers in NETWORK: record(command, answers, False)

main()
