//! A user's workspace, commands confined in it, and servers outside that count who came.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{Prompt, outcome};
use crate::files::serve_file;
use crate::user::User;

/// Where clients are looked for: what an ordinary user may execute too.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What "at once" allows on a loaded machine: less than a resolver waits by itself, or a client for a connection.
const AT_ONCE: Duration = Duration::from_secs(15);

pub(crate) struct Scene {
    pub(crate) prompt: Prompt,
}

/// One result line.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) result: Value,
    /// How long `stockade` took.
    pub(crate) took: Duration,
}

impl Scene {
    /// One for each user.
    pub(crate) fn all() -> Vec<Self> {
        User::all().into_iter().map(Self::of).collect()
    }

    pub(crate) fn of(user: User) -> Self {
        let prompt = Prompt::of(user);
        let probe = prompt.work().join("probe.py");
        std::fs::write(&probe, include_str!("probe.py")).unwrap();
        user.own(&probe);
        Self { prompt }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.prompt.work().join(name)
    }

    /// `stockade run --json OPTIONS -c COMMAND`, which may write in the workspace.
    pub(crate) fn run(&self, options: &[&str], command: &str) -> Seen {
        let start = Instant::now();
        let arguments = [&["--json", "--mode", "workspace-write"], options, &["-c", command]].concat();
        let (code, stdout, stderr) = outcome(self.prompt.run(arguments).env("PATH", PATH));
        assert_eq!(code, 0, "{command}: {stderr}");
        Seen { result: serde_json::from_str(&stdout).unwrap(), took: start.elapsed() }
    }

    /// As [`run`](Self::run), from a shell that lets a process have `files` open files before it asks for more.
    pub(crate) fn limited(&self, files: u32, options: &[&str], command: &str) -> Seen {
        let start = Instant::now();
        let stockade = self.prompt.program().to_str().unwrap();
        let script = format!("ulimit -Sn {files}; exec \"$@\"");
        let arguments = [&["-c", &script, "--", stockade, "run", "--json", "--mode", "workspace-write"], options];
        let mut shell = self.prompt.command("bash");
        let (code, stdout, stderr) = outcome(shell.args(arguments.concat()).args(["-c", command]).env("PATH", PATH));
        assert_eq!(code, 0, "{command}: {stderr}");
        Seen { result: serde_json::from_str(&stdout).unwrap(), took: start.elapsed() }
    }

    /// The probe, inside.
    pub(crate) fn probe(&self, options: &[&str], arguments: &str) -> Seen {
        self.run(options, &format!("python3 probe.py {arguments}"))
    }

    /// The probe with nothing around it: true when it reached what it tried to.
    pub(crate) fn reaches_unconfined(&self, arguments: &[&str]) -> bool {
        let mut command = self.prompt.command("python3");
        let (code, stdout, stderr) = outcome(command.arg("probe.py").args(arguments).env("PATH", PATH));
        assert!(code == 0 || code == 1, "{stderr}");
        code == 0 && stdout.trim() == "reached"
    }
}

impl Seen {
    pub(crate) fn out(&self) -> &str {
        self.result["stdout"]["text"].as_str().unwrap().trim()
    }

    pub(crate) fn denials(&self) -> &[Value] {
        self.result["sandbox"]["denials"].as_array().unwrap()
    }

    /// The command succeeded and nothing was refused on the way.
    pub(crate) fn works(&self) -> &str {
        assert_eq!(self.result["exitCode"], 0, "{:#}", self.result);
        assert_eq!(self.denials(), [] as [Value; 0], "{:#}", self.result);
        self.out()
    }

    /// The command failed at once, and exactly one fact says of what kind and on which host and port.
    pub(crate) fn refused(&self, kind: &str, host: &str, port: Option<u16>) -> &Value {
        assert_ne!(self.result["exitCode"], 0, "{:#}", self.result);
        assert!(self.took < AT_ONCE, "took {:?}: {:#}", self.took, self.result);
        self.fact(kind, host, port)
    }

    /// Exactly one fact, whatever became of the command.
    pub(crate) fn fact(&self, kind: &str, host: &str, port: Option<u16>) -> &Value {
        let [denial] = self.denials() else { panic!("one fact is wanted: {:#}", self.result) };
        assert_eq!((&denial["kind"], &denial["host"]), (&kind.into(), &host.into()), "{:#}", self.result);
        assert_eq!(denial.get("port").and_then(Value::as_u64), port.map(u64::from), "{:#}", self.result);
        denial
    }

    /// As [`refused`](Self::refused) by the proxy, with the entry that would let it through.
    pub(crate) fn refused_by_proxy(&self, host: &str, port: u16) {
        let denial = self.refused("net.connect", host, Some(port));
        assert_eq!(denial["sources"], serde_json::json!(["proxy"]), "{:#}", self.result);
        assert_eq!(denial["grant"]["network"], serde_json::json!([format!("{host}:{port}")]), "{:#}", self.result);
        assert_eq!(denial["blocking"], true, "{:#}", self.result);
    }
}

/// A server of files on the host's loopback.
pub(crate) struct Server {
    root: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::on("127.0.0.1:0")
    }

    pub(crate) fn on(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (address, root) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(root.path().join("a.txt"), "hello from outside").unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (directory, asked) = (root.path().to_owned(), Arc::clone(&log));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (directory, asked) = (directory.clone(), Arc::clone(&asked));
                asked.lock().unwrap().push("connection".to_owned());
                std::thread::spawn(move || serve_file(stream, &directory, &asked));
            }
        });
        Self { root, address, log }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// `ADDRESS:PORT`, as an entry of an allowlist.
    pub(crate) fn entry(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}/{path}", self.port())
    }

    /// Waits until somebody has come who is known to come.
    pub(crate) fn was_reached(&self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while self.asked().is_empty() {
            assert!(Instant::now() < patience, "nobody came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Every connection and request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// True when the client is here. With `STOCKADE_REQUIRE_CLIENTS` set a missing one is a failure.
pub(crate) fn has(client: &str) -> bool {
    let here = std::env::split_paths(PATH).any(|directory| directory.join(client).is_file());
    if !here {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "{client} is not installed in {PATH}");
        println!("NOT TESTED: {client} is not installed in {PATH}");
    }
    here
}
