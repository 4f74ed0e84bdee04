//! What must not grow.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::unistd::geteuid;
use procfs::process::Process;

use crate::executor::Place;
use crate::traces::{Token, tree};

/// Counts of one moment at which nothing runs. What belongs to the launchers is for root alone to see: they are not
/// dumpable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    descriptors: usize,
    threads: usize,
    launcher_descriptors: usize,
    mounts: usize,
    launcher_mounts: usize,
    processes: usize,
    zombies: usize,
    files: usize,
    work_files: usize,
    cgroups: usize,
    /// Keyrings of this user.
    keys: usize,
    memory: Memory,
}

/// Resident memory, KiB. Compared with a margin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    host: u64,
    launchers: u64,
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memory {}

impl Figures {
    /// Waits until the last processes are on their way out, and until the counts are those of `reference`, where there is
    /// one; then counts.
    pub(crate) async fn at_rest(place: &Place, token: &Token, reference: Option<&Self>) -> Self {
        let mut last = Self::take(place, token);
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let now = Self::take(place, token);
            let settled = |reference: &Self| Self { threads: now.threads, keys: now.keys, ..*reference } == now;
            if settled(&last) && reference.is_none_or(settled) {
                return now;
            }
            last = now;
        }
        last
    }

    fn take(place: &Place, token: &Token) -> Self {
        let own = Process::myself().unwrap();
        let processes = token.processes();
        let parent = own.pid;
        let launchers: Vec<&Process> =
            processes.iter().filter(|process| process.stat().is_ok_and(|stat| stat.ppid == parent)).collect();
        let seen = |value: &dyn Fn(&Process) -> usize| {
            if geteuid().is_root() { launchers.iter().map(|process| value(process)).sum() } else { 0 }
        };
        let mounts =
            |pid: i32, of: &str| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap().matches(of).count();
        let root = place.root().to_str().unwrap();
        let resident = |process: &Process| process.status().ok().and_then(|status| status.vmrss).unwrap_or(0);
        Self {
            descriptors: own.fd_count().unwrap(),
            threads: usize::try_from(own.stat().unwrap().num_threads).unwrap(),
            launcher_descriptors: seen(&|process| process.fd_count().unwrap_or(0)),
            mounts: mounts(parent, root),
            launcher_mounts: seen(&|process| mounts(process.pid, root)),
            processes: processes.len(),
            zombies: zombies(parent),
            files: tree(&place.state()).len(),
            work_files: tree(&place.work()).len(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), 4),
            keys: keys(),
            memory: Memory { host: resident(&own), launchers: launchers.iter().map(|process| resident(process)).sum() },
        }
    }

    /// Fails where `later` has anything more, or memory beyond the slack, KiB.
    pub(crate) fn assert_flat(&self, later: &Self, slack: u64) {
        let exact = |figures: &Self| Self { threads: 0, keys: 0, ..*figures };
        assert_eq!(exact(self), exact(later), "something is left");
        // Threads for blocking work come and go. Other sandboxes of this user have keyrings too: fewer than a leak of one a
        // run would show.
        let (threads, keys) = (self.threads + 8, self.keys + 250);
        assert!(later.threads <= threads && later.keys <= keys, "{self:?}, later {later:?}");
        for (name, before, after) in [
            ("this process", self.memory.host, later.memory.host),
            ("the launchers", self.memory.launchers, later.memory.launchers),
        ] {
            assert!(after <= before + slack, "{name}: {before} KiB, later {after} KiB");
        }
    }
}

/// Children that nobody has waited for.
fn zombies(parent: i32) -> usize {
    let all = procfs::process::all_processes().unwrap().filter_map(Result::ok);
    let dead = |process: &Process| process.stat().is_ok_and(|stat| stat.ppid == parent && stat.state == 'Z');
    all.filter(dead).count()
}

/// Keyrings and keys that this user owns.
fn keys() -> usize {
    let uid = geteuid().as_raw().to_string();
    let text = fs::read_to_string("/proc/keys").unwrap_or_default();
    text.lines().filter(|line| line.split_whitespace().nth(5) == Some(uid.as_str())).count()
}

/// Cgroups with our name on them.
fn cgroups(directory: &Path, depth: usize) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            let ours = usize::from(entry.file_name().to_string_lossy().contains("stockade"));
            ours + if depth > 0 { cgroups(&entry.path(), depth - 1) } else { 0 }
        })
        .sum()
}
