//! The network where there is no namespace for it: nothing leaves by any family or protocol, the gap is named, local
//! sockets and pairs go on working, and what a program wanted is told.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::{Value, json};
use stockade::host::HostSupport;

use super::hosts::refuse_program;
use crate::scene::{Scene, gaps, result};
use crate::user::{User, scratch};

/// The host's end of every way out, on one port.
struct Outside {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    abstract_name: String,
    unix: UnixListener,
}

impl Outside {
    fn listen() -> Self {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let tcp = vec![first, TcpListener::bind(("::1", port)).unwrap()];
        let udp = vec![UdpSocket::bind(("127.0.0.1", port)).unwrap(), UdpSocket::bind(("::1", port)).unwrap()];
        let abstract_name = format!("stockade-fallback-{}-{port}", std::process::id());
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        tcp.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        udp.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        unix.set_nonblocking(true).unwrap();
        Self { tcp, udp, abstract_name, unix }
    }

    fn port(&self) -> u16 {
        self.tcp[0].local_addr().unwrap().port()
    }

    /// How many came over the internet's protocols, and over the abstract socket.
    fn came(&self) -> (usize, usize) {
        let tcp = self.tcp.iter().map(|socket| std::iter::from_fn(|| socket.accept().ok()).count());
        let udp = self.udp.iter().map(|socket| std::iter::from_fn(|| socket.recv(&mut [0; 8]).ok()).count());
        (tcp.chain(udp).sum(), std::iter::from_fn(|| self.unix.accept().ok()).count())
    }
}

/// Hosts without a network namespace, as words before `stockade`, and options for it.
const HOSTS: &[(&str, &[&str], &[&str])] = &[
    ("Landlock alone by choice", &[], &["--backend", "landlock"]),
    ("no network namespaces", &["REFUSE", "network-namespaces"], &[]),
    ("no namespaces", &["REFUSE", "namespaces"], &[]),
    ("mounting refused", &["REFUSE", "mounts"], &[]),
];

fn run(scene: &Scene, refuse: &str, (title, front, options): (&str, &[&str], &[&str]), command: &str) -> Value {
    let front = front.iter().map(|word| if *word == "REFUSE" { refuse } else { word }).map(str::to_owned);
    let stockade = [scene.stockade(), "run", "--json", "--mode", "workspace-write"];
    let rest = [&stockade[..], options, &["-c", command]].concat().into_iter().map(str::to_owned);
    let words: Vec<String> = scene.become_user().into_iter().chain(front).chain(rest).collect();
    result(title, &scene.start(&words))
}

fn outcomes(result: &Value) -> BTreeMap<&str, &str> {
    let lines = result["stdout"]["text"].as_str().unwrap().lines();
    lines.filter_map(|line| line.split_once(' ')).collect()
}

#[test]
fn nothing_leaves_without_a_network_namespace() {
    const INTERNET: [&str; 8] = ["tcp", "tcp6", "mapped", "mptcp", "fast-open", "udp", "udp6", "listen"];
    let tools = scratch();
    let refuse = refuse_program(tools.path());
    let scoped = HostSupport::detect().unwrap().landlock_abi >= 6;
    for user in User::all() {
        let scene = Scene::of(user);
        std::fs::write(scene.work().join("network.py"), include_str!("network.py")).unwrap();
        let outside = Outside::listen();
        let command = format!("rm -f own.sock; python3 network.py {} {}", outside.port(), outside.abstract_name);
        let full = ("control", &[][..], &["--network", "full"][..]);
        let control = run(&scene, refuse.to_str().unwrap(), full, &command);
        let reached = outcomes(&control);
        assert!(
            ["tcp", "tcp6", "mapped", "udp", "udp6", "listen"].iter().all(|way| reached[way] == "done"),
            "{control:#}"
        );
        assert!(outside.came().0 >= 5, "the control: {control:#}");
        for host in HOSTS {
            let title = format!("{} as {}", host.0, user.name());
            let seen = run(&scene, refuse.to_str().unwrap(), *host, &command);
            let found = outcomes(&seen);
            for way in INTERNET.iter().chain(&["sctp", "raw", "packet", "netlink", "vsock"]) {
                assert!(found[way].starts_with("refused"), "{title}: {way}: {seen:#}");
            }
            for way in ["own-path", "own-tmp", "own-abstract", "pairs"] {
                assert_eq!(found[way], "done", "{title}: {way}: {seen:#}");
            }
            assert!(gaps(&seen).contains("network-isolation"), "{title}: {seen:#}");
            let (internet, names) = outside.came();
            assert_eq!(internet, 0, "{title}: {seen:#}");
            if scoped {
                assert!(names == 0 && found["abstract"].starts_with("refused"), "{title}: {seen:#}");
            } else {
                assert!(gaps(&seen).contains("unix-sockets"), "{title}: {seen:#}");
            }
            let denials = seen["sandbox"]["denials"].as_array().unwrap();
            assert!(denials.iter().any(|denial| denial["kind"] == "net.connect"), "{title}: {seen:#}");
        }
    }
}

/// What real clients wanted is told by name, though the kernel saw no more than a socket that was not to be had.
#[test]
fn what_was_wanted_is_told() {
    let tools = scratch();
    let refuse = refuse_program(tools.path());
    for user in User::all() {
        let scene = Scene::of(user);
        for host in HOSTS {
            for (command, kind, peer, port) in [
                ("curl -sS http://192.0.2.1:8080/", "net.connect", "192.0.2.1", json!(8080)),
                ("curl -sS http://name.invalid/", "net.resolve", "name.invalid", Value::Null),
                ("git clone -q http://name.invalid/x.git", "net.resolve", "name.invalid", Value::Null),
                (
                    "python3 -c 'import urllib.request as r; r.urlopen(\"http://name.invalid/\")'",
                    "net.resolve",
                    "name.invalid",
                    Value::Null,
                ),
            ] {
                let seen = run(&scene, refuse.to_str().unwrap(), *host, command);
                let title = format!("{} as {}: {command}: {seen:#}", host.0, user.name());
                assert_ne!(seen["exitCode"], 0, "{title}");
                let denials = seen["sandbox"]["denials"].as_array().unwrap();
                let [denial] = &denials[..] else { panic!("one fact is wanted: {title}") };
                assert_eq!((&denial["kind"], &denial["host"]), (&json!(kind), &json!(peer)), "{title}");
                assert_eq!(denial.get("port").unwrap_or(&Value::Null), &port, "{title}");
                assert_eq!(
                    (&denial["blocking"], &denial["widenTo"]),
                    (&json!(true), &json!("danger-full-access")),
                    "{title}"
                );
                // A host granted would be an allowlist, for which a network namespace is needed.
                assert!(denial.get("grant").is_none_or(Value::is_null), "{title}");
            }
        }
    }
}

/// An allowlist cannot be kept here: nothing runs, and the reason is given.
#[test]
fn an_allowlist_is_refused() {
    let tools = scratch();
    let refuse = refuse_program(tools.path());
    for user in User::all() {
        let scene = Scene::of(user);
        for (title, front, options) in HOSTS {
            let front = front.iter().map(|word| if *word == "REFUSE" { refuse.to_str().unwrap() } else { word });
            let stockade = [scene.stockade(), "run", "--mode", "workspace-write"];
            let rest = ["--allow-host", "good.test", "-c", "touch ran"];
            let words = front.chain(stockade).chain(options.iter().copied()).chain(rest).map(str::to_owned);
            let output = scene.start(&scene.become_user().into_iter().chain(words).collect::<Vec<_>>());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{title}: {stderr}");
            assert!(stderr.contains("allowlisted network") && stderr.contains("doctor"), "{title}: {stderr}");
            assert!(!scene.work().join("ran").exists(), "{title}: it ran");
        }
    }
}
