//! Ways round the allowlist, tried from inside. Each is refused and reported, or impossible, and the server outside
//! hears nothing.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scene::{Scene, Server, has};

/// Every user with a server of its own that the rules allow; afterwards nobody may have come, and the allowed way works.
fn attempts(attempt: impl Fn(&Scene, &Server, &[&str])) {
    for scene in Scene::all() {
        let server = Server::start();
        let entry = server.entry();
        let options = ["--allow-host", &entry];
        attempt(&scene, &server, &options);
        assert_eq!(server.asked(), [""; 0], "somebody came: {}", scene.prompt.user.name());
        let control = scene.probe(&options, &format!("hosts {entry} {entry}"));
        assert_eq!(control.works(), "200", "the control");
    }
}

#[test]
fn past_the_proxy() {
    attempts(|scene, server, options| {
        scene.probe(options, "tcp 192.0.2.1 80").refused("net.connect", "192.0.2.1", Some(80));
        scene.probe(options, "tcp 2001:db8::1 80").refused("net.connect", "2001:db8::1", Some(80));
        // The allowed address itself, without the proxy: inside, it is the sandbox's own loopback.
        let seen = scene.probe(options, &format!("tcp 127.0.0.1 {}", server.port()));
        assert_eq!((seen.out(), &seen.result["exitCode"]), ("refused ConnectionRefusedError 111", &1.into()));
        if has("curl") {
            let unset = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; curl -sS";
            let seen = scene.run(options, &format!("{unset} http://192.0.2.1/"));
            seen.refused("net.connect", "192.0.2.1", Some(80));
            let seen = scene.run(options, &format!("{unset} http://name.invalid/"));
            seen.refused("net.resolve", "name.invalid", None);
            let seen = scene.run(options, &format!("{unset} {}", server.url("127.0.0.1", "a.txt")));
            seen.refused("net.connect", "127.0.0.1", Some(server.port()));
        }
    });
}

#[test]
fn names_by_datagram() {
    attempts(|scene, _, options| {
        let seen = scene.probe(options, "dns 192.0.2.53 secret.test");
        assert_eq!(seen.out(), "refused OSError 101");
        seen.refused("net.resolve", "secret.test", None);
    });
}

/// The rule allows 127.0.0.1, and these all mean it to some C library.
#[test]
fn other_notations_of_an_allowed_address() {
    const NOTATIONS: &[&str] = &["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0x7f.1", "127.0.0.1%lo"];
    attempts(|scene, server, options| {
        let seen = scene.probe(options, &format!("notations {} {}", server.port(), NOTATIONS.join(" ")));
        for (line, host) in seen.out().lines().zip(NOTATIONS) {
            let mut words = line.split(' ');
            assert_eq!(words.next(), Some(*host));
            assert!(words.clone().count() == 2 && words.all(|status| status.starts_with('4')), "{line}");
        }
        let said: Vec<String> = seen.denials().iter().map(Value::to_string).collect();
        for host in NOTATIONS {
            assert!(said.iter().any(|denial| denial.contains(host)), "{host} was not reported: {said:#?}");
        }
    });
}

#[test]
fn other_ports_and_other_spellings_of_loopback() {
    attempts(|scene, server, options| {
        let port = server.port();
        // A listener at each: where nobody listens, no entry would help, and none is named.
        let other = Server::start();
        let [second, sixth] = ["127.0.0.2", "[::1]"].map(|ip| Server::on(&format!("{ip}:{port}")));
        for to in [format!("127.0.0.1:{}", other.port()), format!("127.0.0.2:{port}")] {
            let seen = scene.probe(options, &format!("connect {to}"));
            assert_eq!(seen.out(), "403", "{to}");
            let (host, port) = to.split_once(':').unwrap();
            let denial = seen.fact("net.connect", host, Some(port.parse().unwrap()));
            assert_eq!(denial["grant"]["network"], serde_json::json!([to]));
        }
        let seen = scene.probe(options, &format!("connect [::1]:{port}"));
        assert_eq!(seen.out(), "403");
        let denial = seen.fact("net.connect", "::1", Some(port));
        assert_eq!(denial["grant"]["network"], serde_json::json!([format!("[::1]:{port}")]));
        for server in [other, second, sixth] {
            assert_eq!(server.asked(), [""; 0]);
        }
    });
}

#[test]
fn host_headers_that_say_something_else() {
    attempts(|scene, server, options| {
        let to = server.entry();
        for named in [format!("{to} bad.test"), format!("bad.test {to}"), format!("{to} {to}"), "bad.test".to_owned()] {
            let seen = scene.probe(options, &format!("hosts {to} {named}"));
            assert_eq!(seen.out(), "400", "{named}");
            assert_eq!(seen.denials().len(), 1, "{named}: {:#}", seen.result);
            assert_eq!(seen.denials()[0]["sources"], serde_json::json!(["proxy"]), "{named}");
        }
    });
}

#[test]
fn the_proxy_without_its_token() {
    attempts(|scene, server, options| {
        for login in ["", "someone:else@"] {
            let seen = scene.probe(options, &format!("through http://{login}127.0.0.1:28129 {}", server.entry()));
            assert_eq!(seen.out(), "407", "{login}");
            seen.fact("net.connect", "127.0.0.1", Some(server.port()));
        }
    });
}

/// The token of a sandbox whose rules allow it opens nothing at another's proxy.
#[test]
fn the_token_of_another_sandbox() {
    attempts(|scene, server, options| {
        let other = Server::start();
        let entry = other.entry();
        let command = format!(
            "echo $HTTP_PROXY > token.new; mv token.new token; until [ -e done ]; do sleep 0.02; done; \
             python3 probe.py through $HTTP_PROXY {entry}"
        );
        let arguments = ["--json", "--mode", "workspace-write", "--allow-host", &entry, "-c", &command];
        let first = scene.prompt.run(arguments).env("PATH", crate::scene::PATH).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !scene.path("token").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let token = std::fs::read_to_string(scene.path("token")).unwrap();
        // The address is the same in every sandbox; whom it leads to is not.
        for to in [server.entry(), entry.clone()] {
            let seen = scene.probe(options, &format!("through {} {to}", token.trim()));
            assert_eq!(seen.out(), "407", "{to}");
        }
        assert_eq!(other.asked(), [""; 0]);
        std::fs::write(scene.path("done"), "").unwrap();
        let output = first.wait_with_output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["stdout"]["text"], "200\n", "its owner may use it: {result:#}");
        assert_eq!(other.asked().len(), 2);
        for name in ["token", "done"] {
            std::fs::remove_file(scene.path(name)).unwrap();
        }
    });
}

/// A socket of the host's network on standard input could be aimed anew from inside.
#[test]
fn a_socket_passed_in() {
    attempts(|scene, server, options| {
        let port = server.port().to_string();
        let aim = format!("python3 probe.py stdin {port}");
        let arguments = [&["--json", "--mode", "workspace-write"], options, &["-c", &aim]].concat();
        let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(peer.local_addr().unwrap()).unwrap();
        let mut command = scene.prompt.run(arguments);
        command.env("PATH", crate::scene::PATH).stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
        let output = command.output().unwrap();
        assert_eq!(server.asked(), [""; 0], "{}", String::from_utf8_lossy(&output.stdout));
    });
}
