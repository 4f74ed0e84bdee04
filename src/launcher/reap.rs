//! Collecting children, and ending all of them.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

/// Collects every child that has ended and returns their pids and exit codes.
pub(super) fn collect() -> Vec<(Pid, Option<i32>)> {
    let mut ended = Vec::new();
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        match status.pid() {
            Some(pid) => ended.push((pid, ending(status).and_then(|(code, _)| code))),
            None => break,
        }
    }
    ended
}

/// The direct children of this process that it has not collected. None of their pids can be recycled before it does.
pub(super) fn children() -> Vec<Pid> {
    let me = getpid();
    let listed = std::fs::read_to_string(format!("/proc/self/task/{me}/children"));
    match listed {
        Ok(text) => text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect(),
        // Without CONFIG_PROC_CHILDREN, or in a PID namespace whose /proc is not this one.
        Err(_) => by_parent(me),
    }
}

fn by_parent(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = procfs::process::all_processes() else { return Vec::new() };
    processes
        .filter_map(|process| process.and_then(|process| process.stat()).ok())
        .filter(|stat| stat.ppid == parent.as_raw())
        .map(|stat| Pid::from_raw(stat.pid))
        .collect()
}

/// SIGKILL to one child. It may have ended already and wait to be collected: then there is nothing to kill.
pub(super) fn kill_one(child: Pid) {
    match kill(child, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => tracing::debug!(%errno, %child, "a child could not be killed"),
    }
}

/// Kills children until there are none. Grandchildren become children of this subreaper as their parents end, so the
/// loop reaches everything that descends from here.
pub(super) fn kill_all_children() {
    loop {
        for child in children() {
            kill_one(child);
        }
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Kills everything else in this PID namespace, of which the caller is the init, and collects it.
pub(super) fn kill_all_in_namespace() {
    debug_assert_eq!(getpid(), Pid::from_raw(1));
    loop {
        match kill(Pid::from_raw(-1), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => tracing::debug!(%errno, "the namespace could not be signalled"),
        }
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Exit code and signal of a wait status that is an end.
pub(super) fn ending(status: WaitStatus) -> Option<(Option<i32>, Option<i32>)> {
    match status {
        WaitStatus::Exited(_, code) => Some((Some(code), None)),
        WaitStatus::Signaled(_, signal, _) => Some((None, Some(signal as i32))),
        _ => None,
    }
}
