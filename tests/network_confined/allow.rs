//! An allowlist that names a server on the host's 127.0.0.1: real clients reach it through the environment they are
//! given, and nothing else.

use crate::scene::{Scene, Server, has};

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
