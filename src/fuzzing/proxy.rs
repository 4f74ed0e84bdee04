//! What a command says to the network proxy, over a real socket of the loopback; names resolve to nothing.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::network::proxy::{Limits, Proxy, Resolve, Token};
use crate::network::rules::{Destination, Rule, RuleSet};

/// Stands for the proxy's own credentials in a header.
const MARK: &[u8] = b"@@";

/// Longer than any of it can take: whoever waits this long hangs.
const PATIENCE: Duration = Duration::from_secs(10);

struct Nowhere;

impl Resolve for Nowhere {
    fn resolve<'a>(&'a self, _: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async { Err(io::Error::from(io::ErrorKind::NotFound)) })
    }
}

/// The first byte chooses what comes before the rest: nothing, or a SOCKS greeting with the right password.
pub fn proxy(data: &[u8]) {
    let Some((way, bytes)) = data.split_first() else { return };
    names(&String::from_utf8_lossy(bytes));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(talk(*way, bytes));
}

/// Entries of an allowlist: what is read is written so that it reads the same again.
fn names(text: &str) {
    if let Ok(destination) = Destination::parse(text, Some(80)) {
        assert_eq!(Destination::parse(&destination.to_string(), None).unwrap(), destination);
        let exact = Rule::exact(&destination);
        assert!(exact.covers(&destination), "{exact:?}");
        assert!(exact.is_within(&exact) && !exact.is_narrower_than(&exact));
    }
    let lines: Vec<&str> = text.lines().collect();
    if let Ok(rules) = RuleSet::new(&lines, &[] as &[&str]) {
        for line in lines {
            let Ok(destination) = Destination::parse(line, None) else { continue };
            if let Err(refused) = rules.check(&destination) {
                assert!(!refused.to_string().is_empty());
            }
        }
    }
}

async fn talk(way: u8, bytes: &[u8]) {
    let token = Token::random().unwrap();
    let mut sent = Vec::new();
    let credentials = token.credentials();
    if way & 1 == 1
        && let Some((user, password)) = credentials.split_once(':')
    {
        sent.extend([5, 1, 2, 1]);
        for part in [user, password] {
            sent.push(u8::try_from(part.len()).unwrap());
            sent.extend(part.as_bytes());
        }
        sent.extend(bytes);
    } else {
        let basic = base64::engine::general_purpose::STANDARD.encode(&credentials);
        let mut rest = bytes;
        while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
            sent.extend(&rest[..at]);
            sent.extend(basic.as_bytes());
            rest = &rest[at + MARK.len()..];
        }
        sent.extend(rest);
    }
    let rules = RuleSet::new(&["*.allowed.test", "127.0.0.1:1"], &["no.allowed.test"]).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let limits = Limits { greeting: Duration::from_secs(2), ..Limits::default() };
    let handle = Proxy::start_with(listener, Arc::new(rules), token, Arc::new(Nowhere), limits).unwrap();
    let answer = tokio::time::timeout(PATIENCE, exchange(handle.address(), &sent)).await;
    assert!(answer.is_ok(), "the proxy neither answers nor closes");
    let refusals = handle.refusals();
    for refusal in &refusals.entries {
        assert_eq!(refusal.observation(1).seq, 1);
    }
    handle.shutdown().await;
}

/// Sends everything and reads to the end. The connection is reset when it is dropped, so that none lingers.
async fn exchange(address: SocketAddr, sent: &[u8]) -> io::Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_zero_linger()?;
    let mut stream = socket.connect(address).await?;
    stream.write_all(sent).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer).await?;
    Ok(())
}
