//! One traced run: takes its notifications, judges each and answers it.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use nix::errno::Errno;
use syscalls::Sysno;

use super::arguments;
use super::cache::Cache;
use super::calls::{self, low};
use super::examine::{Outcome, Trouble};
use super::filter::{NATIVE_ARCH, X32_BIT};
use super::process;
use super::record::{Entry, Recorder, TraceRecord};
use super::resolve::View;
use super::watch::Watch;
use crate::denial::{DenialKind, DeniedProcess, Remedy, Target};
use crate::kernel::notify::{self, Notification};
use crate::policy::{ArgMatch, ArgOp, RefusalErrno, SyscallRule};

/// What a waiting call is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The kernel decides.
    Continue,
    /// A fixed refusal.
    Refuse(Errno),
}

/// The supervisor's state of one run.
#[derive(Debug)]
pub(crate) struct Run {
    listener: OwnedFd,
    pub(crate) watch: Watch,
    /// Call numbers of `watch.rules`, in their order.
    numbers: Vec<Option<i32>>,
    pub(crate) view: Option<View>,
    /// A process may have a root of its own, so the view is taken anew for each call.
    pub(crate) own_roots: bool,
    pub(crate) cache: Cache,
    /// Highest process number seen inside.
    pub(crate) highest: u32,
    /// The executor's own capabilities, read on first use.
    pub(crate) host_capabilities: Option<u64>,
    recorder: Recorder,
}

impl Run {
    pub(crate) fn new(listener: OwnedFd, watch: Watch) -> Self {
        // Without it (before Linux 6.6) a call costs a cross-CPU wake-up more; nothing else changes.
        if let Err(error) = notify::set_sync_wake_up(listener.as_fd()) {
            tracing::debug!(%error, "no synchronous wake-up of the trace supervisor");
        }
        let numbers = watch.rules.iter().map(|rule| rule.syscall.parse::<Sysno>().ok().map(|call| call.id())).collect();
        Self {
            listener,
            watch,
            numbers,
            view: None,
            own_roots: false,
            cache: Cache::default(),
            highest: 1,
            host_capabilities: None,
            recorder: Recorder::default(),
        }
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes and answers one call. `false` when none was to be had.
    pub(crate) fn serve(&mut self) -> io::Result<bool> {
        let call = match notify::receive(self.listener.as_fd()) {
            Ok(call) => call,
            // Its process was killed or interrupted in between.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let sent = match self.judge(&call) {
            Answer::Continue => notify::respond_continue(self.listener.as_fd(), call.id),
            Answer::Refuse(errno) => notify::respond_errno(self.listener.as_fd(), call.id, errno as i32),
        };
        match sent {
            // Gone in between, or interrupted: then the same call comes again.
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(true),
        }
    }

    /// Closes the listener and the record; `broken` when calls went unanswered.
    pub(crate) fn finish(self, broken: bool) -> TraceRecord {
        self.recorder.finish(broken)
    }

    fn judge(&mut self, call: &Notification) -> Answer {
        self.recorder.count_call();
        self.cache.heard_of(call.tid);
        if let Some(errno) = self.fixed(call) {
            return Answer::Refuse(errno);
        }
        let known = usize::try_from(call.nr).ok().and_then(Sysno::new);
        let Some((number, request)) = known.and_then(|number| Some((number, calls::decode(number, &call.args)?)))
        else {
            return Answer::Continue;
        };
        match self.examine(call.tid, request) {
            Ok(Outcome::Allowed) => self.recorder.went_on(call.tid, None),
            // It fails for another reason: nobody refused it, and it is no going on either.
            Ok(Outcome::Refused(..))
                if arguments::fail(call.tid, number, &call.args) || arguments::fail_on_socket(call.tid, &request) => {}
            Ok(Outcome::Refused(kind, target, errno)) => {
                self.record(call, number.name(), kind, target, errno, Remedy::Ask);
            }
            Ok(Outcome::Privileged(kind, target, errno)) => {
                self.record(call, number.name(), kind, target, errno, Remedy::Privileged);
            }
            Err(Trouble::Fails) => {}
            Err(Trouble::Unreadable(errno)) => {
                if notify::id_valid(self.listener.as_fd(), call.id) {
                    tracing::debug!(%errno, call = number.name(), "a traced call could not be read");
                    self.recorder.count_unreadable();
                }
            }
        }
        Answer::Continue
    }

    /// The answer to a call of a foreign ABI, or to one that a rule refuses.
    fn fixed(&mut self, call: &Notification) -> Option<Errno> {
        let foreign = call.arch != NATIVE_ARCH;
        let x32 = cfg!(target_arch = "x86_64") && call.nr.cast_unsigned() & X32_BIT != 0;
        if foreign || x32 {
            let name = format!("{} call {}", if foreign { "foreign-abi" } else { "x32" }, call.nr);
            self.record(call, &name, DenialKind::Syscall, Target::Syscall, Errno::ENOSYS, Remedy::Ask);
            return Some(Errno::ENOSYS);
        }
        let rules = self.watch.rules.clone();
        let named = self.numbers.iter().zip(rules.iter()).filter(|(number, _)| **number == Some(call.nr));
        let mut standing = named.map(|(_, rule)| rule).filter(|rule| applies(rule, &call.args));
        let rule = standing.next()?;
        let remedy = remedy(std::iter::once(rule).chain(standing), &call.args);
        let errno = match rule.errno {
            RefusalErrno::Eperm => Errno::EPERM,
            RefusalErrno::Enosys => Errno::ENOSYS,
            RefusalErrno::Eafnosupport => Errno::EAFNOSUPPORT,
        };
        match self.object(call) {
            // A change to what cannot be reached fails whoever allows it.
            Err(Trouble::Fails) if rule.kind == DenialKind::FsMetadata => {}
            object => {
                let target = object.ok().flatten().map_or(Target::Syscall, Target::Path);
                self.record(call, &rule.syscall, rule.kind, target, errno, remedy);
            }
        }
        Some(errno)
    }

    /// The path that a refused call is about, where it is about one.
    fn object(&mut self, call: &Notification) -> Result<Option<PathBuf>, Trouble> {
        let number = usize::try_from(call.nr).ok().and_then(Sysno::new);
        let object = number.and_then(|number| calls::object_of(number, &call.args));
        object.map_or(Ok(None), |object| self.find(call.tid, object))
    }

    fn record(
        &mut self,
        call: &Notification,
        name: &str,
        kind: DenialKind,
        target: Target,
        errno: Errno,
        remedy: Remedy,
    ) {
        if self.recorder.repeats(call.tid, kind, &target, name) {
            return;
        }
        let who = process::identity(call.tid);
        // What was read belongs to this call only if it still waits.
        if !notify::id_valid(self.listener.as_fd(), call.id) {
            return;
        }
        let tgid = who.as_ref().map(|who| who.tgid);
        self.highest = self.highest.max(who.as_ref().map_or(0, |who| who.inner));
        let entry = Entry {
            kind,
            target,
            syscall: name.to_owned(),
            errno: format!("{errno:?}"),
            process: who.map(|who| DeniedProcess { pid: Some(who.inner), comm: who.comm }),
            at: Instant::now().saturating_duration_since(self.watch.started),
            remedy,
        };
        self.recorder.keep(call.tid, tgid, entry);
    }

    /// The directory that relative paths of a thread start from.
    pub(crate) fn cwd(&mut self, tid: u32, now: Instant) -> Result<PathBuf, Errno> {
        if let Some(path) = self.cache.cwd(tid, now) {
            return Ok(path.clone());
        }
        let path = process::directory(tid, calls::AT_FDCWD)?;
        self.cache.keep_cwd(tid, now, path.clone());
        Ok(path)
    }
}

/// A rule about what is in the arguments (a set-user-ID bit) holds in every confining mode; one about metadata as such
/// stands in for a read-only mount that is not there, and no grant of a path takes it away.
fn remedy<'a>(mut standing: impl Iterator<Item = &'a SyscallRule>, args: &[u64; 6]) -> Remedy {
    /// `CLONE_NEWUSER`, the one namespace that takes no privilege, and brings the right to make the others.
    const NEW_USER: u32 = 0x1000_0000;
    let about_bits = |rule: &SyscallRule| !rule.when.is_empty() && rule.syscall != "ioctl";
    match standing.next() {
        Some(first) if first.kind == DenialKind::Namespace => {
            let unprivileged = matches!(first.syscall.as_str(), "clone" | "unshare") && low(args[0]) & NEW_USER != 0;
            if unprivileged { Remedy::Ask } else { Remedy::Privileged }
        }
        Some(first) if first.kind != DenialKind::FsMetadata => Remedy::Ask,
        Some(first) if about_bits(first) || standing.any(about_bits) => Remedy::Unconfined,
        _ => Remedy::NoGrant,
    }
}

/// Evaluates a rule's conditions as the filter does.
fn applies(rule: &SyscallRule, args: &[u64; 6]) -> bool {
    rule.when.iter().all(|condition| {
        let ArgMatch { arg, op, value, mask } = *condition;
        let Some(word) = args.get(usize::from(arg)).copied().map(low) else { return false };
        match op {
            ArgOp::Eq => word == value,
            ArgOp::Ne => word != value,
            ArgOp::AnyBit => word & value != 0,
            ArgOp::MaskedEq => word & mask == value & mask,
        }
    })
}
