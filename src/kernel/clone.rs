//! Creating a process, with or without new namespaces.

use std::convert::Infallible;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::Pid;

/// Which side of a clone the caller is on.
#[derive(Debug)]
pub(crate) enum Cloned {
    /// The new process.
    Child,
    /// The caller, with the child's pid and, when `CLONE_PIDFD` was asked for, its pidfd.
    Parent {
        /// Pid of the child as the caller's PID namespace numbers it.
        pid: Pid,
        /// Descriptor of the child.
        pidfd: Option<OwnedFd>,
    },
}

/// `clone(2)` with a copied address space, like `fork`, plus `flags`.
///
/// The old call rather than `clone3`, so that it also works under filters that answer `ENOSYS` to `clone3`, ours among
/// them. The caller must be single-threaded for the child to be able to use the heap.
///
/// # Errors
/// What the kernel says: `EPERM` or `ENOSPC` where namespaces are refused, `EAGAIN` where processes are.
pub(crate) fn clone_process(flags: CloneFlags, pidfd: bool) -> Result<Cloned, Errno> {
    let mut fd: RawFd = -1;
    let mut bits = libc::c_ulong::from(flags.bits().cast_unsigned()) | SIGCHLD;
    if pidfd {
        bits |= PIDFD;
    }
    let no_stack = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM the child gets a copy of everything, and the only pointer passed is to a live local.
    let pid = unsafe { libc::syscall(libc::SYS_clone, bits, no_stack, &raw mut fd, 0, 0) };
    match Errno::result(pid)? {
        0 => Ok(Cloned::Child),
        pid => Ok(Cloned::Parent {
            pid: Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ERANGE)?),
            pidfd: pidfd.then(|| own(fd)),
        }),
    }
}

/// Stack of a process that shares our memory, bytes: generous for what runs on it, and touched page by page.
const STACK: usize = 512 * 1024;

/// Runs `body` in a new process that shares this one's memory, and returns when that process has executed a program or
/// ended: `vfork(2)` on a stack of its own. Nothing is copied, so it costs a tenth of a fork and its exec has nothing to
/// take apart. What `body` allocates and does not free before exec stays allocated here.
///
/// The caller must be single-threaded. `body` must not unwind; a panic ends the new process.
///
/// # Errors
/// `EAGAIN` or `ENOMEM`, as for any process.
pub(crate) fn run_sharing_memory<F: FnOnce() -> Infallible>(body: F) -> Result<Pid, Errno> {
    extern "C" fn begin<F: FnOnce() -> Infallible>(argument: *mut libc::c_void) -> libc::c_int {
        let body = argument.cast::<Option<F>>();
        // SAFETY: the argument is the caller's live `Option<F>`, and the caller is suspended while this runs.
        let body = unsafe { (*body).take() };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body.map(|body| body())));
        drop(ended);
        super::exit_now(125)
    }
    let mut body = Some(body);
    let mut stack = vec![0_u8; STACK];
    // The stack grows downwards from a 16-byte boundary.
    let top = stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % 16);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack and the closure outlive the child's use of them, because CLONE_VFORK suspends this only thread
    // until the child has left this memory by exec or exit.
    let pid = unsafe { libc::clone(begin::<F>, top.cast(), flags, (&raw mut body).cast()) };
    Errno::result(pid).map(Pid::from_raw)
}

const SIGCHLD: libc::c_ulong = 17;
const PIDFD: libc::c_ulong = 0x1000;

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
