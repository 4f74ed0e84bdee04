//! PID 1 of one sandbox: builds the mounts, starts the command, reaps, reports, exits.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, pipe2};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::command::Task;
use super::lookups::NameServer;
use super::mounts::Foundation;
use super::network::Network;
use super::protocol::{Call, Control, Event, Exit, Order, Terminal};
use super::step::{At, StepError, step};
use super::wire::{self, WireError};
use super::{SetupFailure, Stage, command, idle, reap};
use crate::kernel;
use crate::plan::{Backend, Fault, IdMap, Namespaces, SandboxPlan, Shape};

/// What the launcher hands down to every sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inherited {
    /// Soft limit of open files before the launcher raised its own.
    pub(super) open_files: u64,
    /// The launcher's session keyring is a fresh one already.
    pub(super) fresh_keyring: bool,
}

/// What a sandbox is to run, and the sockets and descriptors it needs.
pub(super) struct Work {
    pub(super) plan: SandboxPlan,
    /// The run's socket.
    pub(super) socket: OwnedFd,
    /// `None` when the command is told at last.
    pub(super) task: Option<Task>,
}

impl Work {
    /// From an order and the descriptors that came with it; `None` when they do not fit.
    pub(super) fn new(plan: SandboxPlan, call: Option<Call>, descriptors: Vec<OwnedFd>) -> Option<Self> {
        match call {
            Some(call) => {
                let [socket, stdin, stdout, stderr] = descriptors.try_into().ok()?;
                Some(Self { plan, socket, task: Some((call, [stdin, stdout, stderr])) })
            }
            None => {
                let [socket] = descriptors.try_into().ok()?;
                Some(Self { plan, socket, task: None })
            }
        }
    }
}

/// Builds a sandbox and runs its command; ends the process.
pub(super) fn run(work: Work, inherited: Inherited, network: Network) -> ! {
    let foundation = lay(work.plan.backend, work.plan.shape(), network, work.plan.fault);
    carry_out(work, foundation, inherited)
}

/// Builds a foundation, waits on `inbox` for what to run on it, and runs that; ends the process.
pub(super) fn wait_and_run(shape: Shape, inbox: OwnedFd, inherited: Inherited, network: Network) -> ! {
    let foundation = lay(Backend::Namespaces, Some(shape), network, None);
    if let Some((Order { plan, call }, descriptors)) = idle::wait::<Order>(&inbox) {
        drop(inbox);
        if let Some(work) = Work::new(plan, call, descriptors) {
            carry_out(work, foundation, inherited);
        }
    }
    kernel::exit_now(EXPIRED)
}

/// Exit status of an init that nobody wanted after all.
pub(super) const EXPIRED: i32 = 3;

/// What is built before the policy of the call is known. Without namespaces there is nothing.
#[derive(Default)]
struct Ground {
    mounts: Option<Foundation>,
    names: Option<NameServer>,
}

type Laid = Result<Ground, SetupFailure>;

fn carry_out(work: Work, foundation: Laid, inherited: Inherited) -> ! {
    let Work { plan, socket, task } = work;
    let built = foundation.and_then(|mut ground| build(&plan, ground.mounts.as_mut(), &socket).map(|()| ground));
    let started = built.and_then(|ground| match task {
        Some((call, stdio)) => {
            let stdio = match call.terminal {
                Some(wanted) => step(plan.fault, Stage::Stdio, || terminal(wanted, stdio, &socket))?,
                None => stdio,
            };
            let (main, signals) = start(&plan, &(call, stdio), &socket, inherited)?;
            // Taking the host's tree apart waits for every processor, a millisecond and more: left to the end of this
            // process, when all has been told.
            std::mem::forget(ground.mounts);
            Ok((main, signals, ground.names))
        }
        None => {
            // Here it is done while nothing is wanted; left open, it would be the command's exec that closes it last.
            drop(ground.mounts);
            let (main, signals, unused) = start_ahead(&plan, &socket, inherited)?;
            if !has_executed(unused) {
                kernel::exit_now(0);
            }
            Ok((main, signals, ground.names))
        }
    });
    match started {
        Ok((main, signals, names)) => {
            let namespaced = plan.backend == Backend::Namespaces;
            let mut sandbox = Sandbox { socket, signals, names, main, namespaced };
            // The command may run already, so a refusal here cannot be told as one of building: the sandbox ends without
            // a word, which the host reports as lost.
            let bare = !plan.drop_capabilities || command::drop_every_capability().is_ok();
            if bare {
                tell(&sandbox.socket, &Event::Started);
            }
            sandbox.supervise(bare);
        }
        Err(failure) => tell(&socket, &Event::Failed(failure)),
    }
    kernel::exit_now(0)
}

/// What is the same whatever the policy. Without namespaces that is the lifeline alone.
fn lay(backend: Backend, shape: Option<Shape>, network: Network, fault: Option<Fault>) -> Laid {
    if let Some(Shape { namespaces, .. }) = shape {
        step(fault, Stage::Namespaces, || Ok(unshare(own_namespaces(namespaces, &network))?))?;
    }
    if let Some(map) = shape.and_then(|shape| shape.namespaces.user) {
        step(fault, Stage::IdMaps, || write_id_maps(map))?;
    }
    step(fault, Stage::Lifeline, || tie_to_launcher(backend))?;
    let Some(shape) = shape else { return Ok(Ground::default()) };
    if let Network::Joined { names, server } = network {
        return Ok(Ground { mounts: Some(Foundation::lay(shape, names, fault)?), names: server });
    }
    let mounts = Some(Foundation::lay(shape, Ipv4Addr::LOCALHOST, fault)?);
    if !shape.namespaces.network {
        return Ok(Ground { mounts, names: None });
    }
    step(fault, Stage::Loopback, || Ok(kernel::bring_loopback_up()?))?;
    Ok(Ground { mounts, names: NameServer::open(Ipv4Addr::LOCALHOST) })
}

/// Those that init was not born into.
fn own_namespaces(namespaces: Namespaces, network: &Network) -> CloneFlags {
    let mut flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWCGROUP;
    flags.set(CloneFlags::CLONE_NEWNET, namespaces.network && matches!(network, Network::AsPlanned));
    flags
}

/// Everything else up to the command's own process.
fn build(plan: &SandboxPlan, foundation: Option<&mut Foundation>, socket: &OwnedFd) -> Result<(), SetupFailure> {
    if let (Some(foundation), Some(mounts)) = (foundation, &plan.mounts) {
        foundation.finish(mounts, plan.pid_max, plan.fault)?;
    }
    if let Some(port) = plan.proxy_port {
        step(plan.fault, Stage::ProxySocket, || hand_out_proxy_socket(port, socket))?;
    }
    Ok(())
}

/// Maps the one uid and gid to themselves. `/proc/self` of a non-dumpable process belongs to the host's root, so the
/// process is dumpable for the length of these three writes; nothing of the command exists yet.
pub(super) fn write_id_maps(map: IdMap) -> Result<(), StepError> {
    prctl::set_dumpable(true)?;
    for (path, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{0} {0} 1", map.uid)),
        ("/proc/self/gid_map", format!("{0} {0} 1", map.gid)),
    ] {
        std::fs::write(path, content).at(path.as_ref())?;
    }
    prctl::set_dumpable(false)?;
    Ok(())
}

/// The launcher's death is this sandbox's. With a PID namespace, SIGKILL to init takes everything along; without one,
/// SIGTERM lets init end its descendants first.
fn tie_to_launcher(backend: Backend) -> Result<(), StepError> {
    let signal = if backend == Backend::Namespaces { Signal::SIGKILL } else { Signal::SIGTERM };
    prctl::set_pdeathsig(signal)?;
    if backend != Backend::Namespaces {
        prctl::set_child_subreaper(true)?;
    }
    Ok(())
}

/// A socket belongs to the network namespace it was made in, wherever its descriptor goes: so the host's proxy can serve
/// this loopback, and no relay has to run inside.
fn hand_out_proxy_socket(port: u16, socket: &OwnedFd) -> Result<(), StepError> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))?;
    wire::send(socket, &Event::ProxySocket, &[listener.as_raw_fd()]).map_err(|_| Errno::EPIPE)?;
    Ok(())
}

/// Makes a pseudo-terminal, hands one side to the host and puts the other in place of the descriptors it stands for. Within a private `/dev` it
/// belongs to the sandbox's own devpts, so it has a name there and none of the host's terminals is in reach.
fn terminal(wanted: Terminal, mut stdio: [OwnedFd; 3], socket: &OwnedFd) -> Result<[OwnedFd; 3], StepError> {
    let io = std::io::Error::from;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let host_side = rustix::pty::openpt(flags).map_err(io).at("/dev/ptmx".as_ref())?;
    rustix::pty::unlockpt(&host_side).map_err(io)?;
    let command_side = rustix::pty::ioctl_tiocgptpeer(&host_side, flags).map_err(io)?;
    let size = Winsize { ws_col: wanted.columns, ws_row: wanted.rows, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&command_side, size).map_err(io)?;
    wire::send(socket, &Event::Terminal, &[host_side.as_raw_fd()]).map_err(|_| Errno::EPIPE)?;
    for (descriptor, stands_for) in stdio.iter_mut().zip(wanted.stands_for) {
        if stands_for {
            *descriptor = command_side.try_clone()?;
        }
    }
    Ok(stdio)
}

/// Starts the command's process. The parent sleeps until it has executed its program or failed to, so what it tells the
/// host next is a fact.
fn start(
    plan: &SandboxPlan,
    task: &Task,
    socket: &OwnedFd,
    inherited: Inherited,
) -> Result<(Pid, SignalFd), SetupFailure> {
    step(plan.fault, Stage::Fork, || {
        let signals = watch_signals()?;
        if plan.trace.is_none() {
            tell(socket, &Event::Executing);
        }
        let main = kernel::run_sharing_memory(|| command::run(plan, task, socket, inherited))?;
        Ok((main, signals))
    })
}

/// Starts a command's process that is told at last what to execute, and sleeps until it has executed that or ended. The
/// pipe says which.
fn start_ahead(
    plan: &SandboxPlan,
    socket: &OwnedFd,
    inherited: Inherited,
) -> Result<(Pid, SignalFd, OwnedFd), SetupFailure> {
    step(plan.fault, Stage::Fork, || {
        let signals = watch_signals()?;
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        let main = kernel::run_sharing_memory(|| command::run_when_told(plan, socket, inherited, &writer))?;
        Ok((main, signals, reader))
    })
}

/// Whether a process that was told at last has executed something: it says so when it has not.
fn has_executed(unused: OwnedFd) -> bool {
    loop {
        match nix::unistd::read(&unused, &mut [0]) {
            Err(Errno::EINTR) => {}
            read => return read == Ok(0),
        }
    }
}

fn watch_signals() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.add(Signal::SIGTERM);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// A failure to tell the host means that the host is gone; the hang-up on the same socket ends the sandbox.
fn tell(socket: &OwnedFd, event: &Event) {
    if let Err(error) = wire::send(socket, event, &[]) {
        tracing::debug!(%error, "the host could not be told");
    }
}

struct Sandbox {
    socket: OwnedFd,
    signals: SignalFd,
    names: Option<NameServer>,
    main: Pid,
    namespaced: bool,
}

impl Sandbox {
    /// Waits for the command, the host and the launcher, whichever speaks first; leaves nothing behind. Without `wait` it
    /// ends everything at once.
    fn supervise(&mut self, wait: bool) {
        let ending = if wait { self.wait_for_main() } else { None };
        if self.namespaced {
            reap::kill_all_in_namespace();
        } else {
            reap::kill_all_children();
        }
        if let Some((code, signal)) = ending {
            tell(&self.socket, &Event::Exited(self.exit(code, signal)));
        }
    }

    /// How the command ended; `None` when the sandbox is to end without it, because the host or the launcher is gone.
    fn wait_for_main(&mut self) -> Option<(Option<i32>, Option<i32>)> {
        loop {
            if let Some(ending) = self.collect() {
                return Some(ending);
            }
            // Without a name server the third is the second once more.
            let questions = self.names.as_ref().map_or(self.socket.as_fd(), |names| names.socket().as_fd());
            let mut ready = [self.signals.as_fd(), self.socket.as_fd(), questions]
                .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
            match poll(&mut ready, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
            let [signal, control, question] = ready.map(|fd| fd.any().unwrap_or(false));
            if signal && self.told_to_end() {
                return None;
            }
            if control && !self.obey() {
                return None;
            }
            if let Some(names) = self.names.as_mut().filter(|_| question) {
                names.answer(|question| tell(&self.socket, &Event::Lookup(question.to_vec())));
            }
        }
    }

    /// Collects what has ended; the command's ending when it was among it.
    fn collect(&self) -> Option<(Option<i32>, Option<i32>)> {
        let mut main = None;
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { break };
            if pid == self.main {
                main = reap::ending(status);
            }
        }
        main
    }

    /// Empties the signal queue; true when SIGTERM was in it, which only the launcher's death sends.
    fn told_to_end(&self) -> bool {
        let mut end = false;
        while let Ok(Some(info)) = self.signals.read_signal() {
            end |= i32::try_from(info.ssi_signo) == Ok(Signal::SIGTERM as i32);
        }
        end
    }

    /// Does what the host says; false when the host is gone.
    fn obey(&self) -> bool {
        match wire::receive::<Control>(&self.socket) {
            Ok((Control::Signal(number), _)) => {
                if let Ok(signal) = Signal::try_from(number) {
                    self.signal_group(signal);
                }
                true
            }
            Ok((Control::KillAll, _)) => {
                self.signal_group(Signal::SIGKILL);
                reap::kill_one(self.main);
                true
            }
            Ok((Control::Cgroup, _)) | Err(WireError::NotReady) => true,
            Err(_) => false,
        }
    }

    /// The command leads its own process group. ESRCH: it has just ended.
    fn signal_group(&self, signal: Signal) {
        if let Err(errno) = kill(Pid::from_raw(-self.main.as_raw()), signal) {
            tracing::debug!(%errno, "the command's group could not be signalled");
        }
    }

    fn exit(&self, code: Option<i32>, signal: Option<i32>) -> Exit {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let micros = |time: nix::sys::time::TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
        Exit {
            code,
            signal,
            cpu_micros: usage.map_or((0, 0), |usage| (micros(usage.user_time()), micros(usage.system_time()))),
            max_rss_kib: usage.and_then(|usage| u64::try_from(usage.max_rss()).ok()).unwrap_or(0),
        }
    }
}
