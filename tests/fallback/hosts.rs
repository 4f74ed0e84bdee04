//! What hosts lack.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade::host::HostSupport;

use crate::scene::{SIGNALS, Scene, gaps, result};
use crate::user::{User, scratch};

/// What is left where a host lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Namespaces, with these gaps more than the host has by itself.
    Namespaces(&'static [&'static str]),
    /// Landlock and seccomp alone.
    Landlock,
    /// The same, with an older Landlock than this kernel's.
    OldLandlock(i32),
    /// Nothing: it refuses, and says this.
    Refuses(&'static str),
    /// An ordinary user never meets it.
    NoSuchHost,
}

use Left::{Landlock, Namespaces, NoSuchHost, OldLandlock, Refuses};

/// A host that lacks something.
struct Host {
    name: &'static str,
    /// Words before those that become the user, so that root builds it.
    by_root: &'static [&'static str],
    /// Words after them, so that the user builds it; `REFUSE`, `LANDLOCK`, `STOCKADE` and `WORK` stand for the
    /// programs and the workspace.
    by_user: &'static [&'static str],
    root: Left,
    user: Left,
}

impl Host {
    fn left(&self, user: User) -> Left {
        match if user.is_root() { self.root } else { self.user } {
            // Whoever bound a socket, Landlock refuses it from ABI 9 on.
            Namespaces(OTHER_NETWORK) if abi() >= 9 => Namespaces(&[]),
            left => left,
        }
    }
}

const fn by_user(name: &'static str, by_user: &'static [&'static str], root: Left, user: Left) -> Host {
    Host { name, by_root: &[], by_user, root, user }
}

const fn by_root(name: &'static str, by_root: &'static [&'static str], root: Left, user: Left) -> Host {
    Host { name, by_root, by_user: &[], root, user }
}

const BWRAP: &[&str] = &["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

/// Gaps of a network namespace that is not the machine's first.
const OTHER_NETWORK: &[&str] = &["unix-sockets"];

const HOSTS: &[Host] = &[
    by_user("nothing missing", &[], Namespaces(&[]), Namespaces(&[])),
    by_user("no namespaces", &["REFUSE", "namespaces"], Landlock, Landlock),
    by_user("no user namespaces", &["REFUSE", "user-namespaces"], Namespaces(&[]), Landlock),
    by_user(
        "no network namespaces",
        &["REFUSE", "network-namespaces"],
        Namespaces(&["network-isolation"]),
        Namespaces(&["network-isolation"]),
    ),
    by_user("mounting refused", &["REFUSE", "mounts"], Landlock, Landlock),
    by_user("mount calls unknown", &["REFUSE", "mount-calls"], Landlock, Landlock),
    by_user("open_tree refused", &["REFUSE", "open-tree"], Landlock, Landlock),
    by_user("move_mount refused", &["REFUSE", "move-mount"], Landlock, Landlock),
    by_user("mount_setattr refused", &["REFUSE", "mount-setattr"], Landlock, Landlock),
    by_user("fsopen refused", &["REFUSE", "fsopen"], Landlock, Landlock),
    by_user("inside a Landlock domain", &["REFUSE", "domain"], Landlock, Landlock),
    by_user("Landlock of Linux 5.13", &["LANDLOCK", "1"], Namespaces(&[]), Namespaces(&[])),
    by_user("Landlock of Linux 6.2", &["LANDLOCK", "3"], Namespaces(&[]), Namespaces(&[])),
    by_user(
        "Landlock of Linux 5.13, no namespaces",
        &["LANDLOCK", "1", "REFUSE", "namespaces"],
        OldLandlock(1),
        OldLandlock(1),
    ),
    by_user(
        "Landlock of Linux 5.19, no namespaces",
        &["LANDLOCK", "2", "REFUSE", "namespaces"],
        OldLandlock(2),
        OldLandlock(2),
    ),
    by_user(
        "Landlock of Linux 6.2, no namespaces",
        &["LANDLOCK", "3", "REFUSE", "namespaces"],
        OldLandlock(3),
        OldLandlock(3),
    ),
    by_user(
        "Landlock of Linux 6.7, no namespaces",
        &["LANDLOCK", "4", "REFUSE", "namespaces"],
        OldLandlock(4),
        OldLandlock(4),
    ),
    by_user(
        "Landlock of Linux 6.10, no namespaces",
        &["LANDLOCK", "5", "REFUSE", "namespaces"],
        OldLandlock(5),
        OldLandlock(5),
    ),
    by_root(
        "root without CAP_SYS_ADMIN",
        &["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", "--"],
        Namespaces(&[]),
        Namespaces(&[]),
    ),
    by_root(
        "root without capabilities",
        &["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"],
        Landlock,
        NoSuchHost,
    ),
    by_root(
        "a masked /proc",
        &["unshare", "--mount", "bash", "-ec", "mount -t tmpfs none /proc/sys; exec \"$@\"", "--"],
        Namespaces(&[]),
        Namespaces(&["process-isolation"]),
    ),
    by_root(
        "a read-only root",
        &["unshare", "--mount", "bash", "-ec", "mount --bind WORK WORK; mount -o remount,bind,ro /; exec \"$@\"", "--"],
        Namespaces(&[]),
        Namespaces(&[]),
    ),
    by_root(
        "a /tmp that executes nothing",
        &["unshare", "--mount", "bash", "-ec", "mount -t tmpfs -o noexec,mode=1777 none /tmp; exec \"$@\"", "--"],
        Namespaces(&[]),
        Namespaces(&[]),
    ),
    by_user("inside bubblewrap", BWRAP, Namespaces(&[]), Namespaces(&[])),
    by_user(
        "inside bubblewrap with namespaces of its own",
        &[
            "bwrap",
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup",
            "--bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ],
        Namespaces(&[]),
        Namespaces(&[]),
    ),
    by_user(
        "inside bubblewrap with a network of its own",
        &["bwrap", "--unshare-net", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
        Namespaces(OTHER_NETWORK),
        Namespaces(OTHER_NETWORK),
    ),
    by_user(
        "inside bubblewrap that lets no user namespaces be made",
        &["bwrap", "--unshare-user", "--disable-userns", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
        Namespaces(&["process-isolation", "limits"]),
        Refuses("user.max_user_namespaces"),
    ),
    by_user(
        "no user namespaces left, and no capability in the one around",
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "bash",
            "-ec",
            "echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all -- \"$@\"",
            "--",
        ],
        Landlock,
        Landlock,
    ),
    by_user("a user that the namespace around does not know", &["unshare", "--user"], Landlock, Landlock),
    by_user("inside stockade", &["STOCKADE", "run", "--mode", "workspace-write", "--"], Landlock, Landlock),
    by_user(
        "inside stockade with Landlock alone",
        &["STOCKADE", "run", "--mode", "workspace-write", "--backend", "landlock", "--"],
        Landlock,
        Landlock,
    ),
];

/// The filter program, built for this test and executable for everybody.
pub(super) fn refuse_program(directory: &Path) -> PathBuf {
    built(directory, "refuse")
}

/// A program that makes a host, built for this test and executable for everybody.
fn built(directory: &Path, name: &str) -> PathBuf {
    let program = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fallback").join(name).with_extension("c");
    let built =
        Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).output();
    let built = built.expect("cc, the C compiler, is needed to build hosts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

fn abi() -> i32 {
    HostSupport::detect().unwrap().landlock_abi
}

/// Where the programs are that make hosts.
fn tools() -> tempfile::TempDir {
    let directory = scratch();
    for name in ["refuse", "landlock"] {
        built(directory.path(), name);
    }
    directory
}

/// The gaps that Landlock alone leaves on this kernel.
fn landlock_alone(mode: &str, abi: i32) -> BTreeSet<String> {
    let mut gaps = vec!["deny-read", "network-isolation", "process-isolation", "limits"];
    // In read-only mode the filter refuses the calls, and no root is writable.
    gaps.extend(if mode == "read-only" { &[][..] } else { &["metadata", "protected-paths"] });
    for (name, since) in [("unix-sockets", 9), ("truncate", 3), ("ioctl", 5)] {
        gaps.extend((abi < since).then_some(name));
    }
    gaps.into_iter().map(str::to_owned).collect()
}

fn words(host: &Host, scene: &Scene, tools: &Path, attempt: Vec<String>) -> Vec<String> {
    let fill = |word: &&str| {
        let work = scene.work();
        match *word {
            "REFUSE" => tools.join("refuse").to_str().unwrap().to_owned(),
            "LANDLOCK" => tools.join("landlock").to_str().unwrap().to_owned(),
            "STOCKADE" => scene.stockade().to_owned(),
            word => word.replace("WORK", work.to_str().unwrap()),
        }
    };
    let before = host.by_root.iter().map(fill);
    let after = host.by_user.iter().map(fill);
    before.chain(scene.become_user()).chain(after).chain(attempt).collect()
}

#[test]
fn unconfined_the_command_does_it_all() {
    for user in User::all() {
        let scene = Scene::of(user);
        let output = scene.start(&[scene.become_user(), scene.attempt("danger-full-access")].concat());
        let result = result("control", &output);
        let done = scene.done(&result);
        let what: Vec<&str> = done.iter().map(|(_, what)| *what).collect();
        for expected in ["create", "rename or link", "remove", "plant", "read", "connect", "connect to a socket"] {
            assert!(what.contains(&expected), "{expected} as {}: {done:?}: {result:#}", user.name());
        }
        assert!(what.contains(&"see"), "{done:?}");
    }
}

#[test]
fn exactly_the_named_gaps() {
    let tools = tools();
    for user in User::all() {
        let scene = Scene::of(user);
        for mode in ["workspace-write", "read-only"] {
            let plain = result("plain", &scene.start(&[scene.become_user(), scene.attempt(mode)].concat()));
            let own = gaps(&plain);
            for host in HOSTS {
                if !host.by_root.is_empty() && !User::current().is_root() {
                    eprintln!("not root: '{}' cannot be built", host.name);
                    continue;
                }
                scene.reset();
                let title = format!("{} in {mode} as {}", host.name, user.name());
                let left = host.left(user);
                let expected = match left {
                    Namespaces(more) => own.iter().cloned().chain(more.iter().map(|gap| (*gap).to_owned())).collect(),
                    Landlock => landlock_alone(mode, abi()),
                    OldLandlock(older) => landlock_alone(mode, older.min(abi())),
                    Refuses(_) => BTreeSet::new(),
                    NoSuchHost => continue,
                };
                let output = scene.start(&words(host, &scene, tools.path(), scene.attempt(mode)));
                if let Refuses(remedy) = left {
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    assert_eq!(output.status.code(), Some(125), "{title}: {stderr}");
                    assert!(stderr.starts_with("stockade: ") && stderr.contains(remedy), "{title}: {stderr}");
                    assert!(!scene.work().join("in").exists(), "{title}: it ran");
                    continue;
                }
                let result = result(&title, &output);
                assert_eq!(gaps(&result), expected, "{title}: {result:#}");
                let enforcement = if expected.is_empty() { "full" } else { "partial" };
                assert_eq!(result["sandbox"]["enforcement"], enforcement, "{title}");
                let done = scene.done(&result);
                if left == Namespaces(OTHER_NETWORK) {
                    assert!(done.iter().any(|(gap, _)| *gap == "unix-sockets"), "{title}: a gap for nothing: {done:?}");
                }
                let signals = match left {
                    Landlock => abi() < 6,
                    OldLandlock(older) => older < 6,
                    _ => false,
                };
                let excused = |gap: &str| expected.contains(gap) || gap == SIGNALS && signals;
                let unexcused: Vec<_> = done.into_iter().filter(|(gap, _)| !excused(gap)).collect();
                assert!(unexcused.is_empty(), "{title}: {unexcused:?}: {result:#}");
                let written = scene.work().join("in").exists();
                assert_eq!(written, mode == "workspace-write", "{title}: the control: {result:#}");
            }
        }
    }
}

#[test]
fn full_enforcement_can_be_required() {
    let tools = tools();
    let scene = Scene::of(User::current());
    for host in HOSTS.iter().filter(|host| host.by_root.is_empty() && !matches!(host.root, Refuses(_))) {
        let mut attempt = scene.attempt("workspace-write");
        attempt.splice(2..2, ["--require".to_owned(), "full".to_owned()]);
        scene.reset();
        let output = scene.start(&words(host, &scene, tools.path(), attempt));
        let left = host.left(scene.user);
        let stderr = String::from_utf8_lossy(&output.stderr);
        if left == Namespaces(&[]) {
            assert!(output.status.success() && scene.work().join("in").exists(), "{}: {stderr}", host.name);
        } else {
            assert_eq!(output.status.code(), Some(125), "{}: {stderr}", host.name);
            assert!(stderr.contains("gaps") && stderr.contains("doctor"), "{}: {stderr}", host.name);
            assert!(!scene.work().join("in").exists(), "{}: it ran", host.name);
        }
    }
}
