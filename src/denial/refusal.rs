//! Does a policy refuse an access, and could the access have failed for an ordinary reason first?
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::{DenialKind, FileBackend, FileState, HostView, NetBackend, PolicyViews};
use crate::network::rules::{Destination, Host, RuleSet};
use crate::policy::{EffectivePolicy, NetworkMode, NetworkPolicy, PathAccess};

/// Removes `.`, `..` and doubled slashes from an absolute path without looking at the disk.
pub(super) fn normalize(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// The policy, carried out by the mechanism in force, refuses this kind of access to this path (absolute, resolved).
pub(super) fn path_refused(policy: &EffectivePolicy, kind: DenialKind, path: &Path, views: &PolicyViews<'_>) -> bool {
    if !policy.mode.confines() {
        return false;
    }
    let (host, files) = (views.host, views.files);
    let writable = files.writable(policy, path);
    match kind {
        DenialKind::FsRead | DenialKind::FsExecute => files.masks(policy, path) && host.state(path).exists(),
        DenialKind::FsMetadata => files.keeps_metadata(policy, path),
        DenialKind::UnixConnect => {
            let hidden = matches!(files, FileBackend::Mounts { .. }) && policy.decide(path).private;
            (!writable || hidden) && host.state(path) == FileState::Socket
        }
        // A path that a rule stands on, or that has one beneath it, is (or holds) a mount point, and so is a pinned
        // directory: the kernel answers EBUSY to its removal and renaming even where writing is allowed.
        DenialKind::FsRemove | DenialKind::FsRename if matches!(files, FileBackend::Mounts { .. }) => {
            !writable || holds_a_rule(policy, path) || policy.pinned.iter().any(|pinned| pinned.starts_with(path))
        }
        _ => !writable,
    }
}

fn holds_a_rule(policy: &EffectivePolicy, path: &Path) -> bool {
    policy.rules.iter().any(|rule| {
        let stands = matches!(rule.access, PathAccess::DenyWrite | PathAccess::DenyRead) && !rule.missing;
        // A writable path within a writable directory needs no mount of its own.
        let mounted = || path.parent().is_some_and(|parent| !policy.decide(parent).writable);
        (stands || rule.path == path && rule.access == PathAccess::Write && mounted()) && rule.path.starts_with(path)
    })
}

/// The policy refuses a connection to (or with no port, a look-up of) a host.
pub(super) fn peer_refused(policy: &EffectivePolicy, peer: &str, port: Option<u16>, views: &PolicyViews<'_>) -> bool {
    if !policy.mode.confines() || policy.network.mode == NetworkMode::Full {
        return false;
    }
    match (loopback(peer), views.network) {
        // The sandbox has a loopback of its own: only where the host listens is anything missing there.
        (Some(addresses), NetBackend::Namespace) => {
            port.is_some_and(|port| addresses.iter().any(|address| views.host.listens(*address, port)))
        }
        _ => policy.network.mode == NetworkMode::Off || !allowed(&policy.network, peer, port),
    }
}

/// The rules let the peer through: on its port, or for a look-up on some port.
pub(super) fn allowed(network: &NetworkPolicy, peer: &str, port: Option<u16>) -> bool {
    let (Ok(rules), Ok(host)) = (RuleSet::from_policy(network), Host::parse(peer)) else { return false };
    match port {
        Some(port) => rules.check(&Destination { host, port }).is_ok(),
        None => rules.allows_some_port(&host),
    }
}

/// The loopback addresses a host text stands for; `None` when it is no loopback.
pub(super) fn loopback(peer: &str) -> Option<Vec<IpAddr>> {
    if peer.eq_ignore_ascii_case("localhost") {
        return Some(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);
    }
    let address: IpAddr = peer.split('%').next().unwrap_or(peer).parse().ok()?;
    let address = address.to_canonical();
    (address.is_loopback() || address.is_unspecified()).then(|| vec![address])
}

/// The kernel would have answered with an ordinary error (ENOENT, ENOTDIR, EEXIST, EISDIR) before any layer refused.
///
/// `exclusive` says that the call fails when the name exists (mkdir, link, mknod).
pub(super) fn fails_anyway(kind: DenialKind, path: &Path, exclusive: bool, host: &dyn HostView) -> bool {
    let state = host.state(path);
    match kind {
        // What the executor may not look at, its command could not reach either.
        _ if matches!(state, FileState::NoParent | FileState::Unknown) => true,
        DenialKind::FsCreate => exclusive && state.exists(),
        DenialKind::FsWrite => matches!(state, FileState::Missing | FileState::Directory),
        DenialKind::FsTruncate => matches!(state, FileState::Missing | FileState::Directory),
        DenialKind::FsRemove | DenialKind::FsMetadata | DenialKind::FsRead | DenialKind::FsExecute => {
            state == FileState::Missing
        }
        DenialKind::UnixConnect => state != FileState::Socket,
        _ => false,
    }
}
