//! The grant of every blocking denial, applied as the call's extra permission, lets the same command do its work: the
//! world is looked at before and after.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use stockade::denial::Grant;
use stockade::executor::{BashExecutor as _, CallPolicy, ExecRequest, RunResult};
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode::{self, ReadOnly, WorkspaceWrite};
use stockade::sandboxed::SandboxedExecutor;

use crate::executor::{Place, as_every_user, run};

/// What a grant opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    Write,
    Read,
    Network,
}

/// A command, and a test of the world that holds once it has done its work. `mounts` where only mounts can grant it.
struct Case(SandboxMode, Opens, &'static str, &'static str, Backends);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backends {
    Mounts,
    Both,
}

use Backends::{Both, Mounts};
use Opens::{Network, Read, Write};

const CASES: &[Case] = &[
    Case(ReadOnly, Write, "echo x > ../out/new", "test -s out/new", Both),
    Case(ReadOnly, Write, "echo x > made", "test -s work/made", Both),
    Case(ReadOnly, Write, "echo added >> ../out/f", "grep -q added out/f", Both),
    Case(ReadOnly, Write, ": > ../out/f", "! test -s out/f", Both),
    Case(ReadOnly, Write, "truncate -s 0 ../out/f", "! test -s out/f", Both),
    Case(ReadOnly, Write, "mkdir ../out/dir", "test -d out/dir", Both),
    Case(ReadOnly, Write, "mkdir -p ../out/a/b/c", "test -d out/a/b/c", Both),
    Case(ReadOnly, Write, "rm ../out/f", "! test -e out/f", Both),
    Case(ReadOnly, Write, "rmdir ../out/empty", "! test -e out/empty", Both),
    Case(ReadOnly, Write, "mv ../out/f ../out/g", "test -e out/g", Both),
    Case(WorkspaceWrite, Write, "mv f ../out/moved", "test -e out/moved", Both),
    Case(ReadOnly, Write, "ln -s x ../out/l", "test -L out/l", Both),
    Case(ReadOnly, Write, "mkfifo ../out/p", "test -p out/p", Both),
    Case(ReadOnly, Write, "sed -i s/text/other/ ../out/f", "grep -q other out/f", Both),
    Case(ReadOnly, Write, "chmod 600 ../out/f", "test $(stat -c %a out/f) = 600", Mounts),
    Case(ReadOnly, Write, "touch -d @1 ../out/f", "test $(stat -c %Y out/f) = 1", Mounts),
    Case(WorkspaceWrite, Write, "cp -r d ../out/copied", "test -s out/copied/g", Both),
    Case(WorkspaceWrite, Write, "tar -cf ../out/t.tar f", "test -s out/t.tar", Both),
    Case(WorkspaceWrite, Write, "echo x > .git/hooks/post-commit", "test -s work/.git/hooks/post-commit", Mounts),
    Case(WorkspaceWrite, Write, "echo '[a]' >> .git/config", "grep -q a work/.git/config", Mounts),
    Case(WorkspaceWrite, Read, "cat ../home/.ssh/id_rsa > kept", "grep -q KEY work/kept", Mounts),
    Case(WorkspaceWrite, Read, "cp ../home/.netrc kept", "grep -q machine work/kept", Mounts),
    Case(ReadOnly, Read, "grep -q KEY ../home/.ssh/id_rsa && echo x > /tmp/x && cp /tmp/x /dev/null", "true", Mounts),
    Case(WorkspaceWrite, Network, "curl -sS -o kept http://127.0.0.1:{port}/", "grep -q hello work/kept", Mounts),
    Case(WorkspaceWrite, Network, "curl -sS -o kept http://localhost:{port}/", "grep -q hello work/kept", Mounts),
];

/// Answers `hello` to everybody, for as long as the process lives.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Whoever only looks whether somebody is there closes at once; that is no failure.
            let mut asked = [0; 1024];
            if stream.read(&mut asked).is_ok_and(|count| count > 0) {
                stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").unwrap();
            }
        }
    });
    port
}

fn place() -> Place {
    let place = Place::new();
    let files =
        [("work/f", "text\n"), ("work/d/g", "text\n"), ("work/.git/config", ""), ("work/.git/HEAD", "ref: x\n")];
    let more = [("out/f", "text\n"), ("home/.ssh/id_rsa", "KEY\n"), ("home/.netrc", "machine x\n")];
    for directory in ["work/d", "work/.git/hooks", "work/.git/objects", "work/.git/refs", "out/empty", "home/.ssh"] {
        std::fs::create_dir_all(place.root().join(directory)).unwrap();
    }
    for (file, text) in files.into_iter().chain(more) {
        std::fs::write(place.root().join(file), text).unwrap();
    }
    place
}

fn holds(test: &str, root: &Path) -> bool {
    Command::new("bash").args(["-c", test]).current_dir(root).status().unwrap().success()
}

async fn call(place: &Place, executor: &SandboxedExecutor, mode: SandboxMode, line: &str, extra: Grant) -> RunResult {
    let mut request = ExecRequest::shell(line);
    request.workdir = Some(place.work());
    request.policy = Some(CallPolicy { mode, workspace: place.work(), extra, session: None });
    run(executor, request).await.unwrap()
}

/// Everything that the blocking denials say would do.
fn granted(result: &RunResult) -> Grant {
    let mut all = Grant::default();
    for denial in result.sandbox.as_ref().unwrap().denials.iter().filter(|denial| denial.blocking) {
        let Some(grant) = denial.grant.clone() else { continue };
        all.write.extend(grant.write);
        all.read.extend(grant.read);
        all.network.extend(grant.network);
    }
    all
}

async fn judge(case: &Case, port: u16, backend: BackendChoice) -> Result<(), String> {
    let Case(mode, opens, line, test, _) = case;
    let line = line.replace("{port}", &port.to_string());
    let place = place();
    let executor = place.executor(*mode, backend);
    let before = call(&place, &executor, *mode, &line, Grant::default()).await;
    let grant = granted(&before);
    let of_kind = match opens {
        Write => !grant.write.is_empty() && grant.read.is_empty() && grant.network.is_empty(),
        Read => !grant.read.is_empty() && grant.write.is_empty() && grant.network.is_empty(),
        Network => !grant.network.is_empty() && grant.read.is_empty() && grant.write.is_empty(),
    };
    let early = *test != "true" && holds(test, place.root());
    let after = call(&place, &executor, *mode, &line, grant.clone()).await;
    let done = after.exit_code == Some(0) && holds(test, place.root());
    executor.dispose().await;
    let denials = |result: &RunResult| format!("{:?}", result.sandbox.as_ref().unwrap().denials);
    if of_kind && !early && done {
        return Ok(());
    }
    Err(format!(
        "{mode} {backend:?} {line}\n   before: {}\n   grant {grant:?}, done early {early}, done {done}\n   after: {:?} {} {}",
        denials(&before),
        after.exit_code,
        after.stderr.text,
        denials(&after)
    ))
}

#[test]
fn grants_cure() {
    as_every_user("cures::grants_cure_inside");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by grants_cure as each user"]
async fn grants_cure_inside() {
    let port = serve();
    let mut wrong = Vec::new();
    for case in CASES {
        wrong.extend(judge(case, port, BackendChoice::Namespaces).await.err());
        if case.4 == Both {
            wrong.extend(judge(case, port, BackendChoice::Landlock).await.err());
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
