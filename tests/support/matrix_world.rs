//! The outside of the matrix: a scene on the host for the rows to act on, and what has become of it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::probe::{Facts, second};
use crate::table::{Act, MATRIX, Place, Row};
use crate::user::{Programs, User, scratch};

/// How many arrivals a server of the host has seen.
type Arrivals = Arc<AtomicUsize>;

/// Everything that a run of the matrix can touch. Dropping it takes it all away.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) programs: Arc<Programs>,
    pub(crate) facts: Facts,
    user: User,
    victims: Vec<Child>,
    arrivals: Vec<(Act, Place, Arrivals)>,
    /// By row: the two paths as they were.
    before: Vec<[String; 2]>,
}

impl Scene {
    pub(crate) fn build(user: User) -> Self {
        let dir = scratch();
        let programs = Programs::get();
        let root = dir.path().to_path_buf();
        let token = root.file_name().unwrap().to_str().unwrap().replace("stockade-test-", "t");
        for directory in ["work/.git/hooks", "work/.git/objects", "work/.vscode", "outside", "home/.ssh"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for repository in ["work", "work/second", "work/third"] {
            git_init(&root.join(repository));
        }
        symlink(root.join("outside/WriteThroughSymlink"), root.join("work/leads-outside")).unwrap();
        let mut victims = Vec::new();
        let mut victim = || {
            victims.push(start_victim(user, &programs.own, &token));
            i32::try_from(victims.last().unwrap().id()).unwrap()
        };
        let (signal, see, renice, ptrace) = (victim(), victim(), victim(), victim());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let facts = Facts { root: root.clone(), token, tcp_port, udp_port, signal, see, renice, ptrace };
        let mut scene = Self { dir, programs, facts, user, victims, arrivals: Vec::new(), before: Vec::new() };
        scene.serve(tcp, udp);
        for row in MATRIX {
            scene.prepare(row);
        }
        fs::write(Facts::file(&root), serde_json::to_vec(&scene.facts).unwrap()).unwrap();
        user.own(&root);
        scene.before = MATRIX.iter().map(|row| scene.paths(row).map(|path| state(&path))).collect();
        scene
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// What an operation finds.
    fn prepare(&self, row: &Row) {
        let path = self.facts.target(row);
        match row.act {
            Act::Write | Act::Append | Act::Truncate | Act::Rename | Act::HardLink | Act::LinkIntoWorkspace => {
                fs::write(&path, "old").unwrap();
            }
            Act::Remove | Act::Chmod | Act::Chown | Act::Utimes | Act::Xattr | Act::WriteThroughSymlink => {
                fs::write(&path, "old").unwrap();
            }
            Act::SetUserId => {
                fs::write(&path, "old").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Act::Read => fs::write(&path, &self.facts.token).unwrap(),
            Act::Execute if row.place == Place::Workspace => {
                fs::write(&path, format!("#!/bin/sh\nprintf %s {}\n", self.facts.token)).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Act::Rmdir | Act::Mount => fs::create_dir(&path).unwrap(),
            _ => {}
        }
        if matches!(row.place, Place::Tmp | Place::DevShm) && path.exists() {
            self.user.own(&path);
        }
    }

    /// Servers of the host, and a count of who came.
    fn serve(&mut self, tcp: TcpListener, udp: UdpSocket) {
        let unix = |act| MATRIX.iter().find(|row| row.act == act && row.place == Place::Outside).unwrap();
        let outside = UnixListener::bind(self.facts.target(unix(Act::UnixStream))).unwrap();
        let datagram = UnixDatagram::bind(self.facts.target(unix(Act::UnixDatagram))).unwrap();
        let inside = UnixListener::bind(self.root().join("work/UnixStream")).unwrap();
        let name = SocketAddr::from_abstract_name(self.facts.token.as_bytes()).unwrap();
        let named = UnixListener::bind_addr(&name).unwrap();
        self.count(Act::TcpConnect, Place::Host, move || tcp.accept().is_ok());
        self.count(Act::UdpSend, Place::Host, move || udp.recv(&mut [0; 8]).is_ok());
        self.count(Act::UnixStream, Place::Outside, move || outside.accept().is_ok());
        self.count(Act::UnixStream, Place::Workspace, move || inside.accept().is_ok());
        self.count(Act::UnixDatagram, Place::Outside, move || datagram.recv(&mut [0; 8]).is_ok());
        self.count(Act::UnixAbstract, Place::Host, move || named.accept().is_ok());
    }

    /// The thread ends with the test process.
    fn count(&mut self, act: Act, place: Place, next: impl Fn() -> bool + Send + 'static) {
        let arrivals = Arrivals::default();
        let counter = Arc::clone(&arrivals);
        std::thread::spawn(move || {
            while next() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        self.arrivals.push((act, place, arrivals));
    }

    fn paths(&self, row: &Row) -> [PathBuf; 2] {
        let target = self.facts.target(row);
        let second = match row.act {
            Act::LinkIntoWorkspace => self.root().join("work/linked"),
            _ => second(&target),
        };
        [target, second]
    }

    /// Whether the operation did anything to its two paths.
    pub(crate) fn changed(&self, number: usize) -> bool {
        self.paths(&MATRIX[number]).map(|path| state(&path)) != self.before[number]
    }

    /// Whether the operation did what it says. `detail` is what the command saw; `hopeful` allows what arrives by itself
    /// some time to arrive.
    pub(crate) fn landed(&mut self, number: usize, detail: &str, hopeful: bool) -> bool {
        let row = &MATRIX[number];
        let [path, second] = self.paths(row);
        let contains = |path: &Path, text: &str| fs::read_to_string(path).is_ok_and(|content| content == text);
        let meta = path.symlink_metadata();
        let kind = |test: fn(&fs::FileType) -> bool| meta.as_ref().is_ok_and(|meta| test(&meta.file_type()));
        let mode = |bits: u32| meta.as_ref().is_ok_and(|meta| meta.mode() & 0o7777 == bits);
        match row.act {
            Act::Create | Act::Write | Act::WriteThroughSymlink => contains(&path, "new"),
            Act::Append => contains(&path, "oldnew"),
            Act::Truncate => contains(&path, ""),
            Act::Rename => contains(&second, "old") && meta.is_err(),
            Act::RenameDirectory => second.is_dir() && meta.is_err(),
            Act::HardLink | Act::LinkIntoWorkspace => contains(&second, "old"),
            Act::Symlink => fs::read_link(&path).is_ok_and(|to| to == Path::new("elsewhere")),
            Act::Remove | Act::Rmdir => meta.is_err(),
            Act::Mkdir => kind(fs::FileType::is_dir),
            Act::Mkfifo => kind(|kind| kind.is_fifo()),
            Act::MknodDevice => kind(|kind| kind.is_char_device()),
            Act::Chmod => mode(0o600),
            Act::SetUserId => mode(0o4755),
            Act::Chown if self.user.is_root() => meta.is_ok_and(|meta| meta.uid() == 1501),
            Act::Chown => state(&path) != self.before[number][0],
            Act::Utimes => meta.is_ok_and(|meta| meta.mtime() == 1_000_000),
            Act::Xattr => xattr(&path) == b"new",
            Act::Read | Act::Execute | Act::See | Act::ReadEnvironment => detail == self.facts.token,
            Act::SignalChild => detail == "Some(15)",
            Act::OwnLoopback => detail == "hello",
            Act::UnshareUser => detail == "elsewhere",
            Act::Mount => self.mounted(&path),
            Act::Signal => self.dies(self.facts.signal, hopeful),
            Act::Ptrace => self.dies(self.facts.ptrace, hopeful),
            Act::Renice => nice(self.facts.renice) == 7,
            Act::TcpConnect | Act::UdpSend | Act::UnixStream | Act::UnixDatagram | Act::UnixAbstract => {
                let (_, _, arrivals) =
                    self.arrivals.iter().find(|(act, place, _)| (*act, *place) == (row.act, row.place)).unwrap();
                wait(hopeful, || arrivals.load(Ordering::SeqCst) > 0)
            }
        }
    }

    fn mounted(&self, path: &Path) -> bool {
        let there = procfs::process::Process::myself().unwrap().mountinfo().unwrap();
        there.into_iter().any(|mount| mount.mount_point == path)
    }

    fn dies(&mut self, pid: i32, hopeful: bool) -> bool {
        let victim = self.victims.iter_mut().find(|victim| i32::try_from(victim.id()) == Ok(pid)).unwrap();
        wait(hopeful, || victim.try_wait().unwrap().is_some())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for victim in &mut self.victims {
            victim.kill().expect("a victim is ours to kill");
            victim.wait().expect("and to collect");
        }
        for row in MATRIX {
            let path = self.facts.target(row);
            if row.act == Act::Mount && self.mounted(&path) {
                nix::mount::umount(&path).expect("what was mounted can be taken away");
            }
            if matches!(row.place, Place::Tmp | Place::DevShm | Place::Tmpdir) && path.exists() {
                fs::remove_file(&path).expect("what was made can be removed");
            }
        }
    }
}

fn wait(hopeful: bool, mut test: impl FnMut() -> bool) -> bool {
    let patience = if hopeful { Duration::from_secs(5) } else { Duration::from_millis(20) };
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if test() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    test()
}

fn git_init(repository: &Path) {
    fs::create_dir_all(repository.join(".git/hooks")).unwrap();
    fs::create_dir_all(repository.join(".git/objects")).unwrap();
    fs::create_dir_all(repository.join(".git/refs")).unwrap();
    fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(repository.join(".git/config"), "[core]\n").unwrap();
}

/// A process of the user's that waits to be seen, signalled and traced; the token is in its arguments and environment.
fn start_victim(user: User, program: &Path, token: &str) -> Child {
    let mut child = user
        .command(program)
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "victim", token])
        .env("MATRIX_TOKEN", token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready =
        BufReader::new(child.stdout.as_mut().unwrap()).lines().any(|line| line.unwrap().contains("victim ready"));
    assert!(ready, "the victim did not start");
    child
}

/// The body of the victim: ends with its standard input.
pub(crate) fn victim() {
    // Yama lets only ancestors trace by default; where there is no Yama there is nothing to set.
    if let Err(errno) = rustix::process::set_ptracer(rustix::process::PTracer::Any) {
        assert_eq!(errno, rustix::io::Errno::INVAL);
    }
    println!("\nvictim ready");
    let mut byte = [0];
    while std::io::stdin().read(&mut byte).unwrap() > 0 {}
}

fn nice(pid: i32) -> i64 {
    procfs::process::Process::new(pid).unwrap().stat().unwrap().nice
}

fn xattr(path: &Path) -> Vec<u8> {
    let mut value = vec![0; 16];
    let length = rustix::fs::getxattr(path, "user.matrix", &mut value).unwrap_or(0);
    value.truncate(length);
    value
}

/// All that can be seen of a path without touching it.
fn state(path: &Path) -> String {
    let Ok(meta) = path.symlink_metadata() else { return "missing".to_owned() };
    let content = if meta.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    let owner = (meta.uid(), meta.gid(), meta.nlink());
    format!("{:o} {owner:?} {times:?} {content:?} {:?}", meta.mode(), xattr(path))
}
