//! Tools of every day beyond compilers and git: builds, agents, multiplexers, servers; and those that a sandbox has to
//! refuse, which are refused with a fact that says why.
//!
//! Each is tried where it is installed. What is not is said aloud, and is an error where `STOCKADE_EVERY_TOOL` is set.

use serde_json::Value;

use crate::worker::{Left, Worker};

/// Those of these workers who can try it: nobody where a tool is missing.
fn with(tools: &[&str], workers: Vec<Worker>) -> Vec<Worker> {
    let there = |tool: &&&str| {
        ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"]
            .iter()
            .any(|dir| std::path::Path::new(dir).join(tool).exists())
    };
    match tools.iter().find(|tool| !there(tool)) {
        None => workers,
        Some(missing) => {
            println!("NOT TRIED, for want of {missing}: {tools:?}");
            assert!(std::env::var_os("STOCKADE_EVERY_TOOL").is_none(), "{missing} is not installed");
            Vec::new()
        }
    }
}

/// Root and an ordinary user, for what takes long.
fn two() -> Vec<Worker> {
    Worker::all().into_iter().step_by(2).collect()
}

#[test]
fn cmake_and_a_compiler_cache() {
    for worker in with(&["cmake", "ccache"], two()) {
        worker.works(
            "echo 'cmake_minimum_required(VERSION 3.10)
             project(x C)
             enable_testing()
             add_executable(x m.c)
             add_test(NAME t COMMAND x)' >CMakeLists.txt; echo 'int main(void) { return 0; }' >m.c
             export CCACHE_DIR=$PWD/cache; cmake -S . -B b -DCMAKE_C_COMPILER_LAUNCHER=ccache >/dev/null
             cmake --build b -j4 >/dev/null; cd b; ctest >/dev/null; ccache -s >../statistics",
            &[Left::Bytes("b/x", 1000), Left::Bytes("statistics", 10), Left::Directory("cache")],
        );
    }
}

#[test]
fn a_configure_script() {
    for worker in with(&["autoconf", "automake"], two()) {
        worker.works(
            "printf 'AC_INIT([x],[1])\\nAM_INIT_AUTOMAKE([foreign])\\nAC_PROG_CC\\nAC_CHECK_HEADERS([sys/mman.h])\\n
             AC_CHECK_FUNCS([mmap epoll_create])\\nAC_FUNC_FORK\\nAC_CONFIG_FILES([Makefile])\\nAC_OUTPUT\\n' >configure.ac
             printf 'bin_PROGRAMS = app\\napp_SOURCES = a.c\\n' >Makefile.am; echo 'int main(void) { return 0; }' >a.c
             autoreconf -i >/dev/null 2>&1; ./configure --prefix=$PWD/out >/dev/null; make -j4 >/dev/null
             make install >/dev/null; out/bin/app; make dist >/dev/null",
            &[Left::Bytes("out/bin/app", 1000), Left::Bytes("x-1.tar.gz", 1000)],
        );
    }
}

#[test]
fn go_without_a_network() {
    for worker in with(&["go"], two()) {
        worker.works(
            "export GOCACHE=$PWD/cache GOPATH=$PWD/path; mkdir m; cd m; go mod init example.org/m 2>/dev/null
             printf 'package main\\nimport \"os\"\\nfunc main() { os.WriteFile(\"said\", []byte(\"x\"), 0o644) }\\n' >main.go
             go build -o app .; ./app; printf 'package main\\nimport \"testing\"\\nfunc TestX(t *testing.T) {}\\n' >m_test.go
             go test ./... >/dev/null; go vet ./...",
            &[Left::Text("m/said", "x"), Left::Bytes("m/app", 100_000)],
        );
    }
}

#[test]
fn java_and_maven_offline() {
    for worker in with(&["javac", "jar", "java"], two()) {
        worker.works(
            "echo 'public class A { public static void main(String[] a) throws Exception {
             java.nio.file.Files.writeString(java.nio.file.Path.of(\"said\"), \"x\"); } }' >A.java
             javac A.java; jar cf a.jar A.class; java -cp a.jar A",
            &[Left::Text("said", "x"), Left::Bytes("a.jar", 100)],
        );
    }
    for worker in with(&["mvn"], two()) {
        worker.works(
            "echo '<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId>
             <version>1</version></project>' >pom.xml; mvn -q -o -Dmaven.repo.local=$PWD/repository validate >/dev/null",
            &[Left::Bytes("pom.xml", 10)],
        );
    }
}

#[test]
fn a_wheel_into_a_virtual_environment() {
    for worker in two() {
        let program = r#"
import zipfile
with zipfile.ZipFile("pk-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("pk/__init__.py", "x = 42\n")
    wheel.writestr("pk-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: pk\nVersion: 1\n")
    wheel.writestr("pk-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("pk-1.dist-info/RECORD", "")
"#;
        std::fs::write(worker.root().join("program.py"), program).unwrap();
        worker.works(
            "python3 ../program.py; python3 -m venv env >/dev/null
             env/bin/pip install -q --no-cache-dir --no-index --disable-pip-version-check ./pk-1-py3-none-any.whl
             env/bin/python -c 'import pk; open(\"said\", \"w\").write(str(pk.x))'",
            &[Left::Text("said", "42")],
        );
    }
}

#[test]
fn perl_and_ruby() {
    for worker in with(&["perl"], Worker::all()) {
        worker.works(
            "perl -MFile::Temp=tempfile -MIPC::Open3 -e 'my ($f, $n) = tempfile(); print $f \"x\"; close $f;
             my $pid = open3(my $w, my $r, undef, \"cat\"); print $w \"hi\\n\"; close $w; open(O, \">said\"); print O <$r>'",
            &[Left::Text("said", "hi\n")],
        );
    }
    for worker in with(&["ruby"], two()) {
        worker.works(
            "ruby -rtempfile -rsocket -e 'Tempfile.create(\"x\") { |f| f.write \"y\" }; s = TCPServer.new(\"127.0.0.1\", 0)
             Thread.new { c = s.accept; c.puts \"hey\"; c.close }
             File.write(\"said\", TCPSocket.new(\"127.0.0.1\", s.addr[1]).gets); fork { exit 0 }; Process.wait'",
            &[Left::Text("said", "hey\n")],
        );
    }
}

#[test]
fn agents_of_its_own() {
    for worker in with(&["ssh-agent", "ssh-keygen"], two()) {
        worker.works(
            "eval $(ssh-agent) >/dev/null; ssh-keygen -q -t ed25519 -N '' -f key; ssh-add -q key; ssh-add -l >list
             ssh-agent -k >/dev/null",
            &[Left::Bytes("list", 20), Left::Bytes("key", 100)],
        );
    }
    for worker in with(&["gpg", "gpg-agent"], two()) {
        worker.works(
            "export GNUPGHOME=$PWD/g; mkdir -m 700 g; echo x >text
             gpg -q --batch --passphrase '' --quick-gen-key a@example.org default default never 2>/dev/null
             gpg -q --batch -s -o signed text; gpg -q --verify signed 2>/dev/null; gpgconf --kill all",
            &[Left::Bytes("signed", 50)],
        );
    }
}

#[test]
fn multiplexers() {
    for worker in with(&["tmux"], two()) {
        worker.works(
            "tmux -f /dev/null new-session -d -s s 'tty >said; sleep 100'; while ! [ -s said ]; do sleep 0.05; done
             tmux ls >list; tmux kill-server",
            &[Left::Bytes("said", 8), Left::Bytes("list", 5)],
        );
    }
    for worker in with(&["screen"], two()) {
        worker.works(
            "export SCREENDIR=$PWD/s; mkdir -m 700 s; screen -dmS s bash -c 'tty >said; sleep 100'
             while ! [ -s said ]; do sleep 0.05; done; screen -S s -X quit",
            &[Left::Bytes("said", 8)],
        );
    }
}

/// Servers on the sandbox's own loopback.
#[test]
fn servers() {
    for worker in with(&["redis-server", "redis-cli"], two()) {
        worker.works(
            "redis-server --port 6390 --daemonize yes --dir $PWD --pidfile $PWD/pid --logfile log >/dev/null
             while ! redis-cli -p 6390 ping >/dev/null 2>&1; do sleep 0.05; done
             redis-cli -p 6390 set a b >/dev/null; redis-cli -p 6390 get a >got; redis-cli -p 6390 shutdown",
            &[Left::Text("got", "b\n"), Left::Bytes("dump.rdb", 10)],
        );
    }
    for worker in with(&["nginx", "curl"], two()) {
        // Root's workers would become another user, for which root has no capability here.
        worker.works(
            "mkdir t; user=; [ $(id -u) != 0 ] || user='user root;'; echo served >page
             echo \"$user error_log $PWD/e; pid $PWD/p; events {} http { access_log off; client_body_temp_path t/1;
             proxy_temp_path t/2; fastcgi_temp_path t/3; uwsgi_temp_path t/4; scgi_temp_path t/5;
             server { listen 127.0.0.1:8099; root $PWD; } }\" >n.conf
             nginx -e $PWD/e -p $PWD -c $PWD/n.conf; curl -sS --noproxy '*' http://127.0.0.1:8099/page >got
             nginx -e $PWD/e -p $PWD -c $PWD/n.conf -s stop",
            &[Left::Text("got", "served\n")],
        );
    }
    // PostgreSQL refuses to run as root, here as anywhere.
    for worker in with(&["initdb", "pg_ctl", "psql"], Worker::all()).into_iter().skip(2).take(1) {
        worker.works(
            "export PGDATA=$PWD/d; initdb -A trust >/dev/null
             pg_ctl -w -o \"-p 5444 -k $PWD\" -l log start >/dev/null
             psql -h 127.0.0.1 -p 5444 -d postgres -Atc 'select 42' >got
             psql -h $PWD -p 5444 -d postgres -Atc 'select 43' >>got; pg_ctl -m fast stop >/dev/null",
            &[Left::Text("got", "42\n43\n")],
        );
    }
}

/// What looks into programs by other means than ptrace.
#[test]
fn valgrind_works() {
    for worker in with(&["valgrind"], two()) {
        worker.works(
            "echo 'int main(void) { return 0; }' >a.c; cc -g a.c -o a; valgrind -q --error-exitcode=9 ./a; echo ran >ran",
            &[Left::Text("ran", "ran\n")],
        );
    }
}

/// A browser, with the sandbox that is around it in place of its own.
#[test]
fn a_browser_without_a_screen() {
    for worker in with(&["chromium"], two()) {
        let result = worker.run(
            &[],
            "chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile \
             --dump-dom 'data:text/html,<p>hi</p>' >page 2>/dev/null",
        );
        assert_eq!(result["exitCode"], 0, "{}: {result:#}", worker.name);
        assert!(std::fs::read_to_string(worker.work().join("page")).unwrap().contains("<p>hi</p>"), "{}", worker.name);
    }
}

/// The kind of the denial that stopped it.
fn stopped_by(worker: &Worker, script: &str) -> String {
    let result = worker.run(&[], script);
    assert_ne!(result["exitCode"], 0, "{}: {script}: {result:#}", worker.name);
    let blocking = |denial: &&Value| denial["blocking"] == true;
    let denial = result["sandbox"]["denials"].as_array().unwrap().iter().find(blocking);
    let denial = denial.unwrap_or_else(|| panic!("{}: {script}: {result:#}", worker.name));
    denial["kind"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_refused_says_why() {
    for worker in two() {
        assert_eq!(stopped_by(&worker, "unshare --user --map-root-user true"), "namespace", "{}", worker.name);
        assert_eq!(stopped_by(&worker, "touch ~/new"), "fs.create", "{}", worker.name);
    }
    for (tool, script, kind) in [
        ("bwrap", "bwrap --ro-bind / / --dev /dev --proc /proc true", "namespace"),
        ("strace", "strace -o trace true", "ptrace"),
        ("gdb", "gdb -nx -batch -ex run --args /bin/true", "ptrace"),
    ] {
        for worker in with(&[tool], two()) {
            assert_eq!(stopped_by(&worker, script), kind, "{}: {script}", worker.name);
        }
    }
    // Root needs no set-user-ID bit.
    for worker in with(&["sudo"], Worker::all()).iter().skip(2).take(1) {
        assert_eq!(stopped_by(worker, "sudo -n true"), "capability", "{}", worker.name);
    }
}
