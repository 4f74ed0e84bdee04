//! Trying what can be done to other processes, and what this process is.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::ptrace;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, Uid, geteuid, setuid};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use super::{Attempt, LINGER, Refusal};
use crate::verify::cell::{Act, Cell};
use crate::verify::facts::{Facts, NEW, SECRET_VARIABLE, Victim};

/// What a process is given.
pub(in crate::verify) const NICE: i32 = 7;
pub(in crate::verify) const CORE_LIMIT: u64 = 4096;
pub(in crate::verify) const SCORE: &str = "901";

pub(super) fn attempt(cell: &Cell, facts: &Facts) -> Attempt {
    let other = facts.victims.other;
    match cell.act {
        Act::SignalChild => signal_child(),
        Act::Terminate => done(kill(Pid::from_raw(facts.victims.terminate.pid), Signal::SIGTERM)),
        Act::Stop => done(kill(Pid::from_raw(facts.victims.stop.pid), Signal::SIGSTOP)),
        Act::KillByDescriptor => kill_by_descriptor(facts.victims.kill),
        Act::See => see(&facts.token),
        Act::ReadEnvironment => token_in(&fs::read(proc(other, "environ"))?, facts),
        Act::ReadMemoryByCall => {
            let mut bytes = vec![0; facts.token.len()];
            let from = RemoteIoVec { base: other.secret, len: bytes.len() };
            process_vm_readv(Pid::from_raw(other.pid), &mut [IoSliceMut::new(&mut bytes)], &[from])?;
            token_in(&bytes, facts)
        }
        Act::WriteMemoryByCall => {
            let to = RemoteIoVec { base: other.written, len: NEW.len() };
            done(process_vm_writev(Pid::from_raw(other.pid), &[IoSlice::new(NEW.as_bytes())], &[to]).map(drop))
        }
        Act::ReadMemoryByFile => {
            let mut bytes = vec![0; facts.token.len()];
            File::open(proc(other, "mem"))?.read_exact_at(&mut bytes, address(other.secret)?)?;
            token_in(&bytes, facts)
        }
        Act::WriteMemoryByFile => {
            let second = facts.victims.second;
            let memory = OpenOptions::new().write(true).open(proc(second, "mem"))?;
            memory.write_all_at(NEW.as_bytes(), address(second.written)?)?;
            Ok(String::new())
        }
        Act::ReadDescriptorByFile => token_in(&fs::read(proc(other, &format!("fd/{}", other.descriptor)))?, facts),
        Act::TakeDescriptor => take_descriptor(other, facts),
        Act::WalkItsRoot => walk_its_root(cell, facts),
        Act::Trace => trace(facts.victims.trace),
        Act::Renice => Ok(rustix::process::setpriority_process(known(other)?, NICE).map(nothing)?),
        Act::Affinity => affinity(other),
        Act::ResourceLimit => {
            let limit = rustix::process::Rlimit { current: Some(CORE_LIMIT), maximum: Some(CORE_LIMIT) };
            Ok(rustix::process::prlimit(known(other)?, rustix::process::Resource::Core, limit)
                .map(|_| String::new())?)
        }
        Act::OutOfMemoryScore => Ok(fs::write(proc(other, "oom_score_adj"), SCORE).map(nothing)?),
        _ => attempt_own(cell.act, facts),
    }
}

/// What is about this process.
fn attempt_own(act: Act, facts: &Facts) -> Attempt {
    match act {
        Act::SecretVariable => {
            let value = std::env::var(SECRET_VARIABLE).map_err(|error| Refusal::new(error.to_string()))?;
            token_in(value.as_bytes(), facts)
        }
        Act::Capabilities => capabilities(),
        Act::GainPrivileges if prctl::get_no_new_privs()? => Err(Refusal::new("no_new_privs is set")),
        Act::GainPrivileges => Ok("no_new_privs is not set".to_owned()),
        Act::BecomeAnother => {
            let another = Uid::from_raw(if geteuid().is_root() { 65_534 } else { 0 });
            setuid(another)?;
            Ok(format!("uid {}", geteuid()))
        }
        Act::CoreFile => match getrlimit(Resource::RLIMIT_CORE)? {
            (_, 0) => Err(Refusal::new("the limit is 0")),
            (_, hard) => Ok(format!("the hard limit is {hard} bytes")),
        },
        Act::ManyProcesses => many_processes(facts),
        Act::LargeTmp => large_tmp(facts),
        Act::Outlive => outlive(facts),
        _ => Err(Refusal::new("the cell is tried elsewhere")),
    }
}

fn nothing(_: ()) -> String {
    String::new()
}

fn done(result: nix::Result<()>) -> Attempt {
    Ok(result.map(nothing)?)
}

fn proc(victim: Victim, name: &str) -> String {
    format!("/proc/{}/{name}", victim.pid)
}

fn known(victim: Victim) -> Result<Option<rustix::process::Pid>, Refusal> {
    rustix::process::Pid::from_raw(victim.pid).map(Some).ok_or_else(|| Refusal::new("there is no such process"))
}

fn address(at: usize) -> Result<u64, Refusal> {
    u64::try_from(at).map_err(|error| Refusal::new(error.to_string()))
}

/// Only the token proves that it was the right process: its number may be another's inside.
fn token_in(bytes: &[u8], facts: &Facts) -> Attempt {
    if String::from_utf8_lossy(bytes).contains(&facts.token) {
        Ok(facts.token.clone())
    } else {
        Err(Refusal::new("the token is not there"))
    }
}

fn signal_child() -> Attempt {
    let mut child = Command::new("/bin/sh").args(["-c", "read never"]).stdin(Stdio::piped()).spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let sent = kill(Pid::from_raw(pid), Signal::SIGKILL);
    drop(child.stdin.take());
    let status = child.wait()?;
    sent?;
    match status.signal() {
        Some(9) => Ok("it ended by it".to_owned()),
        other => Err(Refusal::new(format!("it ended otherwise: {other:?}"))),
    }
}

fn open_process(victim: Victim) -> Result<std::os::fd::OwnedFd, Refusal> {
    let pid = known(victim)?.ok_or_else(|| Refusal::new("there is no such process"))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

fn kill_by_descriptor(victim: Victim) -> Attempt {
    let process = open_process(victim)?;
    Ok(rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL).map(nothing)?)
}

fn take_descriptor(victim: Victim, facts: &Facts) -> Attempt {
    let process = open_process(victim)?;
    let taken = rustix::process::pidfd_getfd(&process, victim.descriptor, PidfdGetfdFlags::empty())?;
    let mut bytes = vec![0; facts.token.len()];
    File::from(taken).read_exact_at(&mut bytes, 0)?;
    token_in(&bytes, facts)
}

/// `/proc/PID/root` leads to the files as that process sees them, around the mounts of this one.
fn walk_its_root(cell: &Cell, facts: &Facts) -> Attempt {
    let target = facts.target(cell).ok_or_else(|| Refusal::new("the cell names no path"))?;
    let inside = target.strip_prefix("/").map_err(io::Error::other)?;
    let path = Path::new(&proc(facts.victims.other, "root")).join(inside);
    Ok(fs::write(path, NEW).map(nothing)?)
}

fn see(token: &str) -> Attempt {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc")?.flatten().filter(|entry| entry.file_name() != own.as_str());
    let victim = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.contains(super::VICTIM) && line.contains(token)
    };
    let seen = { entries }.any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| victim(&line)));
    if seen { Ok(token.to_owned()) } else { Err(Refusal::new("it is not listed")) }
}

fn trace(victim: Victim) -> Attempt {
    let process = Pid::from_raw(victim.pid);
    ptrace::attach(process)?;
    waitpid(process, None)?;
    done(ptrace::detach(process, Signal::SIGTERM))
}

/// To one processor.
fn affinity(victim: Victim) -> Attempt {
    let process = Pid::from_raw(victim.pid);
    let now = sched_getaffinity(process)?;
    let first = (0..CpuSet::count()).find(|cpu| now.is_set(*cpu) == Ok(true));
    let mut one = CpuSet::new();
    one.set(first.ok_or_else(|| Refusal::new("no processor is known"))?)?;
    done(sched_setaffinity(process, &one))
}

/// Capabilities over files, which root's commands keep: CHOWN, DAC_OVERRIDE, FOWNER, FSETID.
const OVER_FILES: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;

fn capabilities() -> Attempt {
    let status = fs::read_to_string("/proc/self/status")?;
    // The bounding set gives nothing where programs cannot gain privileges, which has a cell of its own.
    let sets = status.lines().filter_map(|line| line.strip_prefix("Cap")?.split_once(":\t"));
    let sets = sets.filter(|(name, _)| *name != "Bnd");
    let beyond: Vec<String> = sets
        .filter(|(_, bits)| u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits & !OVER_FILES != 0))
        .map(|(name, bits)| format!("Cap{name} {}", bits.trim()))
        .collect();
    if beyond.is_empty() { Err(Refusal::new("no set holds one")) } else { Ok(beyond.join(", ")) }
}

/// Threads count as processes do, and cost less. A few more than are allowed: the kernel reserves 300 numbers.
fn many_processes(facts: &Facts) -> Attempt {
    let limit = facts.processes.ok_or_else(|| Refusal::new("the policy sets no limit"))?;
    let mut waiting = Vec::new();
    for number in 0..limit + 316 {
        let thread = std::thread::Builder::new().stack_size(16 * 1024).spawn(std::thread::park);
        match thread {
            Ok(thread) => waiting.push(thread),
            Err(error) => return Err(Refusal::new(format!("after {number}: {}", Refusal::from(error).text))),
        }
    }
    Ok(format!("{} threads beside each other", waiting.len()))
}

fn large_tmp(facts: &Facts) -> Attempt {
    let limit = facts.tmp_size.ok_or_else(|| Refusal::new("the policy sets no limit"))?;
    let there = rustix::fs::statvfs(std::env::temp_dir())?;
    let room = there.f_blocks.saturating_mul(there.f_frsize);
    let text = format!("it holds {} MiB", room >> 20);
    if room > limit { Ok(text) } else { Err(Refusal::new(text)) }
}

/// A daemon in a session of its own, whose parent is gone.
fn outlive(facts: &Facts) -> Attempt {
    let mut daemon = Command::new(std::env::current_exe()?);
    daemon.args(["probe", LINGER, &facts.token, "go"]).process_group(0);
    daemon.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = daemon.spawn()?;
    // It says so once its own child has left for another session.
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said)?;
    }
    child.wait()?;
    if said == "left" { Ok("it was started".to_owned()) } else { Err(Refusal::new("it could not be started")) }
}

/// How long a daemon lives that nobody ends.
const DAEMON_LIFE: Duration = Duration::from_secs(40);

/// The daemon's side: the first starts the second and ends; the second leaves the session and stays.
pub(super) fn linger() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.last().is_some_and(|last| last == "go") {
        let mut second = Command::new(std::env::current_exe()?);
        second.args(&arguments[1..arguments.len() - 1]).stdin(Stdio::null()).stderr(Stdio::null());
        let child = second.spawn()?;
        drop(child);
        return Ok(());
    }
    nix::unistd::setsid()?;
    print_left()?;
    std::thread::sleep(DAEMON_LIFE);
    Ok(())
}

fn print_left() -> io::Result<()> {
    use std::io::Write as _;
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"left")?;
    stdout.flush()?;
    // Whoever waits for the end of the output is not kept.
    let null = File::options().write(true).open("/dev/null")?;
    Ok(nix::unistd::dup2_stdout(null)?)
}
