//! An allowlist that names a server on the host's 127.0.0.1: real clients reach it through the environment they are
//! given, and nothing else.

use std::path::Path;
use std::process::Command;

use crate::scene::{PATH, Scene, Server, has};

/// Tries one client as every user: `command` for the host that is allowed, then for one that is not.
fn allowed_and_refused(server: &Server, command: impl Fn(&str) -> String, check: impl Fn(&Scene, &str)) {
    // Another address of the host's loopback, which no rule names.
    let unnamed = Server::on(&format!("127.0.0.3:{}", server.port()));
    for scene in Scene::all() {
        let entry = server.entry();
        let options = ["--allow-host", &entry];
        check(&scene, scene.run(&options, &command("127.0.0.1")).works());
        let before = server.asked();
        scene.run(&options, &command("bad.test")).refused_by_proxy("bad.test", server.port());
        assert_eq!(server.asked(), before, "nobody was asked");
        scene.run(&options, &command("127.0.0.3")).refused_by_proxy("127.0.0.3", server.port());
        assert_eq!((server.asked(), unnamed.asked()), (before, vec![]), "nobody was asked");
    }
}

#[test]
fn curl() {
    if !has("curl") {
        return;
    }
    for way in ["", "-p", "--proxy-anyauth", "-x ${ALL_PROXY/http:/socks5h:}"] {
        let server = Server::start();
        allowed_and_refused(
            &server,
            |host| format!("curl -sSf {way} {}", server.url(host, "a.txt")),
            |_, out| assert_eq!(out, "hello from outside", "{way}"),
        );
    }
}

#[test]
fn python_urllib() {
    if !has("python3") {
        return;
    }
    let server = Server::start();
    allowed_and_refused(
        &server,
        |host| {
            let url = server.url(host, "a.txt");
            format!("python3 -c 'import urllib.request as r; print(r.urlopen(\"{url}\").read().decode())'")
        },
        |_, out| assert_eq!(out, "hello from outside"),
    );
}

#[test]
fn node_http_get() {
    if !has("node") {
        return;
    }
    let server = Server::start();
    // Versions before 22.21 do not read NODE_USE_ENV_PROXY, so the script does what node's documents tell it to.
    let script = r#"
        const p = new URL(process.env.HTTP_PROXY), to = new URL(process.argv[1]);
        const auth = 'Basic ' + Buffer.from(p.username + ':' + p.password).toString('base64');
        require('http').get({host: p.hostname, port: p.port, path: to.href,
                             headers: {host: to.host, 'proxy-authorization': auth}},
            r => { if (r.statusCode != 200) process.exit(1); r.pipe(process.stdout) })"#;
    assert!(!script.contains('"'));
    allowed_and_refused(
        &server,
        |host| format!("node -e \"{script}\" {}", server.url(host, "a.txt")),
        |_, out| assert_eq!(out, "hello from outside"),
    );
}

fn here(program: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(program).args(arguments).current_dir(directory).env("PATH", PATH).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

#[test]
fn git_over_http() {
    if !has("git") {
        return;
    }
    let server = Server::start();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("file"), "content").unwrap();
    here("git", &["init", "-q", "-b", "main"], source.path());
    here("git", &["add", "file"], source.path());
    let commit = ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-q", "-m", "one"];
    here("git", &commit, source.path());
    let bare = server.root().join("repo.git");
    here("git", &["clone", "-q", "--bare", ".", bare.to_str().unwrap()], source.path());
    here("git", &["update-server-info"], &bare);
    allowed_and_refused(
        &server,
        |host| format!("git clone -q {} copy", server.url(host, "repo.git")),
        |scene, _| {
            assert_eq!(std::fs::read_to_string(scene.path("copy/file")).unwrap(), "content");
            std::fs::remove_dir_all(scene.path("copy")).unwrap();
        },
    );
}

#[test]
fn pip_from_an_index() {
    let has_pip = has("python3")
        && Command::new("python3")
            .args(["-m", "pip", "--version"])
            .env("PATH", PATH)
            .output()
            .unwrap()
            .status
            .success();
    if !has_pip {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "pip is not installed for {PATH}");
        println!("NOT TESTED: pip is not installed for {PATH}");
        return;
    }
    let server = Server::start();
    let wheel = "demo-1.0-py3-none-any.whl";
    let make = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w')\nd = 'demo-1.0.dist-info/'\n\
                z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
                z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                z.writestr(d + 'RECORD', '')\nz.close()";
    std::fs::create_dir_all(server.root().join("simple/demo")).unwrap();
    here("python3", &["-c", make, wheel], server.root());
    std::fs::write(server.root().join("simple/demo/index.html"), format!("<a href=\"/{wheel}\">{wheel}</a>")).unwrap();
    allowed_and_refused(
        &server,
        |host| {
            let index = server.url(host, "simple");
            format!(
                "python3 -m pip --isolated download -q --no-deps --no-cache-dir --retries 0 \
                 --disable-pip-version-check --trusted-host {host} --index-url {index} demo"
            )
        },
        |scene, _| {
            assert!(scene.path(wheel).is_file());
            std::fs::remove_file(scene.path(wheel)).unwrap();
        },
    );
}

/// The other spellings of the sandbox's own loopback stay direct, so its own servers are still within reach.
#[test]
fn own_servers_beside_the_hosts() {
    if !has("curl") {
        return;
    }
    let server = Server::start();
    for scene in Scene::all() {
        let own = "python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & \
                   until curl -sf http://localhost:8000/probe.py -o /dev/null; do sleep 0.05; done; \
                   curl -sSf http://localhost:8000/probe.py | head -c 3; kill %1";
        let seen = scene.run(&["--allow-host", &server.entry()], own);
        assert_eq!((seen.out(), &seen.result["exitCode"]), ("\"\"\"", &0.into()), "{:#}", seen.result);
        assert!(server.asked().is_empty());
    }
}
