//! Attacks on the allowlist proxy by a client that has its credentials: each is refused, is one fact, and reaches no
//! server; beside each kind a control that gets through.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program: failures are panics")]

mod network_support;

use std::time::Duration;

use network_support::{Answers, Origin, Proxied, echo};
use stockade::network::proxy::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How many refusals were recorded, each as often as it happened.
fn told(proxy: &Proxied) -> u64 {
    let refusals = proxy.handle.refusals();
    refusals.not_kept + refusals.entries.iter().map(|entry| entry.count).sum::<u64>()
}

/// `good.test`, and every name that one could be talked into, lead to the one server there is; the rules name the first.
async fn scene() -> (Origin, Proxied) {
    let origin = Origin::start("127.0.0.5").await;
    let here: &[&[&str]] = &[&["127.0.0.5"]];
    let names = ["good.test", "evil.test", "localhost", "good.test.evil.test", "xn--god-0na.test", "0", "good"];
    let answers = Answers::new(&names.map(|name| (name, here)));
    let proxy = Proxied::start(&["good.test", "127.0.0.5/32"], &[], answers);
    (origin, proxy)
}

/// Sends each with the credentials: one answer of the proxy's own, one fact more, no connection.
async fn refused(origin: &Origin, proxy: &Proxied, requests: impl IntoIterator<Item = String>) {
    let reached = origin.connections();
    for request in requests {
        let before = told(proxy);
        let answer = proxy.ask(&request).await;
        let own = ["400 Bad Request", "403 Forbidden", "431 Request Header Fields Too Large"];
        assert!(own.iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status}"))), "{request:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
        assert_eq!(told(proxy) - before, 1, "{request:?}: {:#?}", proxy.refused());
    }
    assert_eq!(origin.connections(), reached);
}

#[tokio::test]
async fn authorities_of_odd_forms() {
    let (origin, proxy) = scene().await;
    let port = origin.port();
    let odd = [
        "evil.test:{}@good.test:{}",
        "good.test:{}@evil.test:{}",
        "http://good.test:{}",
        "http://good.test:{}/",
        "good.test:{}/",
        "good.test:{}?x",
        "good.test:{}#x",
        "good.test:{}:443",
        ":{}",
        ".:{}",
        "..good.test:{}",
        "good..test:{}",
        "good.test..:{}",
        "[good.test]:{}",
        "[good.test:{}",
        "good.test]:{}",
        "[127.0.0.5]:{}",
        "good.test\\.evil.test:{}",
        "good.test,evil.test:{}",
        "good.test;evil.test:{}",
        "good.test%00.evil.test:{}",
        "good.test%2f:{}",
        "*.test:{}",
        "*:{}",
        "good.test:+{}",
        "good.test:-{}",
        "good.test:0x{}",
        "good.test:{}.0",
        "good.test:0",
        "good.test:65536",
        "good.test:",
        "good.test",
        "good",
        "*",
        "/",
        "good.test.evil.test:{}",
        "localhost.:{}",
        "LOCALHOST:{}",
    ];
    let connect = |form: &str| format!("CONNECT {} HTTP/1.1\r\n\r\n", form.replace("{}", &port.to_string()));
    refused(&origin, &proxy, odd.map(connect)).await;
    for same in ["good.test:{}", "GOOD.TEST.:{}", "127.0.0.5:{}", "[::ffff:127.0.0.5]:{}"] {
        let to = same.replace("{}", &port.to_string());
        assert!(proxy.tunnel(&to).await.is_ok(), "{to}");
    }
}

#[tokio::test]
async fn addresses_in_disguise() {
    let (origin, proxy) = scene().await;
    let port = origin.port();
    let disguised = [
        "0",
        "127.5",
        "127.0.5",
        "2130706437",
        "0x7f000005",
        "0X7F.5",
        "0177.0.0.5",
        "0177.0.0.05",
        "127.0.0.0x5",
        "127.0.0.5.",
        "127.0.0.5..",
        "000127.0.0.5",
        "256.0.0.5",
        "127.0.0.5.0",
        "١٢٧.٠.٠.٥",
        "１２７。０。０。５",
        "①②⑦.⓪.⓪.⑤",
        "𝟏𝟐𝟕.𝟎.𝟎.𝟓",
        "127\u{ad}.0.0.6",
        "[::127.0.0.5]",
        "[::ffff:0:127.0.0.5]",
        "[64:ff9b::127.0.0.5]",
        "[64:ff9b:1::127.0.0.5]",
        "[2002:7f00:5::]",
        "[2001:0:7f00:5::]",
        "[fe80::1%25lo]",
        "[::1]",
        "[::]",
        "0.0.0.0",
        "255.255.255.255",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
    ];
    let each = disguised.iter().flat_map(|host| {
        let to = format!("{host}:{port}");
        [format!("CONNECT {to} HTTP/1.1\r\n\r\n"), format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n")]
    });
    refused(&origin, &proxy, each).await;
    // The same as a name of SOCKS, and what only its own address types can say.
    for host in disguised {
        let bare = host.trim_matches(['[', ']']);
        let mut domain = vec![u8::try_from(bare.len()).unwrap()];
        domain.extend(bare.bytes());
        assert_ne!(proxy.socks(3, &domain, port).await.1, 0, "{host}");
        if let Ok(address) = bare.parse::<std::net::Ipv6Addr>() {
            assert_eq!(proxy.socks(4, &address.octets(), port).await.1, 2, "{host}");
        }
    }
    for domain in
        [&b"\x00"[..], b"\x01.", b"\x0agood.test\0", b"\x0bgood.test\r\n", b"\x0agood.test\xff", b"\x0a good.test"]
    {
        assert_eq!(proxy.socks(3, domain, port).await.1, 2, "{domain:?}");
    }
    assert_eq!(origin.connections(), 0);
    // One name has many spellings: they are all that one.
    for same in ["good\u{3002}test", "ｇood.test", "g\u{ad}ood.test", "GOOD.test."] {
        let mut domain = vec![u8::try_from(same.len()).unwrap()];
        domain.extend(same.bytes());
        assert_eq!(proxy.socks(3, &domain, port).await.1, 0, "{same}");
    }
}

#[tokio::test]
async fn hosts_that_are_said_twice_or_otherwise() {
    let (origin, proxy) = scene().await;
    let to = format!("good.test:{}", origin.port());
    let line = format!("GET http://{to}/ HTTP/1.1\r\n");
    let heads = [
        format!("Host: {to}\r\nhOST: {to}\r\n"),
        format!("Host: {to}\r\nHost: evil.test\r\n"),
        format!("Host: evil.test\r\nHost: {to}\r\n"),
        "Host: evil.test\r\n".to_owned(),
        "Host: good.test\r\n".to_owned(),
        "Host:\r\n".to_owned(),
        format!("Host: {to}, evil.test\r\n"),
        format!("Host: {to} evil.test\r\n"),
        format!("Host: {to}\r\n evil.test\r\n"),
        format!("Host:\r\n {to}\r\n"),
        format!("Host : {to}\r\n"),
        format!("Host\t: {to}\r\nHost: {to}\r\n"),
        format!("\u{b}Host: evil.test\r\nHost: {to}\r\n"),
        format!("Host: x@{to}\r\n"),
        format!("Host: http://{to}\r\n"),
        format!("Host: {to}\rX: y\r\n"),
        format!("Host: {to}\nHost: evil.test\r\n"),
        "X-Host: evil.test\r\n".to_owned(),
    ];
    refused(&origin, &proxy, heads.iter().map(|head| format!("{line}{head}\r\n"))).await;
    let targets = [
        "http://good.test:{}@evil.test:{}/",
        "http://evil.test:{}/http://good.test:{}/",
        "http://evil.test:{}\\@good.test:{}/",
        "http://evil.test:{}#@good.test:{}/",
        "http://evil.test:{}?@good.test:{}/",
        "http:/good.test:{}/",
        "http:good.test:{}/",
        "http:///good.test:{}/",
        "//good.test:{}/",
        "ftp://good.test:{}/",
        "https://good.test:{}/",
        "HTTP+unix://good.test:{}/",
        "good.test:{}",
    ];
    let lines = targets.map(|target| {
        let target = target.replace("{}", &origin.port().to_string());
        format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n")
    });
    refused(&origin, &proxy, lines).await;
    // What the server gets is the judged host, whatever else the client says of it.
    let forged = "X-Forwarded-Host: evil.test\r\nForwarded: host=evil.test\r\nConnection: host, x-forwarded-host\r\n";
    let answer = proxy.ask(&format!("{line}Host: {to}\r\n{forged}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("origin"), "{answer}");
    let seen = origin.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert!(seen.contains(&format!("\r\nhost: {to}\r\n")) && !seen.contains("\r\nx-forwarded-host"), "{seen}");
}

#[tokio::test]
async fn bodies_that_end_in_two_places() {
    let (origin, proxy) = scene().await;
    let to = format!("good.test:{}", origin.port());
    let line = format!("POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\n");
    let inner = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let framings = [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length : 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding\r\n : chunked",
        "Transfer_Encoding: chunked\r\nTransfer-Encoding: x",
    ];
    refused(&origin, &proxy, framings.map(|framing| format!("{line}{framing}\r\n\r\n0\r\n\r\n{inner}"))).await;
    // Framing that is plain in the head and broken in the body: at most one request arrives, and never the inner one.
    let bodies = [
        ("Transfer-Encoding: chunked", format!("5;x={}\r\nhello\r\n0\r\n\r\n{inner}", "y".repeat(64))),
        ("Transfer-Encoding: chunked", format!("5\r\nhello\r\n0\r\nHost: evil.test\r\n\r\n{inner}")),
        ("Transfer-Encoding: chunked", format!("0x5\r\nhello\r\n0\r\n\r\n{inner}")),
        ("Transfer-Encoding: chunked", format!("-5\r\nhello\r\n0\r\n\r\n{inner}")),
        ("Transfer-Encoding: chunked", format!("ffffffffffffffff5\r\nhello\r\n0\r\n\r\n{inner}")),
        ("Transfer-Encoding: chunked", format!("5\nhello\n0\n\n{inner}")),
        ("Transfer-Encoding: chunked", format!("5\r\nhello0\r\n\r\n{inner}")),
        ("Content-Length: 5", format!("hello{inner}")),
        ("Content-Length: 99999999999999999999999999", inner.to_owned()),
    ];
    for (framing, body) in bodies {
        let before = (origin.connections(), origin.requests.lock().unwrap().len());
        let request = format!("{line}{framing}\r\n\r\n{body}");
        let answer = tokio::time::timeout(Duration::from_secs(20), proxy.ask(&request)).await.unwrap();
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{framing} {body:?}: {answer}");
        let seen = origin.requests.lock().unwrap().clone();
        assert!(origin.connections() - before.0 <= 1 && seen.len() - before.1 <= 1, "{framing} {body:?}");
        assert!(seen.iter().all(|request| !request.contains("evil")), "{framing} {body:?}: {seen:?}");
    }
    // HTTP/1.0 knows no chunks: whoever sends some means something else by them.
    refused(
        &origin,
        &proxy,
        [format!("POST http://{to}/ HTTP/1.0\r\nHost: {to}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")],
    )
    .await;
}

#[tokio::test]
async fn a_connection_serves_one_host() {
    let (origin, proxy) = scene().await;
    let to = format!("good.test:{}", origin.port());
    let login = proxy.authorization();
    let first = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: keep-alive\r\n{login}\r\n");
    let second = format!("GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n{login}\r\n");
    // In one write, and after the answer to the first.
    assert_eq!(proxy.ask_raw(format!("{first}{second}").as_bytes()).await.matches("HTTP/1.1 ").count(), 1);
    let mut client = proxy.connect().await;
    client.write_all(first.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"origin") {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
    }
    client.write_all(second.as_bytes()).await.ok();
    let mut more = Vec::new();
    client.read_to_end(&mut more).await.ok();
    assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
    assert_eq!(proxy.answers.asked("evil.test"), 0);
    assert_eq!(origin.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn floods_and_other_protocols() {
    let (origin, proxy) = scene().await;
    let to = format!("good.test:{}", origin.port());
    let line = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n");
    let long = "a".repeat(40_000);
    refused(
        &origin,
        &proxy,
        [
            format!("{line}{}\r\n", "X: y\r\n".repeat(101)),
            format!("{line}{}\r\n", "X: y\r\n".repeat(6000)),
            format!("{line}X: {long}\r\n\r\n"),
            format!("{line}{long}: x\r\n\r\n"),
            format!("GET http://{to}/{long} HTTP/1.1\r\nHost: {to}\r\n\r\n"),
            format!("CONNECT {long}.test:80 HTTP/1.1\r\n\r\n"),
            format!("GET http://{to}/ HTTP/0.9\r\nHost: {to}\r\n\r\n"),
            format!("GET http://{to}/ HTTP/2.0\r\nHost: {to}\r\n\r\n"),
            format!("GET http://{to}/ HTTP/1.1 \r\nHost: {to}\r\n\r\n"),
            format!("G\u{1}T http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        ],
    )
    .await;
    let raw: [&[u8]; 5] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://good.test/\r\n\r\n",
        b"\x04\x01\x00\x50\x7f\x00\x00\x05user\x00\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\n",
        b"\r\n\r\n\r\n\0\n",
    ];
    for bytes in raw {
        let before = told(&proxy);
        let answer = proxy.ask_raw(bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bytes:?}: {answer}");
        assert_eq!(told(&proxy) - before, 1, "{bytes:?}");
    }
    assert_eq!(origin.connections(), 0);
    // The controls: as many headers as there may be, and a head that comes in two hundred pieces.
    assert!(proxy.ask(&format!("{line}{}\r\n", "X: y\r\n".repeat(98))).await.ends_with("origin"));
    let mut client = proxy.connect().await;
    for piece in format!("{line}{}\r\n", proxy.authorization()).as_bytes() {
        client.write_all(&[*piece]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("origin"), "{answer}");
}

#[tokio::test]
async fn socks_beyond_connect() {
    let server = echo("127.0.0.5").await;
    let (_, proxy) = scene().await;
    let port = server.port();
    let here = [127, 0, 0, 5];
    for command in [0, 2, 3, 4, 0xf0, 0xff] {
        let before = told(&proxy);
        assert_eq!(proxy.socks_command(command, 1, &here, port).await.1, 7, "command {command}");
        assert_eq!(told(&proxy) - before, 1, "command {command}: {:#?}", proxy.refused());
    }
    assert_eq!(proxy.socks(1, &here, 0).await.1, 2, "port 0");
    assert_eq!(proxy.socks(2, &here, port).await.1, 8, "an address type that there is not");
    // Everything in one write, with the first data behind it, as an impatient client sends it.
    let credentials = proxy.token.credentials();
    let (user, password) = credentials.split_once(':').unwrap();
    let login = |password: &str| {
        let mut bytes = vec![5, 1, 2, 1, u8::try_from(user.len()).unwrap()];
        bytes.extend(user.bytes());
        bytes.push(u8::try_from(password.len()).unwrap());
        bytes.extend(password.bytes());
        bytes.extend([5, 1, 0, 1, 127, 0, 0, 5]);
        bytes.extend(port.to_be_bytes());
        bytes.extend(b"early");
        bytes
    };
    let mut client = proxy.connect().await;
    client.write_all(&login(password)).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [&[5, 2, 1, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"early"].concat());
    // The same with another's password: the request behind it is not looked at.
    let before = told(&proxy);
    let mut client = proxy.connect().await;
    client.write_all(&login(&password.replace(|c: char| c.is_ascii_digit(), "z"))).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.ok();
    assert_eq!(answer, [5, 2, 1, 1]);
    for methods in [&b"\x05\x00"[..], b"\x05\x01\x00", b"\x05\x02\x00\x01", b"\x05\x03\x00\x01\x03"] {
        let mut client = proxy.connect().await;
        client.write_all(methods).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.ok();
        assert_eq!(answer, [5, 0xff], "{methods:?}");
    }
    assert_eq!(told(&proxy) - before, 5, "{:#?}", proxy.refused());
}

#[tokio::test]
async fn a_client_that_dribbles_does_not_keep_its_place() {
    let server = echo("127.0.0.5").await;
    let limits = Limits { greeting: Duration::from_millis(400), connections: 8, tunnels: 8, ..Limits::default() };
    let proxy = Proxied::start_with(&["127.0.0.5"], &[], Answers::new(&[]), limits);
    let mut dribbling = Vec::new();
    for start in ["GET http://127.0.0.5/ HTTP/1.1\r\n", "\u{5}\u{1}\u{2}\u{1}\u{ff}"] {
        for _ in 0..4 {
            let mut client = proxy.connect().await;
            client.write_all(&start.chars().map(|c| c as u8).collect::<Vec<_>>()).await.unwrap();
            dribbling.push(client);
        }
    }
    let dribble = tokio::spawn(async move {
        for _ in 0..100 {
            for client in &mut dribbling {
                client.write_all(b"a").await.ok();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    // All places are taken; the next client is served when those have had their time, though they never fell silent.
    let tunnel = tokio::time::timeout(Duration::from_secs(10), proxy.tunnel(&server.to_string())).await.unwrap();
    let mut tunnel = tunnel.unwrap();
    tunnel.write_all(b"x").await.unwrap();
    assert_eq!(tunnel.read_u8().await.unwrap(), b'x');
    assert!(!dribble.is_finished(), "they are at it still");
    dribble.abort();
}

#[tokio::test]
async fn peers_that_end_halfway() {
    let listener = tokio::net::TcpListener::bind("127.0.0.5:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits { half_closed_idle: Duration::from_millis(500), ..Limits::default() };
    let proxy = Proxied::start_with(&["127.0.0.5"], &[], Answers::new(&[]), limits);
    // A client that has finished and a server that says nothing: closed after the shorter time.
    let mut client = proxy.tunnel(&address.to_string()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), client.read(&mut [0])).await.unwrap().unwrap_or(0), 0);
    // A reset on one side is an end on the other, in either direction.
    for client_resets in [true, false] {
        let client = proxy.tunnel(&address.to_string()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let (gone, mut left) = if client_resets { (client, server) } else { (server, client) };
        gone.set_zero_linger().unwrap();
        drop(gone);
        let end = tokio::time::timeout(Duration::from_secs(10), left.read(&mut [0])).await.unwrap();
        assert!(!matches!(end, Ok(1..)), "{end:?}");
    }
    // Half a head, then the end: no answer is owed, and the proxy goes on.
    for half in ["CONNECT 127.0.0.5:", "\u{5}", "\u{5}\u{2}\u{0}"] {
        let mut client = proxy.connect().await;
        client.write_all(half.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut answer)).await.unwrap().ok();
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{half:?}");
    }
    assert!(proxy.tunnel(&address.to_string()).await.is_ok());
}
