//! Sockets and signals in a network and PID namespace of their own. No packet leaves this machine.

#![allow(clippy::unwrap_used)] // a test that cannot set its scene has failed

mod trace_support;

use std::os::unix::net::{SocketAddr, UnixListener};

use nix::errno::Errno;
use stockade::denial::trace::{NetBackend, SignalBackend};
use stockade::denial::{DenialKind, Target};
use trace_support::{Confinement, Scene, again_as_user, errno};

fn closed(scene: &Scene) -> Confinement {
    let mut how = scene.mounts();
    how.namespaces.push("-n");
    how.setup = format!("{} && ip link set lo up", how.setup);
    how.network = NetBackend::Namespace;
    how
}

fn net(host: &str, port: Option<u16>) -> Target {
    Target::Net { host: host.to_owned(), port }
}

/// Runs one operation and expects this errno and exactly this observation.
fn one(scene: &Scene, how: &Confinement, operation: &str, expected: Option<(DenialKind, Target)>, result: Errno) {
    let (results, record) = scene.probe_all(how, &[operation.to_owned()]);
    assert_eq!(errno(results[0]), format!("{result:?}"), "{operation}");
    let seen: Vec<_> = record.observations.iter().map(|o| (o.kind, o.target.clone(), o.errno.clone())).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|(kind, target)| (kind, target, Some(format!("{result:?}")))).collect();
    assert_eq!(seen, expected, "{operation}");
}

#[test]
fn addresses_beyond_the_loopback_are_refused_and_recorded() {
    let scene = Scene::new();
    let how = closed(&scene);
    let tcp = 1;
    let udp = 2;
    for (operation, kind, target) in [
        (format!("connect4|192.0.2.7|443|{tcp}"), DenialKind::NetConnect, net("192.0.2.7", Some(443))),
        (format!("connect4|192.0.2.7|4433|{udp}"), DenialKind::NetConnect, net("192.0.2.7", Some(4433))),
        (format!("connect6|2001:db8::7|443|{tcp}"), DenialKind::NetConnect, net("2001:db8::7", Some(443))),
        (format!("connect6|::ffff:192.0.2.7|443|{tcp}"), DenialKind::NetConnect, net("192.0.2.7", Some(443))),
        (format!("connect4|192.0.2.53|53|{udp}"), DenialKind::NetResolve, net("192.0.2.53", None)),
        (format!("connect4|192.0.2.53|53|{tcp}"), DenialKind::NetConnect, net("192.0.2.53", Some(53))),
        ("sendto4|192.0.2.7|9".into(), DenialKind::NetConnect, net("192.0.2.7", Some(9))),
        ("sendto4|192.0.2.53|53".into(), DenialKind::NetResolve, net("crates.io", None)),
        ("sendmsg4|192.0.2.53|53".into(), DenialKind::NetResolve, net("crates.io", None)),
    ] {
        one(&scene, &how, &operation, Some((kind, target)), Errno::ENETUNREACH);
    }
    one(
        &scene,
        &how,
        "resolve4|127.0.0.53|53",
        Some((DenialKind::NetResolve, net("crates.io", None))),
        Errno::ECONNREFUSED,
    );
    again_as_user("addresses_beyond_the_loopback_are_refused_and_recorded");
}

#[test]
fn the_loopback_is_the_commands_own() {
    let scene = Scene::new();
    let how = closed(&scene);
    for operation in [
        "connect4|127.0.0.1|9|1",
        "connect4|0.0.0.0|9|1",
        "connect6|::1|9|1",
        "connect6|::ffff:127.0.0.1|9|1",
        "resolve4|127.0.0.1|54",
    ] {
        one(&scene, &how, operation, None, Errno::ECONNREFUSED);
    }
    for operation in ["connect4|127.0.0.1|9|2", "bind4|127.0.0.1|0|1", "bind4|0.0.0.0|8080|1", "sendto4|127.0.0.1|9"] {
        one(&scene, &how, operation, None, Errno::UnknownErrno);
    }
}

#[test]
fn an_open_network_is_not_commented_on() {
    let scene = Scene::new();
    let mut how = closed(&scene);
    // The namespace still has no route, but this policy did not ask for that.
    how.policy.network.mode = stockade::policy::NetworkMode::Full;
    one(&scene, &how, "connect4|192.0.2.7|443|1", None, Errno::ENETUNREACH);
}

#[test]
fn binding_is_refused_only_where_the_host_would_allow_it() {
    let scene = Scene::new();
    let how = closed(&scene);
    // Nobody has this address.
    one(&scene, &how, "bind4|192.0.2.7|8080|1", None, Errno::EADDRNOTAVAIL);
    let own = nix::ifaddrs::getifaddrs().unwrap().find_map(|i| {
        let ip = i.address?.as_sockaddr_in()?.ip();
        (!ip.is_loopback()).then_some(ip)
    });
    if let Some(ip) = own {
        let target = net(&ip.to_string(), Some(8080));
        one(&scene, &how, &format!("bind4|{ip}|8080|1"), Some((DenialKind::NetBind, target)), Errno::EADDRNOTAVAIL);
    }
}

#[test]
fn unix_sockets_of_the_host_are_told_from_those_that_nobody_has() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("run")).unwrap();
    let _listener = UnixListener::bind(scene.path("run/sock")).unwrap();
    let name = format!("stockade-trace-{}", std::process::id());
    let address = <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let mut how = closed(&scene);
    let socket = scene.path("run/sock");
    let shown = socket.display().to_string();
    one(&scene, &how, &format!("unixconnect|{shown}"), None, Errno::UnknownErrno);
    how.setup = format!("{} && mount -t tmpfs none {}/run", how.setup, scene.base.display());
    let connect = |path: &str| format!("unixconnect|{path}");
    one(&scene, &how, &connect(&shown), Some((DenialKind::UnixConnect, Target::Path(socket))), Errno::ENOENT);
    one(
        &scene,
        &how,
        &connect("../run/sock"),
        Some((DenialKind::UnixConnect, Target::Path(scene.path("run/sock")))),
        Errno::ENOENT,
    );
    one(&scene, &how, &connect(&format!("{shown}-none")), None, Errno::ENOENT);
    let target = Target::Path(format!("@{name}").into());
    one(&scene, &how, &format!("abstract|{name}"), Some((DenialKind::UnixConnect, target)), Errno::ECONNREFUSED);
    one(&scene, &how, &format!("abstract|{name}-none"), None, Errno::ECONNREFUSED);
}

#[test]
fn a_signal_to_a_process_of_the_host_is_recorded_and_one_to_a_dead_child_is_not() {
    let scene = Scene::new();
    let mut how = scene.mounts();
    how.namespaces.extend(["-p", "-f", "--mount-proc"]);
    how.signals = SignalBackend::Namespace;
    let mut outside = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = outside.id();
    if pid > 3000 {
        one(&scene, &how, &format!("kill|{pid}"), Some((DenialKind::Signal, Target::None)), Errno::ESRCH);
    }
    one(&scene, &how, "kill|2", None, Errno::ESRCH);
    one(&scene, &how, "kill|1", None, Errno::UnknownErrno);
    outside.kill().unwrap();
    outside.wait().unwrap();
}
