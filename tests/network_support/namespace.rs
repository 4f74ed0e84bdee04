//! A network namespace of the test's own with the proxy's socket in it, and clients that run inside.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, mpsc};

use stockade::network::proxy::{Proxy, ProxyHandle, Resolve, Token};
use stockade::network::rules::RuleSet;

use super::Answers;

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own, and the proxy that serves it from outside.
pub(crate) struct Namespace {
    jobs: mpsc::Sender<Job>,
    pub(crate) proxy: ProxyHandle,
    pub(crate) home: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

/// True when this process may make network namespaces. An ordinary user's test runs itself again as the owner of a
/// user namespace, and the caller is done.
pub(crate) fn owns_namespaces(test: &str) -> bool {
    let may = std::thread::spawn(|| nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok());
    if may.join().unwrap() {
        return true;
    }
    assert!(std::env::var_os("NETWORK_TEST_INSIDE").is_none(), "no network namespace, not even in a user namespace");
    let again = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("NETWORK_TEST_INSIDE", "1")
        .status()
        .unwrap();
    assert!(again.success(), "{test} in a user namespace: {again}");
    false
}

impl Namespace {
    pub(crate) fn new(allow: &[&str]) -> Self {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (made, listener) = mpsc::channel();
        std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            made.send(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
            queue.into_iter().for_each(|job| job());
        });
        let listener = listener.recv().unwrap();
        let local: &[&[&str]] = &[&["127.0.0.1"]];
        let answers: Arc<dyn Resolve> = Answers::new(&[("good.test", local), ("bad.test", local)]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let rules = Arc::new(RuleSet::new(allow, &[]).unwrap());
        let proxy = {
            let _inside = runtime.enter();
            Proxy::start(listener, rules, Token::random().unwrap(), answers).unwrap()
        };
        Self { jobs, proxy, home: tempfile::tempdir().unwrap(), runtime }
    }

    /// Runs `job` on the thread inside.
    pub(crate) fn inside<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        self.jobs.send(Box::new(move || done.send(job()).unwrap())).unwrap();
        result.recv().unwrap()
    }

    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        self.proxy.environment(self.proxy.address())
    }

    pub(crate) fn run_with(&self, program: &str, args: &[&str], extra: &BTreeMap<String, String>) -> Output {
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(extra).current_dir(self.home.path());
        // cargo's own directory first: a version manager's stand-in for rustc needs its own variables.
        let toolchain = Path::new(env!("CARGO")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(std::iter::once(toolchain).chain(std::env::split_paths(&path))).unwrap();
        command.env("PATH", path).env("HOME", self.home.path());
        command.stdin(std::process::Stdio::null());
        self.inside(move || command.output().unwrap())
    }

    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        self.run_with(program, args, &self.environment())
    }

    pub(crate) fn works(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        assert!(output.status.success(), "{program} {args:?}: {}\n{:?}", text(&output), self.proxy.refusals());
        assert_eq!(self.proxy.refusals().entries, [], "{program}: nothing was refused");
        text(&output)
    }

    pub(crate) fn works_after_refusal(&self, curl: &str, url: &str) -> String {
        let output = self.run(curl, &["-sSf", url]);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }

    /// The command fails and there is exactly one fact, for `bad.test` and this port.
    pub(crate) fn is_refused(&self, port: u16, program: &str, args: &[&str]) {
        let output = self.run(program, args);
        assert!(!output.status.success(), "{program} {args:?} got through: {}", text(&output));
        let refusals = self.proxy.refusals().entries;
        assert_eq!(refusals.len(), 1, "{program}: {refusals:?} {}", text(&output));
        let (host, grant) = (refusals[0].host.as_str(), refusals[0].grant.clone());
        assert_eq!((host, refusals[0].port), ("bad.test", Some(port)), "{program}");
        assert_eq!(grant, Some(format!("bad.test:{port}")), "{program}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        assert!(self.runtime.block_on(self.proxy.shutdown()) || std::thread::panicking());
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The path of a client, or a line that says it is not here. With `STOCKADE_REQUIRE_CLIENTS` set (as in CI) a missing
/// client is a failure.
pub(crate) fn client(name: &str) -> Option<String> {
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "{name} is not installed here");
        println!("NOT TESTED: {name} is not installed here");
    }
    found.map(|path| path.to_str().unwrap().to_owned())
}

/// The interpreter itself: a version manager's stand-in needs its own variables.
pub(crate) fn python() -> Option<String> {
    let output = Command::new(client("python3")?).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

pub(crate) fn run_here(program: &str, args: &[&str], directory: &Path) {
    let output = Command::new(program).args(args).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output));
}
