//! The inside of the matrix: what a command does to try each row. This test binary runs itself in the sandbox.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Pid, Uid, chown, geteuid, mkfifo};
use serde::{Deserialize, Serialize};

use crate::table::{Act, MATRIX, Place, Row};

/// What the outside tells the inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Directory of the scene.
    pub(crate) root: PathBuf,
    /// A word that occurs nowhere else.
    pub(crate) token: String,
    pub(crate) tcp_port: u16,
    pub(crate) udp_port: u16,
    /// Processes of the host, by what is tried on them.
    pub(crate) signal: i32,
    pub(crate) see: i32,
    pub(crate) renice: i32,
    pub(crate) ptrace: i32,
}

impl Facts {
    pub(crate) fn file(root: &Path) -> PathBuf {
        root.join("facts.json")
    }

    /// The path an operation is about. `/tmp` and `/dev/shm` are shared with the host's users, so names there are unique.
    pub(crate) fn target(&self, row: &Row) -> PathBuf {
        let place = |directory: &str| self.root.join(directory).join(format!("{:?}", row.act));
        let unique = |directory: &str| Path::new(directory).join(format!("stockade-{}-{:?}", self.token, row.act));
        match (row.place, row.act) {
            (Place::GitConfig, _) => self.root.join("work/.git/config"),
            // Repositories of their own: what is renamed away would take the other targets along.
            (Place::GitHooks, Act::RenameDirectory) => self.root.join("work/second/.git/hooks"),
            (Place::GitDirectory, _) => self.root.join("work/third/.git"),
            (Place::Outside, _) => place("outside"),
            (Place::GitHooks, _) => place("work/.git/hooks"),
            (Place::GitObjects, _) => place("work/.git/objects"),
            (Place::EditorSettings, _) => place("work/.vscode"),
            (Place::Secrets, _) => place("home/.ssh"),
            (Place::Tmp, _) => unique("/tmp"),
            (Place::DevShm, _) => unique("/dev/shm"),
            (Place::Tmpdir, _) => {
                let directory = std::env::var("TMPDIR").unwrap_or_else(|_| "/tmp".to_owned());
                Path::new(&directory).join(format!("stockade-{}-Tmpdir", self.token))
            }
            (Place::Workspace | Place::System | Place::Host | Place::Own, _) => place("work"),
        }
    }
}

/// Where an operation that has a second path puts it.
pub(crate) fn second(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push("-to");
    name.into()
}

/// Tries every row and says how it went, one line each: `row NUMBER ok DETAIL` or `row NUMBER failed ERROR`.
pub(crate) fn run(root: &Path) {
    let facts: Facts = serde_json::from_slice(&fs::read(Facts::file(root)).unwrap()).unwrap();
    for (number, row) in MATRIX.iter().enumerate() {
        match attempt(row, &facts) {
            Ok(detail) => println!("row {number} ok {}", detail.escape_debug()),
            Err(error) => println!("row {number} failed {}", error.to_string().escape_debug()),
        }
    }
}

fn attempt(row: &Row, facts: &Facts) -> io::Result<String> {
    let target = facts.target(row);
    let path = target.as_path();
    match row.act {
        Act::Create => fs::File::create_new(path)?.write_all(b"new").map(nothing),
        Act::Write => OpenOptions::new().write(true).open(path)?.write_all(b"new").map(nothing),
        Act::Append => OpenOptions::new().append(true).open(path)?.write_all(b"new").map(nothing),
        Act::Truncate => Ok(nix::unistd::truncate(path, 0).map(nothing)?),
        Act::Rename | Act::RenameDirectory => fs::rename(path, second(path)).map(nothing),
        Act::HardLink => fs::hard_link(path, second(path)).map(nothing),
        Act::LinkIntoWorkspace => fs::hard_link(path, facts.root.join("work/linked")).map(nothing),
        Act::Symlink => symlink("elsewhere", path).map(nothing),
        Act::Remove => fs::remove_file(path).map(nothing),
        Act::Mkdir => fs::create_dir(path).map(nothing),
        Act::Rmdir => fs::remove_dir(path).map(nothing),
        Act::Mkfifo => Ok(mkfifo(path, Mode::from_bits_truncate(0o600)).map(nothing)?),
        Act::MknodDevice => {
            Ok(mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), makedev(1, 3)).map(nothing)?)
        }
        Act::Chmod => fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map(nothing),
        Act::SetUserId => fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).map(nothing),
        Act::Chown => give_away(path),
        Act::Utimes => {
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
            let times = fs::FileTimes::new().set_modified(time).set_accessed(time);
            fs::File::open(path)?.set_times(times).map(nothing)
        }
        Act::Xattr => {
            Ok(rustix::fs::setxattr(path, "user.matrix", b"new", rustix::fs::XattrFlags::empty()).map(nothing)?)
        }
        Act::WriteThroughSymlink => {
            let link = facts.root.join("work/leads-outside");
            OpenOptions::new().write(true).open(link)?.write_all(b"new").map(nothing)
        }
        Act::Read => fs::read_to_string(path),
        Act::Execute if row.place == Place::System => output(Command::new("/bin/echo").args(["-n", &facts.token])),
        Act::Execute => output(&mut Command::new(path)),
        Act::UnshareUser => unshare(),
        Act::Mount => Ok(mount(Some("none"), path, Some("tmpfs"), MsFlags::empty(), None::<&str>).map(nothing)?),
        _ => attempt_beyond_files(row, facts, path),
    }
}

fn attempt_beyond_files(row: &Row, facts: &Facts, path: &Path) -> io::Result<String> {
    match row.act {
        Act::SignalChild => signal_child(),
        Act::Signal => Ok(kill(Pid::from_raw(facts.signal), Signal::SIGTERM).map(nothing)?),
        Act::See => see(&facts.token),
        Act::ReadEnvironment => {
            let environment = fs::read(format!("/proc/{}/environ", facts.see))?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            text.contains(&facts.token).then(|| facts.token.clone()).ok_or(io::ErrorKind::NotFound.into())
        }
        Act::Renice => {
            let process = rustix::process::Pid::from_raw(facts.renice);
            Ok(rustix::process::setpriority_process(process, 7).map(nothing)?)
        }
        Act::Ptrace => {
            let process = Pid::from_raw(facts.ptrace);
            ptrace::attach(process)?;
            waitpid(process, None)?;
            Ok(ptrace::detach(process, Signal::SIGTERM).map(nothing)?)
        }
        Act::OwnLoopback => own_loopback(),
        Act::TcpConnect => TcpStream::connect(("127.0.0.1", facts.tcp_port)).map(|_| String::new()),
        Act::UdpSend => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", facts.udp_port))?;
            socket.send(b"new")?;
            // Where nobody listens, the answer to the first comes back on the second.
            socket.send(b"new").map(|_| String::new())
        }
        Act::UnixStream => UnixStream::connect(path).map(|_| String::new()),
        Act::UnixDatagram => UnixDatagram::unbound()?.send_to(b"new", path).map(|_| String::new()),
        Act::UnixAbstract => {
            let address = SocketAddr::from_abstract_name(facts.token.as_bytes())?;
            UnixStream::connect_addr(&address).map(|_| String::new())
        }
        other => unreachable!("{other:?} is about files"),
    }
}

fn nothing(_: ()) -> String {
    String::new()
}

/// Root gives the file to another; anybody else gives it to himself, which changes its ctime.
fn give_away(path: &Path) -> io::Result<String> {
    let me = geteuid().as_raw();
    let to = if me == 0 { 1501 } else { me };
    let group = nix::sys::stat::stat(path)?.st_gid;
    Ok(chown(path, Some(Uid::from_raw(to)), Some(Gid::from_raw(group))).map(nothing)?)
}

fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn signal_child() -> io::Result<String> {
    let mut child = Command::new("sleep").arg("60").spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    kill(Pid::from_raw(pid), Signal::SIGTERM)?;
    let status = child.wait()?;
    Ok(format!("{:?}", status.signal()))
}

fn see(token: &str) -> io::Result<String> {
    let seen = fs::read_dir("/proc")?.flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
    });
    if seen { Ok(token.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn own_loopback() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    server.write_all(b"hello")?;
    drop(server);
    let mut heard = String::new();
    client.read_to_string(&mut heard)?;
    Ok(heard)
}

/// A process with threads cannot; `unshare(1)` can. Being in another namespace is the proof.
fn unshare() -> io::Result<String> {
    let there = output(Command::new("unshare").args(["--user", "readlink", "/proc/self/ns/user"]))?;
    let here = fs::read_link("/proc/self/ns/user")?;
    if there.trim() == here.to_string_lossy() { Err(io::ErrorKind::InvalidData.into()) } else { Ok("elsewhere".into()) }
}
