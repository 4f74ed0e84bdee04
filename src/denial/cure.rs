//! What would cure a refusal: the narrowest wider mode, and the narrowest extra permission.
//!
//! A cure is named only where the host itself would let this user do it; otherwise widening buys nothing but risk.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::merge::Joined;
use super::refusal::{allowed, loopback, path_refused, peer_refused};
use super::{
    DenialKind, FileBackend, FileState, Grant, HostAccess, HostView, NetBackend, Observation, PolicyViews, Remedy,
    Target,
};
use crate::policy::{EffectivePolicy, NetworkMode, SandboxMode};

/// Calls that the kernel refuses to an ordinary user whatever the sandbox says.
const PRIVILEGED_CALLS: &[&str] = &[
    "acct",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "finit_module",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "open_by_handle_at",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "swapoff",
    "swapon",
    "vhangup",
];

/// The cure of one access: a mode, a grant, or neither.
pub(super) fn cure(joined: &Joined, views: &PolicyViews<'_>) -> (Option<SandboxMode>, Option<Grant>) {
    let refused = &joined.best;
    if refused.remedy == Remedy::Nothing {
        return (None, None);
    }
    // Of a move both ends must be allowed.
    let both: Vec<Observation> = std::iter::once(refused.clone())
        .chain(
            joined.other_end.iter().map(|path| Observation { target: Target::Path(path.clone()), ..refused.clone() }),
        )
        .collect();
    if !both.iter().all(|end| host_would(end, views.host)) {
        return (None, None);
    }
    let none_confined =
        matches!(refused.remedy, Remedy::Unconfined | Remedy::Privileged) || went_past_the_proxy(refused, views);
    let allows = |policy: &EffectivePolicy| !none_confined && both.iter().all(|end| permits(policy, end, views));
    let widen = views
        .effective
        .mode
        .wider()
        .find(|mode| !mode.confines() || (views.wider)(*mode).is_some_and(|policy| allows(&policy)));
    (widen, grant(joined, views))
}

/// A peer that the rules allow already, and that was wanted without the proxy, which alone leads there: no further entry
/// changes that.
fn went_past_the_proxy(refused: &Observation, views: &PolicyViews<'_>) -> bool {
    match (&refused.target, refused.kind) {
        (Target::Net { host, port }, DenialKind::NetConnect | DenialKind::NetResolve) => {
            refused.remedy == Remedy::Ask
                && views.effective.network.mode == NetworkMode::Allowlist
                && allowed(&views.effective.network, host, *port)
        }
        _ => false,
    }
}

/// A wider policy lets the access through.
fn permits(policy: &EffectivePolicy, refused: &Observation, views: &PolicyViews<'_>) -> bool {
    if !policy.mode.confines() {
        return true;
    }
    match (&refused.target, refused.kind) {
        (
            _,
            DenialKind::UnixConnect
            | DenialKind::Mount
            | DenialKind::Namespace
            | DenialKind::Ptrace
            | DenialKind::Syscall
            | DenialKind::Capability
            | DenialKind::Ioctl,
        ) => false,
        (Target::Path(path), kind) => !path_refused(policy, kind, path, views),
        (Target::Net { host: peer, port }, DenialKind::NetConnect | DenialKind::NetResolve) => {
            !peer_refused(policy, peer, *port, views)
        }
        (Target::Net { .. }, _) => policy.network.mode == NetworkMode::Full,
        (Target::Syscall | Target::None, _) => false,
    }
}

/// The host itself would let this user do it.
fn host_would(refused: &Observation, host: &dyn HostView) -> bool {
    if refused.remedy == Remedy::Privileged && !host.is_privileged() {
        return false;
    }
    match (&refused.target, refused.kind) {
        (Target::Path(path), DenialKind::UnixConnect) => {
            path.to_string_lossy().starts_with('@')
                || host.state(path) == FileState::Socket && host.permits(HostAccess::Write, path)
        }
        (_, DenialKind::Mount) => host.is_privileged(),
        (Target::Path(path), DenialKind::FsMetadata) if gives_away(refused) => host.permits(HostAccess::Owner, path),
        (Target::Path(path), kind) => host_would_path(kind, path, host),
        (Target::Net { port, .. }, DenialKind::NetBind) => {
            host.is_privileged() || port.is_none_or(|port| port == 0 || port >= 1024)
        }
        (Target::Net { host: peer, port }, DenialKind::NetConnect) => match (loopback(peer), port) {
            (Some(addresses), Some(port)) => addresses.iter().any(|address| host.listens(*address, *port)),
            _ => true,
        },
        (_, DenialKind::Namespace) => host.is_privileged() || host.makes_user_namespaces(),
        (_, DenialKind::Ptrace) => host.is_privileged() || host.may_trace(),
        (_, DenialKind::Capability) => !host.no_new_privs(),
        (_, DenialKind::Syscall) => {
            let privileged = refused.syscall.as_deref().is_some_and(|call| PRIVILEGED_CALLS.contains(&call));
            !privileged || host.is_privileged()
        }
        _ => true,
    }
}

/// A change of owner, which takes a capability; `chgrp` changes the group only, among the user's own.
fn gives_away(refused: &Observation) -> bool {
    let comm = refused.process.as_ref().map_or("", |process| process.comm.as_str());
    let call = refused.syscall.as_deref().unwrap_or("");
    comm != "chgrp" && (comm == "chown" || call.contains("chown"))
}

fn host_would_path(kind: DenialKind, path: &Path, host: &dyn HostView) -> bool {
    let exists = host.state(path).exists();
    let access = match kind {
        DenialKind::FsCreate if !exists => HostAccess::Create,
        DenialKind::FsCreate | DenialKind::FsWrite | DenialKind::FsTruncate => HostAccess::Write,
        DenialKind::FsRemove => HostAccess::Remove,
        // The destination of a move need not exist.
        DenialKind::FsRename if exists => HostAccess::Remove,
        DenialKind::FsRename => HostAccess::Create,
        DenialKind::FsMetadata => HostAccess::Metadata,
        DenialKind::FsRead => HostAccess::Read,
        DenialKind::FsExecute => HostAccess::Execute,
        _ => return true,
    };
    host.permits(access, path)
}

/// The narrowest permission that would do; `None` for kinds that no grant reaches.
fn grant(joined: &Joined, views: &PolicyViews<'_>) -> Option<Grant> {
    let refused = &joined.best;
    let network = |entry| Some(Grant { network: vec![entry], ..Grant::default() });
    match &refused.remedy {
        Remedy::NetworkEntry(entry) => return network(entry.clone()),
        Remedy::NoGrant | Remedy::Unconfined | Remedy::Privileged | Remedy::Nothing => return None,
        Remedy::Ask => {}
    }
    match (&refused.target, refused.kind) {
        // A hard link between two mounts stays one, whatever is made writable.
        (_, DenialKind::FsCreate) if refused.errno.as_deref() == Some("EXDEV") => None,
        // Landlock alone refuses metadata by call, whatever the path.
        (_, DenialKind::FsMetadata) if views.files == FileBackend::Landlock => None,
        (Target::Path(path), DenialKind::FsRead | DenialKind::FsExecute) => {
            Some(Grant { read: vec![path.clone()], ..Grant::default() })
        }
        (
            Target::Path(path),
            DenialKind::FsCreate
            | DenialKind::FsWrite
            | DenialKind::FsTruncate
            | DenialKind::FsRemove
            | DenialKind::FsRename
            | DenialKind::FsMetadata,
        ) => {
            let ends = std::iter::once(path).chain(&joined.other_end);
            let mut write: Vec<PathBuf> =
                ends.map(|path| writable_target(path, joined, views.effective)).collect::<Option<_>>()?;
            write.dedup();
            Some(Grant { write, ..Grant::default() })
        }
        // An allowlist takes a network namespace.
        (Target::Net { .. }, _) if views.network != NetBackend::Namespace => None,
        _ if went_past_the_proxy(refused, views) => None,
        (Target::Net { host, port }, DenialKind::NetConnect | DenialKind::NetResolve) => {
            let entry = |host: &str| match port {
                Some(port) if host.contains(':') => format!("[{host}]:{port}"),
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            };
            let mut network = vec![entry(host)];
            // A name never leads to the host's loopback by itself: the address has to be let through as well.
            let is_name = host.parse::<std::net::IpAddr>().is_err();
            if let (true, Some(addresses), Some(port)) = (is_name, loopback(host), port) {
                let served = addresses.into_iter().find(|address| views.host.listens(*address, *port));
                network.extend(served.map(|address| entry(&address.to_string())));
            }
            Some(Grant { network, ..Grant::default() })
        }
        _ => None,
    }
}

/// What has to be writable. A name is taken away, moved, or made as anything but a file in its directory, and nothing
/// smaller can be opened for that: one that is mounted cannot be removed. A file that a program opens to create it is
/// named itself: the executor makes it for the call that may write it, unless the name is a random one, which will be
/// another next time. `None` for a name in the root directory.
fn writable_target(path: &Path, joined: &Joined, policy: &EffectivePolicy) -> Option<PathBuf> {
    let refused = &joined.best;
    let opened =
        !joined.temporary && refused.syscall.as_deref().is_none_or(|call| call.starts_with("open") || call == "creat");
    match refused.kind {
        DenialKind::FsCreate if opened => Some(path.to_path_buf()),
        DenialKind::FsCreate | DenialKind::FsRemove | DenialKind::FsRename if !refused_itself(path, policy) => {
            path.parent().filter(|parent| *parent != Path::new("/")).map(Path::to_path_buf)
        }
        _ => Some(path.to_path_buf()),
    }
}

/// A rule about just this name refuses it in a directory that can be written (`.git/config`): lifting that rule is enough,
/// and one about the directory would not lift it.
fn refused_itself(path: &Path, policy: &EffectivePolicy) -> bool {
    let parent_writable = path.parent().is_some_and(|parent| policy.decide(parent).writable);
    parent_writable && policy.decide(path).rule.is_some_and(|rule| rule.path == path)
}
