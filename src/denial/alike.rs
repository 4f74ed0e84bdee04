//! When two observations, or a message and an observation, are about the same access.
#![forbid(unsafe_code)]

use super::merge::Joined;
use super::stderr::{Mention, Verb};
use super::{DenialKind, Observation, Target};

/// Kinds that are different names of the same intent: to change the content of this path.
const fn changes_content(kind: DenialKind) -> bool {
    matches!(kind, DenialKind::FsWrite | DenialKind::FsCreate | DenialKind::FsTruncate)
}

/// Two kinds at one target are one access. `same_process` widens it to a program's second attempt by other means:
/// `touch` opens and then sets times, `mv` renames and then copies.
fn one_access(a: DenialKind, b: DenialKind, same_process: bool) -> bool {
    let follow_up = |first: DenialKind, second: DenialKind| {
        changes_content(first) && matches!(second, DenialKind::FsMetadata | DenialKind::FsRename)
    };
    a == b || changes_content(a) && changes_content(b) || same_process && (follow_up(a, b) || follow_up(b, a))
}

/// What Landlock records of a move is the right that was missing first: to take a name away, to make one, or to move.
pub(super) fn one_intent(a: DenialKind, b: DenialKind) -> bool {
    let moves = |kind| matches!(kind, DenialKind::FsRename | DenialKind::FsCreate | DenialKind::FsRemove);
    let move_of = |a, b| a == DenialKind::FsRename && moves(b);
    a == b || changes_content(a) && changes_content(b) || move_of(a, b) || move_of(b, a)
}

pub(super) fn perhaps_same_program(a: &Observation, b: &Observation) -> bool {
    match (&a.process, &b.process) {
        (Some(a), Some(b)) => a.comm.starts_with(&b.comm) || b.comm.starts_with(&a.comm),
        _ => true,
    }
}

/// Both at one target, or both without one.
pub(super) fn is_the_same(known: &Observation, new: &Observation) -> bool {
    let together = same_process(known, new);
    let nameless = matches!(known.target, Target::None | Target::Syscall);
    let same_call = match known.kind {
        _ if !nameless => true,
        // A program that is refused the new mount calls goes on to try the old one.
        DenialKind::Mount | DenialKind::Namespace => together || known.syscall == new.syscall,
        // A socket is refused to each program for a peer of its own, whatever it then tries instead.
        DenialKind::NetConnect => together,
        _ => known.syscall == new.syscall,
    };
    same_call && (one_access(known.kind, new.kind, together) || together && cleared_away(known, new))
}

/// `cp -f`, `tar` and `install` take away what they could not open, or open what they could not take away. An
/// interpreter that does both was told to.
fn cleared_away(known: &Observation, new: &Observation) -> bool {
    let comm = known.process.as_ref().map_or("", |process| process.comm.as_str());
    let pair =
        |a: DenialKind, b: DenialKind| (changes_content(a) || a == DenialKind::FsRename) && b == DenialKind::FsRemove;
    (pair(known.kind, new.kind) || pair(new.kind, known.kind)) && !super::hints::is_interpreter(comm)
}

/// A look-up of which only the server is known, not the name.
pub(super) fn asks_a_name_server(joined: &Joined) -> bool {
    let Target::Net { host, port } = &joined.best.target else { return false };
    match joined.best.kind {
        DenialKind::NetConnect => *port == Some(53),
        DenialKind::NetResolve => host.parse::<std::net::IpAddr>().is_ok(),
        _ => false,
    }
}

fn same_process(a: &Observation, b: &Observation) -> bool {
    match (&a.process, &b.process) {
        (Some(a), Some(b)) => match (a.pid, b.pid) {
            (Some(a), Some(b)) => a == b,
            _ => a.comm == b.comm,
        },
        _ => false,
    }
}

/// The message is of the refused process's program, as far as either is known.
pub(super) fn by_program(mention: &Mention, joined: &Joined) -> bool {
    match (&mention.program, &joined.best.process) {
        (Some(program), Some(process)) => process.comm.starts_with(program.as_str()),
        _ => true,
    }
}

pub(super) fn mention_fits(mention: &Mention, joined: &Joined) -> bool {
    let kind = joined.best.kind;
    match mention.verb {
        Verb::Remove => kind == DenialKind::FsRemove,
        Verb::Rename => matches!(kind, DenialKind::FsRename | DenialKind::FsCreate | DenialKind::FsRemove),
        Verb::Create | Verb::OpenWrite | Verb::Truncate => {
            changes_content(kind) || matches!(kind, DenialKind::FsMetadata | DenialKind::FsRename)
        }
        Verb::Metadata => kind == DenialKind::FsMetadata || changes_content(kind),
        Verb::Read => matches!(kind, DenialKind::FsRead),
        _ => true,
    }
}
