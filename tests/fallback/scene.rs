//! A workspace in a small world, a command that tries to get out of it, and a look at what became of the world.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;

use crate::user::{Programs, User, scratch};

/// Signals to processes of the same user: part of `process-isolation` where neither a PID namespace nor Landlock's scope
/// (ABI 6) keeps them in.
pub(crate) const SIGNALS: &str = "process-isolation before ABI 6";

pub(crate) struct Scene {
    pub(crate) user: User,
    dir: tempfile::TempDir,
    programs: Arc<Programs>,
    tcp: TcpListener,
    unix: UnixListener,
}

/// What a command managed to do, by the name of the gap that would excuse it; an empty name excuses nothing.
pub(crate) type Done = BTreeSet<(&'static str, &'static str)>;

impl Scene {
    pub(crate) fn of(user: User) -> Self {
        let dir = scratch();
        let root = dir.path();
        for name in ["work/.git/hooks", "home"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, text) in [("file", "as it was"), ("secret", "the secret"), ("work/.git/config", "")] {
            fs::write(root.join(name), text).unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let unix = UnixListener::bind(root.join("socket")).unwrap();
        unix.set_nonblocking(true).unwrap();
        user.own(root);
        Self { user, dir, programs: Programs::get(), tcp, unix }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    pub(crate) fn stockade(&self) -> &str {
        self.programs.stockade.to_str().unwrap()
    }

    /// The words that make a command run as the user of this scene.
    pub(crate) fn become_user(&self) -> Vec<String> {
        if self.user == User::current() {
            return Vec::new();
        }
        let (uid, gid) = (self.user.uid, self.user.gid);
        [format!("setpriv --reuid={uid} --regid={gid} --clear-groups --")]
            .iter()
            .flat_map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// A command line, with an environment of its own.
    pub(crate) fn start(&self, words: &[String]) -> Output {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().current_dir(self.work());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.root().join("home"));
        command.output().unwrap()
    }

    /// `stockade run --json` with a command that tries everything.
    pub(crate) fn attempt(&self, mode: &str) -> Vec<String> {
        let secret = self.root().join("secret");
        let script = format!(
            "touch in; touch ../outside; echo x >>../file; chmod 777 ../file; echo x >.git/hooks/pre-commit
             cat ../secret >got || cat ../secret; test -d /proc/{pid}/fd && echo 'saw the host'
             mknod ../fifo p; ln ../file hard; mv ../file ../moved; rm -f ../secret
             kill -0 {pid} && echo 'may signal the host'
             python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"../socket\")'
             echo ended",
            pid = std::process::id(),
            port = self.tcp.local_addr().unwrap().port(),
        );
        let words = ["run", "--json", "--mode", mode, "--deny-read", secret.to_str().unwrap(), "-c", &script];
        let words = if mode == "danger-full-access" { [&words[..4], &words[6..]].concat() } else { words.to_vec() };
        std::iter::once(self.stockade()).chain(words).map(str::to_owned).collect()
    }

    /// What the command did, seen from outside but for what only it can see.
    pub(crate) fn done(&self, result: &Value) -> Done {
        let at = |name: &str| self.root().join(name);
        let stdout = result["stdout"]["text"].as_str().unwrap();
        assert!(stdout.ends_with("ended\n"), "{result:#}");
        let mut done = Done::new();
        let mut note = |gap, what, seen: bool| {
            if seen {
                done.insert((gap, what));
            }
        };
        let missing = |name: &str| at(name).symlink_metadata().is_err();
        note("", "create", !missing("outside") || !missing("fifo"));
        note("", "rename or link", missing("file") || !missing("work/hard"));
        note("", "remove", missing("secret"));
        let text = fs::read_to_string(at("file")).unwrap_or_default();
        note("", "write", !missing("file") && text != "as it was");
        let mode = |name: &str| at(name).symlink_metadata().map(|meta| meta.permissions().mode() & 0o777).ok();
        note("metadata", "chmod", mode("file") == Some(0o777));
        note("protected-paths", "plant", !missing("work/.git/hooks/pre-commit"));
        let got = fs::read_to_string(at("work/got")).unwrap_or_default();
        note("deny-read", "read", got == "the secret" || stdout.contains("the secret"));
        note("process-isolation", "see", stdout.contains("saw the host"));
        note(SIGNALS, "signal", stdout.contains("may signal the host"));
        note("", "connect", accepted(self.tcp.accept().map(drop)));
        note("unix-sockets", "connect to a socket", accepted(self.unix.accept().map(drop)));
        done
    }

    /// Puts the world back in order.
    pub(crate) fn reset(&self) {
        for name in ["outside", "fifo", "moved", "work/hard", "work/in", "work/got", "work/.git/hooks/pre-commit"] {
            match fs::remove_file(self.root().join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => panic!("{name}: {error}"),
                _ => {}
            }
        }
        for (name, text) in [("file", "as it was"), ("secret", "the secret")] {
            fs::write(self.root().join(name), text).unwrap();
            fs::set_permissions(self.root().join(name), fs::Permissions::from_mode(0o600)).unwrap();
            self.user.own(&self.root().join(name));
        }
    }
}

fn accepted(accepted: std::io::Result<()>) -> bool {
    match accepted {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// The result line among what was printed.
pub(crate) fn result(title: &str, output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{title}: {:?}: {stdout}{stderr}", output.status);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{title}: {error}: {stdout}{stderr}"))
}

pub(crate) fn gaps(result: &Value) -> BTreeSet<String> {
    let gaps = result["sandbox"]["gaps"].as_array().unwrap();
    gaps.iter().map(|gap| gap.as_str().unwrap().to_owned()).collect()
}
