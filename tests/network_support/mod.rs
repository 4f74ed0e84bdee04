//! Servers on loopback addresses, a resolver with made-up answers, and a proxy in front of them. No packet leaves the
//! machine: every name leads to 127.0.0.0/8 or to nothing.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod files;
pub(crate) mod namespace;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stockade::network::proxy::{Limits, Proxy, ProxyHandle, Resolve, Token};
use stockade::network::rules::RuleSet;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Answers in turn; the last one for ever.
#[derive(Default)]
pub(crate) struct Answers {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Mutex<HashMap<String, usize>>,
    never: bool,
}

impl Answers {
    pub(crate) fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |turn: &&[&str]| turn.iter().map(|address| address.parse().unwrap()).collect();
        let answers =
            answers.iter().map(|(name, turns)| ((*name).to_owned(), turns.iter().map(parse).collect())).collect();
        Arc::new(Self { answers, ..Self::default() })
    }

    /// A resolver that is asked and does not answer.
    pub(crate) fn never() -> Arc<Self> {
        Arc::new(Self { never: true, ..Self::default() })
    }

    pub(crate) fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

impl Resolve for Answers {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let mut asked = self.asked.lock().unwrap();
        let turn = asked.entry(name.to_owned()).or_default();
        let answer = match self.answers.get(name) {
            Some(turns) => Ok(turns[(*turn).min(turns.len() - 1)].clone()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
        };
        *turn += 1;
        if self.never {
            return Box::pin(std::future::pending());
        }
        Box::pin(async move { answer })
    }
}

pub(crate) struct Proxied {
    pub(crate) handle: ProxyHandle,
    pub(crate) token: Token,
    pub(crate) answers: Arc<Answers>,
}

impl Proxied {
    pub(crate) fn start(allow: &[&str], deny: &[&str], answers: Arc<Answers>) -> Self {
        Self::start_with(allow, deny, answers, Limits::default())
    }

    pub(crate) fn start_with(allow: &[&str], deny: &[&str], answers: Arc<Answers>, limits: Limits) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (token, rules) = (Token::random().unwrap(), Arc::new(RuleSet::new(allow, deny).unwrap()));
        let resolver: Arc<dyn Resolve> = Arc::clone(&answers) as Arc<dyn Resolve>;
        let handle = Proxy::start_with(listener, rules, token.clone(), resolver, limits).unwrap();
        Self { handle, token, answers }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.handle.address()).await.unwrap()
    }

    pub(crate) fn authorization(&self) -> String {
        basic(&self.token.credentials())
    }

    /// Sends `request` with the credentials put in after its first line, and reads all that comes back.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let (line, rest) = request.split_once("\r\n").unwrap();
        self.ask_raw(format!("{line}\r\n{}{rest}", self.authorization()).as_bytes()).await
    }

    pub(crate) async fn ask_raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A tunnel that is open, or the answer that refused it.
    pub(crate) async fn tunnel(&self, to: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", self.authorization());
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => answer.push(byte),
                Err(_) => break,
            }
        }
        if answer.starts_with(b"HTTP/1.1 200") {
            return Ok(stream);
        }
        stream.read_to_end(&mut answer).await.ok();
        Err(String::from_utf8_lossy(&answer).into_owned())
    }

    /// SOCKS5 up to the reply; its code, or the method or authentication answer that ended it.
    pub(crate) async fn socks(&self, kind: u8, address: &[u8], port: u16) -> (TcpStream, u8) {
        self.socks_command(1, kind, address, port).await
    }

    pub(crate) async fn socks_command(&self, command: u8, kind: u8, address: &[u8], port: u16) -> (TcpStream, u8) {
        let mut stream = self.connect().await;
        let credentials = self.token.credentials();
        let (user, password) = credentials.split_once(':').unwrap();
        stream.write_all(&[5, 2, 0, 2]).await.unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 2]);
        let mut login = vec![1, u8::try_from(user.len()).unwrap()];
        login.extend(user.bytes());
        login.push(u8::try_from(password.len()).unwrap());
        login.extend(password.bytes());
        stream.write_all(&login).await.unwrap();
        let mut status = [0; 2];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(status, [1, 0]);
        let mut request = vec![5, command, 0, kind];
        request.extend(address);
        request.extend(port.to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).await.unwrap();
        (stream, reply[1])
    }

    /// `host:port reason` of every refusal.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.handle
            .refusals()
            .entries
            .into_iter()
            .map(|entry| match entry.port {
                Some(port) => format!("{}:{port} {}", entry.host, entry.reason),
                None => format!("{} {}", entry.host, entry.reason),
            })
            .collect()
    }
}

pub(crate) fn basic(credentials: &str) -> String {
    use base64::Engine as _;
    format!("Proxy-Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(credentials))
}

/// A server that counts connections and answers each with what it got, up to the end of a head, as an HTTP response.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    pub(crate) async fn start(ip: &str) -> Self {
        Self::on(TcpListener::bind((ip, 0)).await.unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, log) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer(stream, Arc::clone(&log)));
            }
        });
        Self { address, connections, requests }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn answer(mut stream: TcpStream, log: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let lower = text.to_ascii_lowercase();
    let mut body = Vec::new();
    if let Some(length) = lower.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        body.resize(length.trim().parse().unwrap(), 0);
        stream.read_exact(&mut body).await.unwrap();
    } else if lower.contains("transfer-encoding: chunked") {
        while !body.ends_with(b"0\r\n\r\n") {
            body.push(stream.read_u8().await.unwrap());
        }
    }
    log.lock().unwrap().push(format!("{text}{}", String::from_utf8_lossy(&body)));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Origin: yes\r\n\r\norigin").await.ok();
}

/// A server that sends everything back and ends when its client has.
pub(crate) async fn echo(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await.ok();
                to.shutdown().await.ok();
            });
        }
    });
    address
}
