//! A static file server that counts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A static file server outside, and what it was asked for.
pub(crate) struct Files {
    pub(crate) root: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Files {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, root) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (directory, requests) = (root.path().to_owned(), Arc::clone(&log));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (directory, requests) = (directory.clone(), Arc::clone(&requests));
                std::thread::spawn(move || serve_file(stream, &directory, &requests));
            }
        });
        Self { root, address, log }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}/{path}", self.address.port())
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

pub(crate) fn serve_file(stream: std::net::TcpStream, root: &Path, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut header = String::new();
    while reader.read_line(&mut header).ok()? > 2 {
        header.clear();
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    log.lock().unwrap().push(target.to_owned());
    let path = root.join(target.split('?').next()?.trim_start_matches('/'));
    let path = if path.is_dir() { path.join("index.html") } else { path };
    let (status, body) = match std::fs::read(&path) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        None => "application/json",
        Some(_) => "application/octet-stream",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (&stream).write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        (&stream).write_all(&body).ok()?;
    }
    Some(())
}
