//! A network of the test's own, with public addresses and a name server, none of which exists anywhere else: nothing
//! leads out of it, so packets for an address that it does not have go nowhere.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::scene::{Scene, Server};
use crate::user::User;

/// Addresses of `good.test`, `bad.test` and a third that rules name by address.
pub(crate) const GOOD: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
pub(crate) const BAD: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 35);
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 36);
pub(crate) const SIXTH: &str = "2606:2800:220:1::34";

/// Set in the process of an ordinary user that has become the owner of a user namespace.
const AGAIN: &str = "STOCKADE_TEST_OWNS_NAMESPACE";

/// What stands in a country.
pub(crate) struct Country {
    names: Names,
    _settings: tempfile::TempDir,
}

/// Runs `body` on a thread of its own in such a network. `test` is the test's name: where this user may make networks in
/// a user namespace only, it runs itself there.
pub(crate) fn within(test: &str, body: impl FnOnce(&Country) + Send + 'static) {
    let own = std::thread::spawn(|| {
        if unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_err() {
            return false;
        }
        body(&Country::found());
        true
    });
    match own.join() {
        Ok(true) => {}
        Ok(false) => again(test),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn again(test: &str) {
    assert!(std::env::var_os(AGAIN).is_none(), "no network namespace, not even in a user namespace");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(std::env::current_exe().unwrap());
    let status = command.args(["--exact", test, "--nocapture"]).env(AGAIN, "1").status().unwrap();
    assert!(status.success(), "{test} in a user namespace: {status}");
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

impl Country {
    fn found() -> Self {
        ip("link set lo up");
        for address in [GOOD, BAD, OTHER] {
            ip(&format!("address add {address}/32 dev lo"));
        }
        ip(&format!("address add {SIXTH}/128 dev lo nodad"));
        let settings = tempfile::tempdir().unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        // A resolver daemon of the host's would answer in place of the settings.
        mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        if let Ok(path) = std::fs::canonicalize("/etc/resolv.conf") {
            let own = settings.path().join("resolv.conf");
            std::fs::write(&own, "nameserver 127.0.0.1\n").unwrap();
            mount(Some(&own), &path, none, MsFlags::MS_BIND, none).unwrap();
        }
        let names = Names::serve();
        names.set("good.test", &[GOOD]);
        names.set("bad.test", &[BAD]);
        Self { names, _settings: settings }
    }

    /// One for each user that there is here.
    pub(crate) fn scenes(&self) -> Vec<Scene> {
        if std::env::var_os(AGAIN).is_some() { vec![Scene::of(User::current())] } else { Scene::all() }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// A server at an address of the country.
    pub(crate) fn server(&self, address: impl Into<IpAddr>, port: u16) -> Server {
        Server::on(&std::net::SocketAddr::new(address.into(), port).to_string())
    }
}

/// A name server on 127.0.0.1 that says what it is told to, another thing each time if need be.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<BTreeMap<String, Entry>>>);

#[derive(Default)]
struct Entry {
    answers: Vec<Ipv4Addr>,
    asked: usize,
}

impl Names {
    fn serve() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
        let names = Self::default();
        let served = names.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if let Some(answer) = served.answer(&buffer[..length]) {
                    socket.send_to(&answer, from).ok();
                }
            }
        });
        names
    }

    /// One address a question, the last for good.
    pub(crate) fn set(&self, name: &str, answers: &[Ipv4Addr]) {
        let entry = Entry { answers: answers.to_vec(), asked: 0 };
        self.0.lock().unwrap().insert(name.to_owned(), entry);
    }

    /// How often an address of this name was asked for.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, |entry| entry.asked)
    }

    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let end = 12 + query.get(12..)?.iter().position(|&byte| byte == 0)?;
        let question = query.get(12..end + 5)?;
        let name = stockade::denial::trace::dns::question(query)?;
        let mut names = self.0.lock().unwrap();
        let entry = names.get_mut(&name);
        let code = if entry.is_some() { 0 } else { 3 };
        let address = entry.filter(|_| question[question.len() - 4..] == [0, 1, 0, 1]).map(|entry| {
            entry.asked += 1;
            entry.answers[(entry.asked - 1).min(entry.answers.len() - 1)]
        });
        let mut answer = query[..2].to_vec();
        answer.write_all(&[0x81, 0x80 | code, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]).unwrap();
        answer.extend(question);
        if let Some(address) = address {
            answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend(address.octets());
        }
        Some(answer)
    }
}
