//! Signals, limits and the end of a process.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal};

/// Sends SIGKILL through a pidfd, which cannot hit a recycled pid (pidfd_send_signal(2), Linux 5.1).
///
/// # Errors
/// `ESRCH` when the process is gone.
pub(crate) fn pidfd_kill(pidfd: impl AsFd) -> Result<(), Errno> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: a null siginfo asks the kernel to fill it in as kill(2) would; no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, no_info, 0) };
    Errno::result(result).map(drop)
}

/// Gives every signal its default action and unblocks all, so that a program starts as from a fresh shell: Rust ignores
/// SIGPIPE, and an ignored signal stays ignored across exec.
///
/// # Errors
/// None is known for valid signals; returned rather than dropped.
pub(crate) fn default_signal_handling() -> Result<(), Errno> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: the default action runs no code of ours.
        unsafe { nix::sys::signal::sigaction(signal, &default) }?;
    }
    SigSet::empty().thread_set_mask()
}

/// Lowers one resource limit, soft and hard, by the kernel's number of the resource (prlimit(2)). A limit that is lower
/// already stays.
///
/// # Errors
/// `EINVAL` for an unknown resource.
pub(crate) fn lower_limit(resource: u32, value: u64) -> Result<(), Errno> {
    let mut now = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    prlimit(resource, std::ptr::null(), &raw mut now)?;
    let wanted = libc::rlimit64 { rlim_cur: value.min(now.rlim_cur), rlim_max: value.min(now.rlim_max) };
    prlimit(resource, &raw const wanted, std::ptr::null_mut())
}

fn prlimit(resource: u32, new: *const libc::rlimit64, old: *mut libc::rlimit64) -> Result<(), Errno> {
    // SAFETY: both pointers are null or lead to a live struct of the type that the call reads or fills.
    let result = unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, new, old) };
    Errno::result(result).map(drop)
}

/// Ends the process at once: no destructors, no `atexit` handlers of the program it was cloned from.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes no memory and does not return.
    unsafe { libc::_exit(status) }
}

/// Overwrites the arguments and the environment that this process was executed with, where `/proc/PID/cmdline` and
/// `environ` read them. For a fork that goes on as another program: `std::env` is empty for it afterwards.
///
/// # Errors
/// `ESRCH` where `/proc/self/stat` does not tell where they are.
pub(crate) fn wipe_arguments_and_environment() -> Result<(), Errno> {
    let stat = procfs::process::Process::myself().and_then(|me| me.stat()).map_err(|_| Errno::ESRCH)?;
    let (Some(start), Some(end)) = (stat.arg_start, stat.env_end) else { return Err(Errno::ESRCH) };
    let (start, end) = (usize::try_from(start), usize::try_from(end));
    let (Ok(start), Ok(end)) = (start, end) else { return Err(Errno::ERANGE) };
    let Some(length) = end.checked_sub(start).filter(|_| start != 0) else { return Err(Errno::ESRCH) };
    let strings = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel laid these strings out on the stack of this process at exec, they stay mapped and writable, and
    // a zeroed string is still terminated for whoever holds a pointer to it.
    unsafe { strings.write_bytes(0, length) };
    Ok(())
}
