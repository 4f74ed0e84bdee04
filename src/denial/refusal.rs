//! Does a policy refuse an access, and could the access have failed for an ordinary reason first?
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::{DenialKind, FileState, HostView};
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

/// The policy refuses this kind of access to this path (absolute, resolved).
pub(super) fn path_refused(policy: &EffectivePolicy, kind: DenialKind, path: &Path, host: &dyn HostView) -> bool {
    if !policy.mode.confines() {
        return false;
    }
    let decision = policy.decide(path);
    match kind {
        DenialKind::FsRead | DenialKind::FsExecute => !decision.readable && host.state(path).exists(),
        // A path that a rule stands on, or that has one beneath it, is (or holds) a mount point, and so is a pinned
        // directory: the kernel answers EBUSY to its removal and renaming even where writing is allowed.
        DenialKind::FsRemove | DenialKind::FsRename => {
            !decision.writable
                || holds_a_rule(policy, path)
                || policy.pinned.iter().any(|pinned| pinned.starts_with(path))
        }
        DenialKind::UnixConnect => (!decision.writable || decision.private) && host.state(path) == FileState::Socket,
        _ => !decision.writable,
    }
}

fn holds_a_rule(policy: &EffectivePolicy, path: &Path) -> bool {
    policy.rules.iter().any(|rule| {
        let stands = matches!(rule.access, PathAccess::DenyWrite | PathAccess::DenyRead) && !rule.missing;
        (stands || rule.path == path && rule.access == PathAccess::Write) && rule.path.starts_with(path)
    })
}

/// The policy refuses a connection to (or with no port, a look-up of) a host.
pub(super) fn peer_refused(policy: &EffectivePolicy, peer: &str, port: Option<u16>, host: &dyn HostView) -> bool {
    if !policy.mode.confines() || policy.network.mode == NetworkMode::Full {
        return false;
    }
    match loopback(peer) {
        // The sandbox has a loopback of its own: only where the host listens is anything missing there.
        Some(addresses) => port.is_some_and(|port| addresses.iter().any(|address| host.listens(*address, port))),
        None => policy.network.mode == NetworkMode::Off || !allowed(&policy.network, peer, port),
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

/// An allow entry lets the peer through and no deny entry takes it back.
fn allowed(network: &NetworkPolicy, peer: &str, port: Option<u16>) -> bool {
    let matches = |entry: &String| entry_matches(entry, peer, port);
    network.allow.iter().any(matches) && !network.deny.iter().any(matches)
}

fn entry_matches(entry: &str, peer: &str, port: Option<u16>) -> bool {
    let (host, entry_port) = super::stderr::split_host_port(entry);
    let port_fits = entry_port.is_none() || port.is_none() || entry_port == port;
    let (host, peer) = (host.to_ascii_lowercase(), peer.trim_end_matches('.').to_ascii_lowercase());
    let host_fits = match host.strip_prefix("*.") {
        Some(domain) => peer.strip_suffix(domain).is_some_and(|label| label.len() > 1 && label.ends_with('.')),
        None => host == peer,
    };
    port_fits && host_fits
}

/// The kernel would have answered with an ordinary error (ENOENT, ENOTDIR, EEXIST, EISDIR) before any layer refused.
///
/// `exclusive` says that the call fails when the name exists (mkdir, link, mknod).
pub(super) fn fails_anyway(kind: DenialKind, path: &Path, exclusive: bool, host: &dyn HostView) -> bool {
    let state = host.state(path);
    match kind {
        _ if state == FileState::NoParent => true,
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
