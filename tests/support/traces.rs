//! Finding what a sandbox has left on the host: every process of a test carries its token.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::getpid;
use procfs::process::Process;
use stockade::executor::ExecRequest;
use stockade::launcher::LauncherPath;
use stockade::sandboxed::SandboxedConfig;

use crate::executor::{Place, launcher};

/// Name of the environment variable that marks commands.
pub(crate) const MARK: &str = "STOCKADE_TEST_MARK";

/// A word that occurs in the arguments or the environment of every process of one test, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

impl Token {
    pub(crate) fn of(place: &Path) -> Self {
        Self(place.file_name().unwrap().to_str().unwrap().replace("stockade-test-", "mark"))
    }

    /// Marks a command and all that it starts.
    pub(crate) fn mark(&self, mut request: ExecRequest) -> ExecRequest {
        request.env.insert(MARK.into(), self.0.clone().into());
        request
    }

    /// Makes the executor start its launcher under a name that carries the token, which its inits inherit.
    pub(crate) fn mark_launcher(&self, place: &Place, config: &mut SandboxedConfig) {
        let link = self.launcher_link(place.root());
        if !link.exists() {
            std::os::unix::fs::symlink(launcher(), &link).unwrap();
        }
        config.launcher = LauncherPath::Exact(link);
    }

    /// A name for a copy of `stockade` of which even a process without arguments and environment keeps the first 15 bytes.
    pub(crate) fn program_name(&self) -> &str {
        &self.0[self.0.len().saturating_sub(15)..]
    }

    pub(crate) fn launcher_link(&self, root: &Path) -> PathBuf {
        root.join(format!("launcher-{}", self.0))
    }

    /// Every living process that carries the token, this one excepted.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let carries = |process: &Process| {
            let file = |name: &str| fs::read(format!("/proc/{}/{name}", process.pid)).unwrap_or_default();
            [file("cmdline"), file("environ")].iter().any(|text| contains(text, self.0.as_bytes()))
                || file("comm").trim_ascii_end() == self.program_name().as_bytes()
        };
        let living = |process: &Process| process.stat().is_ok_and(|stat| stat.state != 'Z');
        let all = procfs::process::all_processes().unwrap().filter_map(Result::ok);
        all.filter(|process| process.pid != getpid().as_raw() && living(process) && carries(process)).collect()
    }

    /// The launcher that this process started.
    pub(crate) fn launcher_process(&self) -> Process {
        let mut launchers = self.children_of(getpid().as_raw());
        assert_eq!(launchers.len(), 1, "{launchers:?}");
        launchers.remove(0)
    }

    /// The inits below a launcher, and of each whether its command runs; one that is built ahead of time has none.
    pub(crate) fn inits(&self, launcher: i32) -> Vec<(i32, bool)> {
        let inits = self.children_of(launcher).into_iter().map(|init| init.pid);
        inits.map(|init| (init, !self.children_of(init).is_empty())).collect()
    }

    fn children_of(&self, parent: i32) -> Vec<Process> {
        let child = |process: &Process| process.stat().is_ok_and(|stat| stat.ppid == parent);
        self.processes().into_iter().filter(child).collect()
    }

    /// Waits until nothing carries the token any more: one second is what is promised where there is a processor to be
    /// had, and a loaded machine may keep a dying process waiting for one.
    pub(crate) fn assert_gone(&self, after: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        let mut left = self.processes();
        while !left.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            left = self.processes();
        }
        let left: Vec<_> = left.iter().map(|process| (process.pid, process.cmdline().unwrap_or_default())).collect();
        assert!(left.is_empty(), "left after {after}: {left:?}");
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Every path below a directory.
pub(crate) fn tree(root: &Path) -> Vec<PathBuf> {
    assert!(root.is_dir(), "{}", root.display());
    let mut paths = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        // It may be on its way out: then there is nothing below it.
        let entries = fs::read_dir(&directory).into_iter().flatten();
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    paths
}

/// Waits generously for something to become true.
pub(crate) async fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !test() {
        assert!(Instant::now() < end, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
