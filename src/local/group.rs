//! A command and its process group.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::Mutex;

use crate::executor::child::{Child, ExitReport};
use crate::executor::{BoxFuture, ExecError};

/// The leader of a process group, and through it the group.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    leader: Mutex<tokio::process::Child>,
    /// The leader has been waited for: its number is ours only as long as the group has members.
    reaped: AtomicBool,
    /// The group was seen without members after that: its number may be anybody's.
    empty: AtomicBool,
}

impl Group {
    /// Spawns a command that has been told to lead its own process group.
    pub(super) fn spawn(command: std::process::Command) -> io::Result<Self> {
        let leader = tokio::process::Command::from(command).spawn()?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the new process has no usable number"))?;
        Ok(Self { id, leader: Mutex::new(leader), reaped: AtomicBool::new(false), empty: AtomicBool::new(false) })
    }

    fn signal(&self, signal: Signal) {
        if self.reaped.load(Ordering::Acquire) && !self.survivors() {
            return;
        }
        match killpg(self.id, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => {
                tracing::warn!(group = self.id.as_raw(), %signal, %errno, "a process group was not signalled")
            }
        }
    }
}

impl Child for Group {
    fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        // A stopped process takes SIGTERM only when it runs again.
        self.signal(Signal::SIGCONT);
    }

    fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn wait(&self) -> BoxFuture<'_, Result<ExitReport, ExecError>> {
        Box::pin(async move {
            let ended = self.leader.lock().await.wait().await;
            let status = ended.map_err(|source| ExecError::io("waiting for the command", source))?;
            self.reaped.store(true, Ordering::Release);
            self.survivors();
            Ok(ExitReport { exit_code: status.code(), signal: status.signal(), resources: None })
        })
    }

    /// Processes of the group that are not zombies. A zombie counts as a member for `kill(2)`, and where process 1 does
    /// not reap it stays for ever.
    fn survivors(&self) -> bool {
        if self.empty.load(Ordering::Acquire) {
            return false;
        }
        if killpg(self.id, None) == Err(Errno::ESRCH) {
            self.empty.store(true, Ordering::Release);
            return false;
        }
        let Ok(processes) = procfs::process::all_processes() else { return true };
        processes
            .flatten()
            .filter_map(|process| process.stat().ok())
            .any(|stat| stat.pgrp == self.id.as_raw() && !matches!(stat.state, 'Z' | 'X' | 'x'))
    }
}
