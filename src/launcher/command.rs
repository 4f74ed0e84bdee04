//! The command's process between clone and exec: one visible list of steps.
//!
//! It either knows what to execute from the start, or is confined ahead of time and told at last.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::{SFlag, fstat, major, minor, stat};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, execve, geteuid, setsid};

use seccompiler::sock_filter;

use super::init::Inherited;
use super::protocol::{Call, Control, Event};
use super::step::{At, StepError, path_of, step};
use super::{SetupFailure, Stage, domain, idle, wire};
use crate::kernel;
use crate::plan::{Instruction, SandboxPlan, to_program};

/// What to execute, and its standard input, output and error.
pub(super) type Task = (Call, [OwnedFd; 3]);

/// Confines this process and executes the program. Returns to nobody: a failure is told on the socket, and the process
/// ends without having run anything.
pub(super) fn run(plan: &SandboxPlan, task: &Task, socket: &OwnedFd, inherited: Inherited) -> ! {
    let Err(failure) =
        confine(plan, Some(task), socket, inherited).and_then(|_| step(plan.fault, Stage::Exec, || execute(&task.0)));
    report(&failure, socket);
    kernel::exit_now(125)
}

/// Confines this process ahead of time and waits for what to execute, which comes over the socket as a [`Call`] with
/// three descriptors. A byte on `unused` says that nothing was executed; its closing by exec, that something was.
pub(super) fn run_when_told(plan: &SandboxPlan, socket: &OwnedFd, inherited: Inherited, unused: &OwnedFd) -> ! {
    let done = confine(plan, None, socket, inherited).and_then(|token| {
        let Some((call, stdio)) = idle::wait::<Call>(socket) else { return Ok(()) };
        let Ok(stdio) = <[OwnedFd; 3]>::try_from(stdio) else { return Ok(()) };
        adopt(plan, &call, &stdio, token)?;
        if plan.trace.is_none() {
            announce(socket);
        }
        step(plan.fault, Stage::Exec, || execute(&call)).map(|never| match never {})
    });
    if let Err(failure) = done {
        report(&failure, socket);
    }
    // EPIPE: init is gone, and this process is about to follow it.
    if let Err(errno) = nix::unistd::write(unused, &[1]) {
        tracing::debug!(%errno, "init could not be told that nothing ran");
    }
    kernel::exit_now(125)
}

/// That the program is executed next.
fn announce(socket: &OwnedFd) {
    if let Err(error) = wire::send(socket, &Event::Executing, &[]) {
        tracing::debug!(%error, "the host could not be told");
    }
}

fn report(failure: &SetupFailure, socket: &OwnedFd) {
    if let Err(error) = wire::send(socket, &Event::Failed(failure.clone()), &[]) {
        tracing::debug!(%error, "a failure could not be reported");
    }
}

/// Every step but the last. Returns the token by which this process alone gets past its own trace filter.
fn confine(
    plan: &SandboxPlan,
    task: Option<&Task>,
    socket: &OwnedFd,
    inherited: Inherited,
) -> Result<u64, SetupFailure> {
    let fault = plan.fault;
    step(fault, Stage::Session, || own_session(task.and_then(|(call, stdio)| terminal_among(call, stdio))))?;
    step(fault, Stage::Keyring, || fresh_keyring(inherited))?;
    step(fault, Stage::Rlimits, || limit_resources(plan, socket, inherited))?;
    step(fault, Stage::Descriptors, || Ok(kernel::close_on_exec_from(3)?))?;
    if plan.drop_capabilities {
        step(fault, Stage::Capabilities, keep_ordinary_capabilities)?;
        step(fault, Stage::NoNewPrivs, || Ok(prctl::set_no_new_privs()?))?;
    }
    if let Some((call, stdio)) = task {
        adopt(plan, call, stdio, 0)?;
    }
    if let Some(landlock) = &plan.landlock {
        if landlock.audit {
            step(fault, Stage::Landlock, || tell_who(socket))?;
        }
        step(fault, Stage::Landlock, || domain::enter(landlock))?;
    }
    let audited = plan.landlock.as_ref().is_some_and(|landlock| landlock.audit);
    step(fault, Stage::Seccomp, || plan.filters.iter().try_for_each(|filter| install(filter, audited)))?;
    match &plan.trace {
        Some(filter) => step(fault, Stage::Trace, || trace(filter, socket)),
        None => Ok(0),
    }
}

/// The steps that only the call decides. Where the trace filter is installed already, its supervisor is not asked about
/// them, by the token.
fn adopt(plan: &SandboxPlan, call: &Call, stdio: &[OwnedFd; 3], token: u64) -> Result<(), SetupFailure> {
    step(plan.fault, Stage::Stdio, || take_stdio(stdio, plan.mounts.is_some(), token))?;
    step(plan.fault, Stage::Workdir, || enter_workdir(&call.workdir, token))
}

/// The command's terminal, when it was given one.
fn terminal_among<'a>(call: &Call, stdio: &'a [OwnedFd; 3]) -> Option<&'a OwnedFd> {
    let stands_for = call.terminal?.stands_for;
    stdio.iter().zip(stands_for).find_map(|(descriptor, is_terminal)| is_terminal.then_some(descriptor))
}

/// A session and group of its own: `kill(0, ...)` then cannot reach the caller's group, and there is no controlling
/// terminal to type into but the sandbox's own. The kernel kills this process with init; what it starts dies with the PID
/// namespace.
fn own_session(terminal: Option<&OwnedFd>) -> Result<(), StepError> {
    setsid()?;
    if let Some(terminal) = terminal {
        rustix::process::ioctl_tiocsctty(terminal).map_err(std::io::Error::from)?;
    }
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    kernel::default_signal_handling()?;
    Ok(())
}

/// A session keyring that no other sandbox shares. Where one cannot be had (quota, no keyrings, a filter around us),
/// the launcher's is inherited, which holds nothing of the host's.
fn fresh_keyring(inherited: Inherited) -> Result<(), StepError> {
    match kernel::join_fresh_session_keyring() {
        Ok(()) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(Errno::EDQUOT) if inherited.fresh_keyring => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves this process into the control group whose entrance the host sent ahead. Init stays outside, so that it can tell
/// how the command ended when the group is killed as a whole.
fn enter_cgroup(socket: &OwnedFd) -> Result<(), StepError> {
    let Ok((Control::Cgroup, entrance)) = wire::receive::<Control>(socket) else { return Err(Errno::EPROTO.into()) };
    let entrance = entrance.first().ok_or(Errno::EPROTO)?;
    nix::unistd::write(entrance, b"0")?;
    Ok(())
}

fn limit_resources(plan: &SandboxPlan, socket: &OwnedFd, inherited: Inherited) -> Result<(), StepError> {
    if plan.cgroup {
        enter_cgroup(socket)?;
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, inherited.open_files.min(hard), hard)?;
    for limit in &plan.rlimits {
        kernel::lower_limit(limit.resource, limit.value)?;
    }
    Ok(())
}

/// What uid 0 needs to work in a workspace that belongs to somebody else, and nothing more; nothing for anybody else.
const ORDINARY_ROOT: [Capability; 4] =
    [Capability::CAP_DAC_OVERRIDE, Capability::CAP_FOWNER, Capability::CAP_CHOWN, Capability::CAP_FSETID];

fn keep_ordinary_capabilities() -> Result<(), StepError> {
    let wanted: CapsHashSet =
        if geteuid().is_root() { ORDINARY_ROOT.into_iter().collect() } else { CapsHashSet::new() };
    restrict_capabilities(&wanted)
}

/// For init, which needs none once the command has started.
pub(super) fn drop_every_capability() -> Result<(), StepError> {
    restrict_capabilities(&CapsHashSet::new())
}

/// Leaves at most `wanted` in all five sets, and looks whether it is so. The bounding set can be lowered only with
/// CAP_SETPCAP; without it `no_new_privs` keeps an exec from gaining what the permitted set lacks.
fn restrict_capabilities(wanted: &CapsHashSet) -> Result<(), StepError> {
    let permitted = caps::read(None, CapSet::Permitted).map_err(refused)?;
    let kept: CapsHashSet = wanted.intersection(&permitted).copied().collect();
    caps::clear(None, CapSet::Ambient).map_err(refused)?;
    if permitted.contains(&Capability::CAP_SETPCAP) {
        // Unread: dropping what is not in the set changes nothing, and asking first would double the calls.
        caps::all().difference(&kept).try_for_each(|capability| drop_from_bounding_set(*capability))?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(refused)?;
    caps::set(None, CapSet::Effective, &kept).map_err(refused)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(refused)?;
    let left = caps::read(None, CapSet::Permitted).map_err(refused)?;
    let effective = caps::read(None, CapSet::Effective).map_err(refused)?;
    if left == kept && effective == kept { Ok(()) } else { Err(Errno::EPERM.into()) }
}

/// A kernel that does not know a capability (EINVAL) has it in no set either.
fn drop_from_bounding_set(capability: Capability) -> Result<(), StepError> {
    match caps::drop(None, CapSet::Bounding, capability) {
        Err(error) if caps::has_cap(None, CapSet::Bounding, capability).is_ok_and(|held| held) => Err(refused(error)),
        _ => Ok(()),
    }
}

/// The crate keeps the errno to itself.
fn refused(_: caps::errors::CapsError) -> StepError {
    Errno::EPERM.into()
}

/// Audit numbers processes as the host does, which this one cannot: a descriptor of itself tells.
fn tell_who(socket: &OwnedFd) -> Result<(), StepError> {
    let own = kernel::notify::pidfd_open(std::process::id())?;
    wire::send(socket, &Event::Confining, &[own.as_raw_fd()]).map_err(|_| Errno::EPIPE)?;
    Ok(())
}

/// A refusal of a logged filter becomes an audit record.
fn install(filter: &[Instruction], logged: bool) -> Result<(), StepError> {
    Ok(kernel::install_filter(&to_program(filter), logged)?)
}

/// Installs the trace filter and hands its listener to the host. From the first to the last the filter stops `sendmsg`,
/// which alone can pass a descriptor; so it begins with an exception for one random token, drawn for this run and out of
/// every program's reach after exec. Returns the token.
fn trace(filter: &[Instruction], socket: &OwnedFd) -> Result<u64, StepError> {
    let token = random()?;
    let mut program = exception_for(token);
    program.extend(to_program(filter));
    let listener = kernel::install_filter_with_listener(&program)?;
    wire::send_past_filter(socket, &Event::Listener, &listener, token).map_err(|_| Errno::EPIPE)?;
    Ok(token)
}

/// Straight from the kernel: a static program's `getrandom` crate would read `/dev/urandom`.
fn random() -> Result<u64, StepError> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(Errno::EIO.into()),
    }
}

/// Instructions that allow the three calls of this process that would be stopped, with the token in the sixth argument,
/// and fall through otherwise. The architecture was settled by the first filter.
fn exception_for(token: u64) -> Vec<sock_filter> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const SIXTH_ARGUMENT: u32 = 16 + 5 * 8;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let [low, high] = halves(token);
    let [sendmsg, openat, chdir] =
        [libc::SYS_sendmsg, libc::SYS_openat, libc::SYS_chdir].map(|call| u32::try_from(call).unwrap_or(u32::MAX));
    vec![
        instruction(LOAD, 0, 0, 0),
        instruction(EQUAL, 2, 0, sendmsg),
        instruction(EQUAL, 1, 0, openat),
        instruction(EQUAL, 0, 5, chdir),
        instruction(LOAD, 0, 0, SIXTH_ARGUMENT),
        instruction(EQUAL, 0, 3, low),
        instruction(LOAD, 0, 0, SIXTH_ARGUMENT + 4),
        instruction(EQUAL, 0, 1, high),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Low and high word, which is also their order in memory on the architectures there are.
fn halves(token: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = token.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

fn take_stdio(stdio: &[OwnedFd; 3], private_dev: bool, token: u64) -> Result<(), StepError> {
    let own = stdio.each_ref().map(|fd| if private_dev { own_device(fd, token) } else { Ok(None) });
    let [stdin, stdout, stderr] = own;
    dup2_stdin(stdin?.as_ref().unwrap_or(&stdio[0]))?;
    dup2_stdout(stdout?.as_ref().unwrap_or(&stdio[1]))?;
    dup2_stderr(stderr?.as_ref().unwrap_or(&stdio[2]))?;
    Ok(())
}

/// The sandbox's own node of a memory device: through the host's, uid 0 could change the host's mode and owner of it.
fn own_device(fd: &OwnedFd, token: u64) -> Result<Option<OwnedFd>, Errno> {
    let stat = fstat(fd)?;
    let is_device = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR;
    let name = match (is_device, major(stat.st_rdev), minor(stat.st_rdev)) {
        (true, 1, 3) => c"/dev/null",
        (true, 1, 5) => c"/dev/zero",
        (true, 1, 7) => c"/dev/full",
        (true, 1, 8) => c"/dev/random",
        (true, 1, 9) => c"/dev/urandom",
        _ => return Ok(None),
    };
    let access = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?) & OFlag::O_ACCMODE;
    kernel::open_past_filter(name, access | OFlag::O_CLOEXEC, token).map(Some)
}

fn enter_workdir(workdir: &CStr, token: u64) -> Result<(), StepError> {
    kernel::chdir_past_filter(workdir, token).at(path_of(workdir))
}

/// Executes the program, looked up on the command's own PATH, remembering a refusal over an absence.
fn execute(call: &Call) -> Result<Infallible, StepError> {
    let name = &call.program;
    if name.to_bytes().contains(&b'/') {
        return execute_at(name, call).at(path_of(name));
    }
    let mut failure = Errno::ENOENT;
    for directory in search_path(call) {
        let mut candidate = if directory.is_empty() { b".".to_vec() } else { directory.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(name.to_bytes());
        let Ok(candidate) = CString::new(candidate) else { continue };
        match execute_at(&candidate, call) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            // As in bash only a file counts: not a directory of that name, nor a place that may not be entered.
            Err(Errno::EACCES) if !is_file(&candidate) => {}
            Err(errno) => failure = errno,
        }
    }
    Err(failure).at(path_of(name))
}

fn is_file(path: &CStr) -> bool {
    stat(path).is_ok_and(|there| SFlag::from_bits_truncate(there.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFREG)
}

fn execute_at(program: &CStr, call: &Call) -> Result<Infallible, Errno> {
    match execve(program, &call.arguments, &call.environment) {
        // A script without an interpreter line is a shell script, as everywhere.
        Err(Errno::ENOEXEC) => {
            let mut arguments = vec![c"sh".to_owned(), program.to_owned()];
            arguments.extend(call.arguments.iter().skip(1).cloned());
            execve(c"/bin/sh", &arguments, &call.environment)
        }
        Err(errno) => Err(errno),
    }
}

fn search_path(call: &Call) -> impl Iterator<Item = &[u8]> {
    const DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
    let path = call.environment.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT).split(|byte| *byte == b':')
}
