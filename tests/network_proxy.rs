//! The allowlist proxy on the wire: what it lets through, what it refuses, and that what it refuses never reaches a
//! server.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program: failures are panics")]

mod network_support;

use std::time::Duration;

use network_support::{Answers, Origin, Proxied, basic, echo};
use stockade::denial::{Denial, DenialKind, Witness};
use stockade::network::proxy::{Limits, RefusalReason, Token};
use stockade::network::rules::Refused;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_tunnel_to_an_allowed_name_carries_both_ways_and_another_name_is_refused() {
    let server = echo("127.0.0.1").await;
    let answers = Answers::new(&[("good.test", &[&["127.0.0.1"]]), ("bad.test", &[&["127.0.0.1"]])]);
    let proxy = Proxied::start(&["good.test", "127.0.0.1"], &[], answers);
    let mut tunnel = proxy.tunnel(&format!("GOOD.test.:{}", server.port())).await.unwrap();
    tunnel.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    tunnel.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");

    let refused = proxy.tunnel("bad.test:443").await.unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    for part in ["bad.test:443", "no allow rule covers it", "additional_permissions", "--allow-host bad.test:443"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(proxy.answers.asked("bad.test"), 0, "a refused name is not even looked up");
    let refusals = proxy.handle.refusals();
    assert_eq!(refusals.entries.len(), 1);
    assert_eq!(refusals.entries[0].grant.as_deref(), Some("bad.test:443"));
    let denial = Denial::from(&refusals.entries[0]);
    assert_eq!((denial.kind, denial.target().as_str()), (DenialKind::NetConnect, "bad.test:443"));
    assert_eq!(denial.sources, [Witness::Proxy]);
}

#[tokio::test]
async fn an_end_in_one_direction_leaves_the_other_open() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        // The client has finished; the answer starts only now.
        stream.write_all(format!("got {}", all.len()).as_bytes()).await.unwrap();
    });
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let mut tunnel = proxy.tunnel(&address.to_string()).await.unwrap();
    // Enough for both ways of carrying: by copying and through a pipe.
    tunnel.write_all(&vec![7; 5_000_000]).await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "got 5000000");
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_ends_first_still_gets_the_rest() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        all.len()
    });
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let mut tunnel = proxy.tunnel(&address.to_string()).await.unwrap();
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "bye");
    tunnel.write_all(&vec![1; 100_000]).await.unwrap();
    drop(tunnel);
    assert_eq!(server.await.unwrap(), 100_000);
}

#[tokio::test]
async fn a_plain_request_is_written_anew_for_the_server() {
    let origin = Origin::start("127.0.0.1").await;
    let port = origin.port();
    let proxy = Proxied::start(&["good.test", "127.0.0.1"], &[], Answers::new(&[("good.test", &[&["127.0.0.1"]])]));
    let answer = proxy
        .ask(&format!(
            "GET http://Good.test:{port}/a?b=c HTTP/1.1\r\nHost: good.test:{port}\r\nX-Hop: 1\r\nX-End: 2\r\n\
             Connection: X-Hop, close\r\nProxy-Connection: keep-alive\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("origin"), "{answer}");
    let seen = origin.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert!(seen.starts_with("get /a?b=c http/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: good.test:{port}\r\n")) && seen.contains("x-end: 2\r\n"), "{seen}");
    for gone in ["proxy-", "x-hop", "connection"] {
        assert!(!seen.contains(gone), "{gone}: {seen}");
    }
}

#[tokio::test]
async fn bodies_arrive_whole_and_nothing_after_them_does() {
    let origin = Origin::start("127.0.0.1").await;
    let to = origin.address;
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let smuggled = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let head = format!("POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\n{}", proxy.authorization());
    for (framing, body) in [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")] {
        let answer = proxy.ask_raw(format!("{head}{framing}\r\n\r\n{body}{smuggled}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "one request, one answer: {answer}");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let seen = origin.requests.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|request| request.contains("hello") && !request.contains("evil")), "{seen:?}");
    assert_eq!(origin.connections(), 2);
}

#[tokio::test]
async fn requests_with_two_readings_are_refused_and_reach_nobody() {
    let origin = Origin::start("127.0.0.1").await;
    let to = origin.address;
    let proxy = Proxied::start(&["127.0.0.1", "good.test"], &[], Answers::new(&[("good.test", &[&["127.0.0.1"]])]));
    let port = to.port();
    let get = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n");
    let cases = [
        format!("{get}Host: {to}\r\n\r\n"),
        format!("{get}Host: evil.test\r\n\r\n"),
        format!("GET http://{to}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
        format!("GET http://{to}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://good.test@{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        format!("GET http://u:p@good.test:{port}/ HTTP/1.1\r\nHost: good.test:{port}\r\n\r\n"),
        format!("{get}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{get}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"),
        format!("GET / HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        format!("GET https://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        format!("CONNECT {to} HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"),
        "CONNECT good.test HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT x@good.test:{port} HTTP/1.1\r\n\r\n"),
    ];
    for case in &cases {
        let answer = proxy.ask(case).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{case:?}: {answer}");
    }
    for raw in [
        format!("CONNECT evil.test\0.good.test:{port} HTTP/1.1\r\n{}\r\n", proxy.authorization()),
        format!("CONNECT good.test:{port} HTTP/1.1\r\n{}", proxy.authorization()).replace("\r\n", "\n") + "\n",
        "\u{16}\u{3}\u{1}\u{0}\n".to_owned(),
    ] {
        let answer = proxy.ask_raw(raw.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{raw:?}: {answer}");
    }
    let huge = format!("{get}X: {}\r\n\r\n", "a".repeat(64 * 1024));
    assert!(proxy.ask(&huge).await.starts_with("HTTP/1.1 431 "));
    assert_eq!(origin.connections(), 0);
    assert!(proxy.handle.refusals().entries.len() >= 8, "{:#?}", proxy.refused());
    // The control: the same request, said once.
    assert!(proxy.ask(&format!("{get}\r\n")).await.ends_with("origin"));
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn bypasses_by_spelling_and_port_are_refused_by_both_protocols() {
    let secret = Origin::start("127.0.0.1").await;
    let port = secret.port();
    let public: &[&[&str]] = &[&["127.0.0.1"]];
    let answers = Answers::new(&[("good.test", public), ("localhost", public), ("good.test.evil.test", public)]);
    let proxy = Proxied::start(&["good.test:443", "*.good.test:443"], &[], answers);
    let hosts = [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "127.0.0.1.",
        "localhost",
        "good.test.evil.test",
        "evilgood.test",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "good.test%2eevil.test",
        "good.test",
        "[::]",
        "[fe80::1%25lo]",
    ];
    for host in hosts {
        let before: u64 = proxy.handle.refusals().entries.iter().map(|entry| entry.count).sum();
        let answer = proxy.tunnel(&format!("{host}:{port}")).await.unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
        let answer = proxy.ask(&format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
        let bare = host.trim_matches(['[', ']']);
        let mut domain = vec![u8::try_from(bare.len()).unwrap()];
        domain.extend(bare.bytes());
        assert_eq!(proxy.socks(3, &domain, port).await.1, 2, "{host}");
        let recorded: u64 = proxy.handle.refusals().entries.iter().map(|entry| entry.count).sum();
        assert_eq!(recorded - before, 3, "each of the three is a fact: {host}: {:#?}", proxy.refused());
    }
    assert_eq!(proxy.socks(1, &[127, 0, 0, 1], port).await.1, 2);
    let mut mapped = [0_u8; 16];
    mapped[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
    assert_eq!(proxy.socks(4, &mapped, port).await.1, 2);
    let nul = b"\x10good.test\0.e.test";
    assert_eq!(proxy.socks(3, &nul[..17], port).await.1, 2);
    assert_eq!(secret.connections(), 0, "nothing got through");
    // The control: the server can be reached where the rules name it.
    let open = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    assert!(open.tunnel(&format!("127.0.0.1:{port}")).await.is_ok());
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_unless_the_address_is_named() {
    let secret = Origin::start("127.0.0.1").await;
    let port = secret.port();
    let inside = [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "169.254.0.1",
        "fd00:ec2::254",
        "fe80::1",
        "0.0.0.0",
        "::",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "224.0.0.1",
        "fc00::1",
    ];
    for address in inside {
        let answers = Answers::new(&[("good.test", &[&[address]])]);
        let proxy = Proxied::start(&["good.test", "0.0.0.0/0", "::/0"], &[], answers);
        let answer = proxy.tunnel(&format!("good.test:{port}")).await.unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(address), "{address}: {answer}");
        let refusal = &proxy.handle.refusals().entries[0];
        assert_eq!(
            (refusal.host.as_str(), refusal.port, refusal.kind()),
            ("good.test", Some(port), DenialKind::NetResolve)
        );
        assert!(matches!(refusal.reason, RefusalReason::Rule(Refused::SpecialAddress { .. })), "{refusal:?}");
    }
    assert_eq!(secret.connections(), 0);
    // Several answers: the bad one is left out, the good one is dialled.
    let answers = Answers::new(&[("good.test", &[&["10.0.0.1", "127.0.0.1"]])]);
    let proxy = Proxied::start(&["good.test", "127.0.0.1"], &[], answers);
    assert!(proxy.tunnel(&format!("good.test:{port}")).await.is_ok());
    // A deny rule for the address holds for names too.
    let answers = Answers::new(&[("good.test", &[&["127.0.0.1"]])]);
    let proxy = Proxied::start(&["good.test", "127.0.0.0/8"], &["127.0.0.1"], answers);
    assert!(proxy.tunnel(&format!("good.test:{port}")).await.unwrap_err().contains("deny rule 127.0.0.1"));
    assert_eq!(secret.connections(), 1);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_dialled_where_it_was_checked() {
    let listener = tokio::net::TcpListener::bind("127.0.0.5:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (named, secret) = (Origin::on(listener), tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    let secret = Origin::on(secret);
    let answers = Answers::new(&[("flip.test", &[&["127.0.0.5"], &["127.0.0.1"], &["127.0.0.5"], &["127.0.0.1"]])]);
    let proxy = Proxied::start(&["flip.test", "127.0.0.5"], &[], answers);
    let to = format!("flip.test:{port}");
    assert!(proxy.tunnel(&to).await.is_ok());
    assert_eq!(proxy.answers.asked("flip.test"), 1, "looked up once: there is no second answer to dial");
    assert!(proxy.tunnel(&to).await.unwrap_err().starts_with("HTTP/1.1 403 "));
    assert!(proxy.ask(&format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n")).await.ends_with("origin"));
    assert!(proxy.ask(&format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n")).await.starts_with("HTTP/1.1 403 "));
    assert_eq!((named.connections(), secret.connections()), (2, 0));
}

#[tokio::test]
async fn socks_serves_names_and_both_kinds_of_address() {
    let server = echo("127.0.0.1").await;
    let answers = Answers::new(&[("good.test", &[&["127.0.0.1"]])]);
    let proxy = Proxied::start(&["good.test", "127.0.0.1"], &[], answers);
    let mut mapped = [0_u8; 16];
    mapped[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
    for (kind, address) in [(3, &b"\x09good.test"[..]), (1, &[127, 0, 0, 1]), (4, &mapped)] {
        let (mut stream, code) = proxy.socks(kind, address, server.port()).await;
        assert_eq!(code, 0, "{kind}");
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
    }
    assert_eq!(proxy.socks(3, b"\x08bad.test", 80).await.1, 2, "not allowed");
    assert_eq!(proxy.socks_command(2, 1, &[127, 0, 0, 1], 80).await.1, 7, "BIND");
    assert_eq!(proxy.socks_command(3, 1, &[127, 0, 0, 1], 53).await.1, 7, "UDP ASSOCIATE");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(proxy.socks(1, &[127, 0, 0, 1], closed.port()).await.1, 5, "connection refused");
}

#[tokio::test]
async fn one_sandbox_cannot_use_the_proxy_of_another() {
    let origin = Origin::start("127.0.0.1").await;
    let to = origin.address;
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let other = Token::random().unwrap().credentials();
    for header in ["", &*basic(&other), &*basic("stockade:"), &*basic(""), "Proxy-Authorization: Basic %%%\r\n"] {
        for head in [format!("CONNECT {to} HTTP/1.1\r\n"), format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n")] {
            let answer = proxy.ask_raw(format!("{head}{header}\r\n").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 407 ") && answer.contains("Proxy-Authenticate: Basic"), "{answer}");
        }
    }
    let mut stream = proxy.connect().await;
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [5, 0xff], "without a password no SOCKS");
    let mut stream = proxy.connect().await;
    stream.write_all(b"\x05\x01\x02\x01\x08stockade\x03bad").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    assert_eq!(answer, [5, 2, 1, 1]);
    assert_eq!(origin.connections(), 0);
    let reasons: Vec<_> = proxy.handle.refusals().entries.into_iter().map(|entry| entry.reason).collect();
    assert!(reasons.contains(&RefusalReason::NoCredentials) && reasons.contains(&RefusalReason::WrongCredentials));
    assert!(proxy.tunnel(&to.to_string()).await.is_ok());
    let none_for_it = |entry: &stockade::network::proxy::ProxyRefusal| {
        entry.reason == RefusalReason::NoCredentials && entry.port.is_some()
    };
    assert!(!proxy.handle.refusals().entries.iter().any(none_for_it), "asked again with credentials: forgiven");
}

#[tokio::test]
async fn slow_and_silent_clients_are_cut_off() {
    let server = echo("127.0.0.1").await;
    let limits = Limits {
        greeting: Duration::from_millis(300),
        idle: Duration::from_millis(600),
        half_closed_idle: Duration::from_millis(600),
        ..Limits::default()
    };
    let proxy = Proxied::start_with(&["127.0.0.1"], &[], Answers::new(&[]), limits);
    for start in [&b""[..], b"CONN", b"\x05", b"\x05\x01\x02\x01"] {
        let mut stream = proxy.connect().await;
        stream.write_all(start).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap().ok();
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
    }
    let mut tunnel = proxy.tunnel(&server.to_string()).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tunnel.write_all(b"x").await.unwrap();
        assert_eq!(tunnel.read_u8().await.unwrap(), b'x', "a tunnel in use stays open beyond the idle time");
    }
    let end = tokio::time::timeout(Duration::from_secs(10), tunnel.read_u8()).await.unwrap();
    assert!(end.is_err(), "an idle tunnel is closed");
}

/// Accepts and then says nothing.
async fn silent_server() -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (address, holding)
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let (server, _holding) = silent_server().await;
    let limits = Limits { idle: Duration::from_millis(500), ..Limits::default() };
    let proxy = Proxied::start_with(&["127.0.0.1"], &[], Answers::new(&[]), limits);
    let get = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n\r\n");
    let answer = tokio::time::timeout(Duration::from_secs(10), proxy.ask(&get)).await.unwrap();
    assert_eq!(answer, "");
}

#[tokio::test]
async fn the_end_comes_in_every_state_within_a_second() {
    let (server, _holding) = silent_server().await;
    let proxy = Proxied::start(&["127.0.0.1", "slow.test"], &[], Answers::never());
    let login = proxy.authorization();
    let mut clients = Vec::new();
    for start in [
        String::new(),
        "CONN".to_owned(),
        "\u{5}\u{1}".to_owned(),
        format!("CONNECT slow.test:443 HTTP/1.1\r\n{login}\r\n"),
        format!("CONNECT {server} HTTP/1.1\r\n{login}\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n{login}\r\n"),
        format!("POST http://{server}/ HTTP/1.1\r\nHost: {server}\r\nContent-Length: 9\r\n{login}\r\nhalf"),
    ] {
        let mut client = proxy.connect().await;
        client.write_all(start.as_bytes()).await.unwrap();
        clients.push(client);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(proxy.answers.asked("slow.test"), 1);
    assert!(proxy.handle.shutdown().await, "everything ended within the limit");
    for mut client in clients {
        let mut rest = Vec::new();
        tokio::time::timeout(Duration::from_secs(5), client.read_to_end(&mut rest)).await.unwrap().ok();
    }
}

#[tokio::test]
async fn an_unreachable_server_is_no_denial() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxied::start(&["127.0.0.1", "gone.test"], &[], Answers::new(&[]));
    assert!(proxy.tunnel(&closed.to_string()).await.unwrap_err().starts_with("HTTP/1.1 502 "));
    assert!(proxy.tunnel("gone.test:443").await.unwrap_err().starts_with("HTTP/1.1 502 "));
    assert_eq!(proxy.handle.refusals().entries, []);
}

#[tokio::test]
async fn a_descriptor_that_is_no_listener_is_refused() {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use stockade::network::proxy::{Proxy, SystemResolver};
    use stockade::network::rules::RuleSet;
    let start = |fd: OwnedFd| {
        let token = Token::random().unwrap();
        Proxy::start(fd, Arc::new(RuleSet::default()), token, Arc::new(SystemResolver::default()))
    };
    assert!(start(std::fs::File::open("/dev/null").unwrap().into()).is_err());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = start(OwnedFd::from(listener)).unwrap();
    assert!(TcpStream::connect(address).await.is_ok());
    assert!(handle.shutdown().await);
    assert!(TcpStream::connect(address).await.is_err(), "the socket is closed with the proxy");
}
