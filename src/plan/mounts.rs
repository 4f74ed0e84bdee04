//! Path rules lowered to mount operations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::data::{MountKind, MountOp, PrivateSource};
use super::world::{PathKind, World};
use crate::policy::{Decision, EffectivePolicy};

/// Size of the private directories when the policy names none.
const DEFAULT_TMP_SIZE: u64 = 2 << 30;

/// How a subtree appears; two neighbours that appear the same need no mount between them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Masked,
    ReadOnly,
    Writable,
    Private,
}

impl From<Decision<'_>> for Look {
    fn from(decision: Decision<'_>) -> Self {
        match (decision.readable, decision.writable, decision.private) {
            (false, _, _) => Self::Masked,
            (true, true, true) => Self::Private,
            (true, true, false) => Self::Writable,
            (true, false, _) => Self::ReadOnly,
        }
    }
}

/// Lowers the policy to operations, parents before children.
///
/// One pass over the rules in path order, with the operations above the current path on a stack, so that tens of
/// thousands of rules cost one decision each.
pub(super) fn lower(policy: &EffectivePolicy, world: &dyn World, session_tmp: Option<&Path>) -> Vec<MountOp> {
    let mut builder =
        Builder { world, session_tmp, tmp_size: policy.limits.tmp_size, ops: Vec::new(), above: Vec::new() };
    let mut points: Vec<(&Path, Point)> = policy.rules.iter().map(|rule| (rule.path.as_path(), Point::Rule)).collect();
    points.extend(policy.pinned.iter().map(|path| (path.as_path(), Point::Pin)));
    let sockets = visible_sockets(policy, world);
    points.extend(sockets.iter().map(|path| (path.as_path(), Point::Socket)));
    points.sort_unstable();
    points.dedup_by_key(|(path, _)| *path);
    let mut rules = policy.rules.iter().peekable();
    // What holds at each path above the current one, outermost first.
    let mut held: Vec<(&Path, Decision<'_>)> = Vec::new();
    for (path, point) in points {
        while held.last().is_some_and(|(above, _)| !path.starts_with(above)) {
            held.pop();
        }
        let mut decision = held.last().map_or(Decision::ground(policy.mode), |(_, decision)| *decision);
        while let Some(rule) = rules.next_if(|rule| rule.path == path) {
            decision.apply(rule);
        }
        held.push((path, decision));
        builder.visit(path, point, decision.into());
    }
    builder.ops
}

/// Resolver settings of the sandbox's own over the host's, where these are in view and the policy does not let them be
/// written. Where they are missing, or a link into a masked directory, resolvers ask the loopback by themselves.
pub(super) fn own_resolver(policy: &EffectivePolicy, world: &dyn World) -> Option<MountOp> {
    let path = world.resolver_settings().filter(|path| world.kind(path) == PathKind::Other)?;
    let decision = policy.decide(&path);
    let in_view = decision.readable && !decision.writable && !decision.private;
    in_view.then_some(MountOp { path, kind: MountKind::NameServer, make_target: false, may_vanish: true })
}

/// Sockets of the host that would be in view: most lie in directories that are masked or private anyway, and those cost
/// no look at the disk.
fn visible_sockets(policy: &EffectivePolicy, world: &dyn World) -> BTreeSet<PathBuf> {
    let in_view = |path: &PathBuf| {
        let decision = policy.decide(path);
        decision.readable && !decision.private
    };
    world.socket_names().into_iter().filter(in_view).filter_map(|path| world.socket(&path)).collect()
}

/// Why a path is looked at. When several reasons meet at one path, the first in this order is kept: a pin makes a mount
/// where a rule that changes nothing would not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Pin,
    Rule,
    Socket,
}

struct Builder<'a> {
    world: &'a dyn World,
    session_tmp: Option<&'a Path>,
    tmp_size: Option<u64>,
    ops: Vec<MountOp>,
    /// Indices of the operations whose paths contain the current one, outermost first.
    above: Vec<usize>,
}

impl Builder<'_> {
    fn visit(&mut self, path: &Path, point: Point, look: Look) {
        while self.above.last().is_some_and(|&index| !path.starts_with(&self.ops[index].path)) {
            self.above.pop();
        }
        let around = self.above.last().map_or(Look::ReadOnly, |&index| look_of(&self.ops[index].kind));
        let Some(kind) = self.kind_at(path, point, look, around) else { return };
        let make_target = self.prepare_parent(path);
        let covers = matches!(kind, MountKind::MaskFile | MountKind::MaskDirectory { .. });
        let may_vanish = covers && (around == Look::ReadOnly || point == Point::Socket);
        self.above.push(self.ops.len());
        self.ops.push(MountOp { path: path.to_path_buf(), kind, make_target, may_vanish });
    }

    fn kind_at(&self, path: &Path, point: Point, look: Look, around: Look) -> Option<MountKind> {
        let stands = self.world.kind(path);
        if point == Point::Socket {
            // Beneath a mask or a private directory the host's sockets are out of sight already.
            return matches!(around, Look::ReadOnly | Look::Writable).then_some(MountKind::MaskFile);
        }
        if look == around && (point == Point::Rule || look != Look::Writable) {
            return None;
        }
        match (look, stands) {
            (Look::Private, _) => Some(MountKind::Private(self.private_source(path))),
            (_, PathKind::Missing) => None,
            // What is masked or private above hides the host's content already.
            (Look::Masked, _) if around == Look::Private => None,
            (Look::Masked, PathKind::Directory) => Some(MountKind::MaskDirectory { populated: false }),
            (Look::Masked, PathKind::Other) => Some(MountKind::MaskFile),
            (Look::ReadOnly, _) => Some(MountKind::ReadOnly),
            (Look::Writable, _) => Some(MountKind::Writable),
        }
    }

    fn private_source(&self, path: &Path) -> PrivateSource {
        match self.session_tmp {
            Some(directory) if path == Path::new("/tmp") => PrivateSource::Directory(directory.to_path_buf()),
            _ => PrivateSource::Memory { size: self.tmp_size.unwrap_or(DEFAULT_TMP_SIZE) },
        }
    }

    /// Whether the mount point has to be made, because what stands above it is a directory of ours.
    fn prepare_parent(&mut self, path: &Path) -> bool {
        let Some(&index) = self.above.last() else { return path.starts_with("/dev") };
        match &mut self.ops[index].kind {
            MountKind::MaskDirectory { populated } => {
                *populated = true;
                true
            }
            MountKind::Private(_) => true,
            MountKind::Writable | MountKind::ReadOnly | MountKind::MaskFile | MountKind::NameServer => false,
        }
    }
}

fn look_of(kind: &MountKind) -> Look {
    match kind {
        MountKind::Writable => Look::Writable,
        MountKind::ReadOnly | MountKind::NameServer => Look::ReadOnly,
        MountKind::MaskDirectory { .. } | MountKind::MaskFile => Look::Masked,
        MountKind::Private(_) => Look::Private,
    }
}

/// Paths that the operations make writable.
pub(super) fn writable_paths(ops: &[MountOp]) -> impl Iterator<Item = &PathBuf> {
    ops.iter().filter(|op| matches!(op.kind, MountKind::Writable | MountKind::Private(_))).map(|op| &op.path)
}
