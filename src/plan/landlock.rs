//! The Landlock half of a plan: the same writes a second time, and what mounts cannot say.

use std::path::{Path, PathBuf};

use super::data::{LandlockGrant, LandlockPlan, LandlockRule, MountOp};
use super::mounts::writable_paths;
use super::world::World;
use crate::host::HostSupport;
use crate::policy::{EffectivePolicy, NetworkMode, PathAccess};

/// Newest ABI whose rights are all handled; the crate knows as many.
const NEWEST_ABI: i32 = 10;

/// Device nodes that every command may use.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// Within a mount namespace: writing where the mounts let it, reading everywhere.
pub(super) fn beside_mounts(
    policy: &EffectivePolicy,
    host: &HostSupport,
    ops: &[MountOp],
    own_network: bool,
) -> Option<LandlockPlan> {
    let mut grants = vec![rule(Path::new("/"), LandlockGrant::Read, false)];
    grants.extend(devices());
    // The devpts here is the sandbox's own; on the host it leads to the caller's other terminals.
    grants.push(rule(Path::new("/dev/pts"), LandlockGrant::Device, true));
    grants.push(rule(Path::new("/dev/mqueue"), LandlockGrant::ReadWrite, true));
    grants.extend(writable_paths(ops).map(|path| rule(path, LandlockGrant::ReadWrite, false)));
    // Where the mounts cover every socket of the host, the ones of other sandboxes in writable places may be used.
    finish(policy, host, grants, own_network, !host.sees_host_sockets)
}

/// Without one: Landlock alone, on the host's own tree. The host's `/dev` is in view, and rules only grant: so everything
/// beside it is granted by name, and of it the harmless devices.
pub(super) fn alone(
    policy: &EffectivePolicy,
    host: &HostSupport,
    world: &dyn World,
    tmp: Option<&Path>,
) -> std::io::Result<Option<LandlockPlan>> {
    let mut grants = vec![rule(Path::new("/"), LandlockGrant::List, false)];
    let beside_dev = world.top_level()?.into_iter().filter(|path| path != Path::new("/dev"));
    grants.extend(beside_dev.map(|path| rule(path, LandlockGrant::Read, true)));
    grants.extend(devices());
    let writable = policy.rules.iter().filter(|r| r.access == PathAccess::Write && policy.decide(&r.path).writable);
    grants.extend(writable.map(|r| rule(&r.path, LandlockGrant::ReadWrite, r.optional)));
    grants.extend(tmp.map(|path| rule(path, LandlockGrant::ReadWrite, false)));
    Ok(finish(policy, host, grants, false, true))
}

fn devices() -> impl Iterator<Item = LandlockRule> {
    DEVICES.iter().map(|path| rule(Path::new(path), LandlockGrant::Device, true))
}

fn finish(
    policy: &EffectivePolicy,
    host: &HostSupport,
    grants: Vec<LandlockRule>,
    own_network: bool,
    refuse_sockets: bool,
) -> Option<LandlockPlan> {
    (host.landlock_abi > 0).then(|| LandlockPlan {
        abi: host.landlock_abi.min(NEWEST_ABI),
        grants,
        refuse_tcp: host.landlock_abi >= 4 && !own_network && policy.network.mode != NetworkMode::Full,
        scope_signals: host.landlock_abi >= 6,
        scope_abstract_sockets: host.landlock_abi >= 6,
        refuse_sockets,
        audit: false,
    })
}

fn rule(path: impl Into<PathBuf>, grant: LandlockGrant, optional: bool) -> LandlockRule {
    LandlockRule { path: path.into(), grant, optional }
}
