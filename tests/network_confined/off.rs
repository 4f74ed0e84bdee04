//! Network off: everything of the command's own works, nothing of the host's or beyond does.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::scene::{Scene, Seen, Server, has};

const OFF: &[&str] = &["--network", "off"];

#[test]
fn own_servers_and_sockets_work() {
    for scene in Scene::all() {
        for options in [OFF, &["--allow-host", "good.test"]] {
            assert_eq!(scene.probe(options, "own .").works(), "own sockets work", "{}", scene.prompt.user.name());
        }
    }
}

#[test]
fn outside_fails_at_once_with_one_fact() {
    for scene in Scene::all() {
        scene.probe(OFF, "tcp 192.0.2.1 443").refused("net.connect", "192.0.2.1", Some(443));
        scene.probe(OFF, "tcp 2001:db8::1 443").refused("net.connect", "2001:db8::1", Some(443));
        if has("curl") {
            scene.run(OFF, "curl -sS http://192.0.2.1:8080/").refused("net.connect", "192.0.2.1", Some(8080));
            scene.run(OFF, "curl -sS http://name.invalid:8080/").refused("net.resolve", "name.invalid", None);
        }
        if has("git") {
            let clone = "git clone -q http://name.invalid:8080/x.git";
            scene.run(OFF, clone).refused("net.resolve", "name.invalid", None);
        }
    }
}

/// A program whose message does not repeat the name it looked up.
#[test]
fn a_look_up_fails_at_once_with_one_fact() {
    for scene in Scene::all() {
        let seen = look_up(&scene);
        let denial = seen.refused("net.resolve", "name.invalid", None);
        assert_eq!((&denial["blocking"], &denial["grant"]["network"][0]), (&true.into(), &"name.invalid".into()));
    }
}

/// The name stands neither in the message nor whole in the command.
fn look_up(scene: &Scene) -> Seen {
    let seen = scene.run(OFF, "python3 -c 'import socket; socket.create_connection((\"name.\" + \"invalid\", 443))'");
    assert!(seen.result["stderr"]["text"].as_str().unwrap().contains("gaierror"), "{:#}", seen.result);
    seen
}

/// Resolvers of several kinds, with and without the trace: what each of them asks reaches the sandbox's own name server.
#[test]
fn every_resolver_is_answered() {
    for scene in Scene::all() {
        for (client, command) in [
            ("python3", "python3 probe.py look single.invalid"),
            ("python3", "python3 probe.py look_both both.invalid"),
            ("getent", "getent ahosts getent.invalid"),
            ("node", "node -e 'require(\"dns\").resolve4(\"cares.invalid\", e => { throw e })'"),
            ("busybox", "busybox wget -O - http://busybox.invalid/"),
        ] {
            if client == "busybox" && std::fs::metadata("/usr/bin/busybox").is_err() || !has(client) {
                continue;
            }
            let name = ["single", "both", "getent", "cares", "busybox"].into_iter().find(|name| command.contains(name));
            let host = format!("{}.invalid", name.unwrap());
            for trace in ["on", "off"] {
                let seen = scene.run(&["--network", "off", "--trace", trace], command);
                let denial = seen.refused("net.resolve", &host, None);
                let witnesses = denial["sources"].as_array().unwrap();
                assert!(witnesses.contains(&"proxy".into()) && denial["blocking"] == true, "{trace}: {denial:#}");
            }
        }
    }
}

/// Settings of the sandbox's own: no server of the host's, and as little waiting as can be.
#[test]
fn resolvers_are_told_of_the_one_server_there_is() {
    let host = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    for scene in Scene::all() {
        let inside = |options: &[&str]| scene.run(options, "cat /etc/resolv.conf || true").out().to_owned();
        for options in [OFF, &["--allow-host", "good.test"]] {
            let settings = inside(options);
            assert!(settings.is_empty() || settings.starts_with("nameserver 127.0.0.1\n"), "{settings}");
        }
        assert_eq!(inside(&["--network", "full"]), host.trim(), "the host's network, the host's settings");
        assert_eq!(std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(), host, "nothing changed outside");
    }
}

#[test]
fn the_hosts_loopback_is_out_of_reach() {
    for scene in Scene::all() {
        for (ip, address) in [("127.0.0.1", "127.0.0.1:0"), ("::1", "[::1]:0")] {
            let server = Server::on(address);
            let port = server.port().to_string();
            assert!(scene.reaches_unconfined(&["tcp", ip, &port]), "the control");
            server.was_reached();
            assert_eq!(server.asked(), ["connection"]);
            let seen = scene.probe(OFF, &format!("tcp {ip} {port}"));
            assert_eq!((seen.out(), &seen.result["exitCode"]), ("refused ConnectionRefusedError 111", &1.into()));
            assert_eq!(server.asked(), ["connection"], "nobody came from inside");
            if has("curl") {
                // It says where it failed; a bare refusal looks like a server that is not there.
                let url = server.url(if ip == "::1" { "[::1]" } else { ip }, "");
                scene.run(OFF, &format!("curl -sS {url}")).refused("net.connect", ip, Some(server.port()));
                assert_eq!(server.asked(), ["connection"]);
            }
        }
    }
}

/// A Unix listener of the host's; its path is removed with it.
struct Listener {
    listener: UnixListener,
    name: String,
    path: Option<PathBuf>,
}

impl Listener {
    fn at(path: PathBuf) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        Self::of(listener, path.to_str().unwrap().to_owned(), Some(path))
    }

    fn abstract_name(name: &str) -> Self {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        Self::of(listener, format!("@{name}"), None)
    }

    fn of(listener: UnixListener, name: String, path: Option<PathBuf>) -> Self {
        listener.set_nonblocking(true).unwrap();
        Self { listener, name, path }
    }

    /// Connections since the last look.
    fn came(&self) -> usize {
        std::iter::from_fn(|| self.listener.accept().ok()).count()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Directories like `/run`, as far as this user may write there.
fn like_run(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in ["/run", "/tmp", "/dev/shm"] {
        let writable = nix::unistd::access(Path::new(directory), nix::unistd::AccessFlags::W_OK).is_ok();
        if writable {
            found.push(Path::new(directory).join(name));
        } else {
            println!("NOT TESTED: a socket in {directory}, where this user may not make one");
        }
    }
    found
}

#[test]
fn the_hosts_unix_sockets_are_out_of_reach() {
    for scene in Scene::all() {
        let name = format!("stockade-e2e-{}-{}", std::process::id(), scene.prompt.user.uid);
        let mut listeners = vec![
            Listener::at(scene.path("host.sock")),
            Listener::at(scene.prompt.root().join("visible.sock")),
            Listener::abstract_name(&name),
        ];
        listeners.extend(like_run(&format!("{name}.sock")).into_iter().map(Listener::at));
        for listener in &listeners {
            let shown = &listener.name;
            assert!(scene.reaches_unconfined(&["unix", shown]), "the control: {shown}");
            assert_eq!(listener.came(), 1, "{shown}");
            for options in [OFF, &["--allow-host", "good.test"]] {
                let seen = scene.probe(options, &format!("unix {shown}"));
                assert_eq!(seen.result["exitCode"], 1, "{shown}: {:#}", seen.result);
                assert_eq!(listener.came(), 0, "{shown}: {:#}", seen.result);
                let [denial] = seen.denials() else { panic!("{shown}: {:#}", seen.result) };
                assert_eq!((&denial["kind"], &denial["path"]), (&"unix.connect".into(), &shown.as_str().into()));
            }
        }
    }
}

/// The host's network is reached, and the result says that it was there to be.
#[test]
fn full_is_said() {
    let server = Server::start();
    for scene in Scene::all() {
        let command = format!(
            "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {}), 5); print('connected')\"",
            server.port()
        );
        let seen = scene.run(&["--network", "full"], &command);
        assert_eq!(seen.works(), "connected");
        let said = |seen: &Seen| seen.result["sandbox"]["notes"].to_string().contains("the host's own, in full");
        assert!(said(&seen), "{:#}", seen.result);
        let off = scene.run(OFF, "echo off");
        assert!(!said(&off), "the control: {:#}", off.result);
    }
    server.was_reached();
}
