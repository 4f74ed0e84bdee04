//! From evidence to denial facts.
#![forbid(unsafe_code)]

use super::locate::Locator;
use super::merge::{Accesses, Joined};
use super::refusal::{fails_anyway, loopback, peer_refused};
use super::stderr::{Mention, command_peers, read_messages};
use super::{Denial, DenialClass, DenialKind, Observation, PolicyViews, RunEvidence, Target, TraceCoverage, Witness};

/// Denials kept of one run; the rest are counted.
pub const MAX_DENIALS: usize = 200;

/// The denial facts of a run, in the order they happened, and how many more there were.
///
/// Text is a witness only for a path or host that it names and that the policy refuses too. Where the trace saw the
/// whole run, text about a call it traces proves nothing more: it only tells which refusals were shown.
#[must_use]
pub fn classify(evidence: &RunEvidence<'_>, views: &PolicyViews<'_>) -> (Vec<Denial>, u64) {
    if !views.effective.mode.confines() {
        return (Vec::new(), 0);
    }
    if nothing_to_say(evidence) {
        return (Vec::new(), evidence.lost);
    }
    let locator = Locator::new(evidence, *views);
    let mut accesses = Accesses::default();
    let mut observed: Vec<_> = evidence.observations.iter().filter(|seen| happened(seen, views)).collect();
    observed.sort_by_key(|seen| (seen.at.is_none(), seen.at, seen.seq));
    let (in_directories, observed): (Vec<&Observation>, Vec<_>) =
        observed.into_iter().partition(|seen| names_directory_alone(seen));
    for observation in observed {
        accesses.add(observation.clone());
    }
    read_text(evidence, &locator, &mut accesses);
    for observation in in_directories {
        accesses.place(observation.clone());
    }
    for hit in super::limits::read(evidence, views) {
        let joined = accesses.add(hit);
        joined.shown = true;
        joined.only_warned = false;
    }
    // A group that the kernel ends for want of memory says nothing itself.
    for joined in accesses.iter_mut().filter(|joined| super::limits::ended_it(&joined.best, evidence)) {
        joined.shown = true;
        joined.only_warned = false;
    }
    accesses.name_sockets(only_peer_in(evidence.command), super::hints::listens(evidence.command));
    note_named_lines(evidence, &mut accesses);
    super::proxied::note_answers(evidence, &mut accesses);
    accesses.fold_lookups(only_name_in(evidence.command).as_deref());
    let accesses = accesses.into_ordered();
    let blocking = super::blocking::decide(&accesses, evidence);
    let (kept, omitted) = bound(accesses, blocking);
    let denials = kept.into_iter().map(|(joined, blocking)| denial(joined, blocking, views)).collect();
    (denials, omitted.saturating_add(evidence.lost))
}

/// No witness reports, and there is no text that could be one.
fn nothing_to_say(evidence: &RunEvidence<'_>) -> bool {
    let quiet = |text: &[u8]| text.trim_ascii().is_empty();
    let succeeded = evidence.exit_code == Some(0) && !super::hints::merges_streams(evidence.command);
    let stopped = super::limits::was_stopped(evidence);
    !stopped && evidence.observations.is_empty() && quiet(evidence.stderr) && (succeeded || quiet(evidence.stdout))
}

/// The one peer that the command line names.
fn only_peer_in(command: &str) -> Option<(String, Option<u16>)> {
    match command_peers(command).as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// The one name, not an address, that the command line gives to a network tool or in a URL.
fn only_name_in(command: &str) -> Option<String> {
    let peers = command_peers(command);
    let mut names = peers.into_iter().map(|(host, _)| host).filter(|host| host.parse::<std::net::IpAddr>().is_err());
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// The access was refused by us rather than failing for a reason of its own before any layer was asked.
fn happened(seen: &Observation, views: &PolicyViews<'_>) -> bool {
    if seen.witness == Witness::Audit {
        return is_of_policy(seen, views);
    }
    if seen.witness != Witness::Trace {
        return true;
    }
    let call = seen.syscall.as_deref().unwrap_or("");
    let exclusive = ["mkdir", "mknod", "link", "symlink"].iter().any(|name| call.starts_with(name));
    match &seen.target {
        // With its errno the witness looked itself, at the time and from inside. An abstract socket has no file.
        Target::Path(path) if seen.errno.is_some() || path.to_string_lossy().starts_with('@') => true,
        Target::Path(path) if !path.starts_with("/proc") => !fails_anyway(seen.kind, path, exclusive, views.host),
        Target::Net { host, port } if seen.kind == DenialKind::NetConnect && loopback(host).is_some() => {
            peer_refused(views.effective, host, *port, views)
        }
        _ => true,
    }
}

/// For a right to make, remove or move a name Landlock records the directory, not the name.
fn names_directory_alone(seen: &Observation) -> bool {
    use super::DenialKind::{FsCreate, FsRemove, FsRename};
    seen.witness == Witness::Audit && matches!(seen.kind, FsCreate | FsRemove | FsRename)
}

/// A command may put itself into a domain of its own making, and the kernel records what that refuses as well: only what
/// the policy refuses too is the sandbox's doing.
fn is_of_policy(seen: &Observation, views: &PolicyViews<'_>) -> bool {
    match &seen.target {
        Target::Path(path) if seen.kind.class() == DenialClass::FileAccess => {
            super::refusal::path_refused(views.effective, seen.kind, path, views)
        }
        Target::Net { .. } if seen.kind == DenialKind::NetBind => views.network != super::NetBackend::None,
        Target::Net { host, port } => peer_refused(views.effective, host, *port, views),
        Target::Path(_) | Target::Syscall | Target::None => true,
    }
}

fn read_text(evidence: &RunEvidence<'_>, locator: &Locator<'_>, accesses: &mut Accesses) {
    let failed = evidence.exit_code.is_none_or(|code| code != 0);
    let merged = super::hints::merges_streams(evidence.command);
    let mut mentions = read_messages(evidence.stderr);
    let on_stderr = mentions.len();
    mentions.extend(read_messages(evidence.stdout));
    // What a successful command prints on standard output shows a refusal that is proven, and proves none.
    let shows_only = !merged && !failed;
    // Test runners print failures on standard output; with nothing on the other stream those are the command's messages.
    let stdout_speaks = merged || evidence.stderr.trim_ascii().is_empty();
    let relayed = super::hints::only_relays(evidence.command);
    for (at, mention) in mentions.into_iter().enumerate() {
        let mention = &locator.completed(mention);
        if super::hints::prints_literally(evidence.command, &mention.text)
            || relayed && quoted_from_elsewhere(mention, evidence.command)
            || accesses.note(mention, locator)
        {
            continue;
        }
        if at >= on_stderr && (shows_only || !stdout_speaks) {
            if shows_only && mention.cause.is_some() && locator.names_nothing(mention) {
                accesses.note_nameless(mention);
            }
            continue;
        }
        let stands = |sighting: &Observation| stands_alone(sighting, evidence, locator);
        if let Some(sighting) = locator.locate(mention).filter(stands) {
            let joined = accesses.add(sighting);
            joined.note_message(mention);
            joined.note_other_end(mention, locator);
        } else if locator.names_nothing(mention) {
            accesses.note_nameless(mention);
        }
    }
}

/// The command only passes text on, and this message is no program's of the command.
fn quoted_from_elsewhere(mention: &Mention, command: &str) -> bool {
    let Some(program) = &mention.program else { return true };
    let shell = matches!(program.as_str(), "bash" | "sh" | "dash");
    let speaks = command.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|word| word == program);
    if shell { !command.contains('>') && !command.contains('<') } else { !speaks }
}

/// What a complete trace would have reported needs its word; the rest (reads, look-ups) it cannot see.
fn stands_alone(seen: &Observation, evidence: &RunEvidence<'_>, locator: &Locator<'_>) -> bool {
    let traced = match seen.kind {
        DenialKind::FsRead
        | DenialKind::FsExecute
        | DenialKind::Signal
        | DenialKind::Capability
        | DenialKind::Ioctl
        | DenialKind::Limit => false,
        DenialKind::NetResolve => return locator.network_is_closed(),
        _ => true,
    };
    !(traced && evidence.coverage == TraceCoverage::Complete)
}

/// Messages of no known shape still show a proven refusal when they name its object and say that something failed.
fn note_named_lines(evidence: &RunEvidence<'_>, accesses: &mut Accesses) {
    let lines = super::blocking::complaining_lines(evidence);
    for joined in accesses.iter_mut().filter(|joined| !joined.shown).take(MAX_DENIALS) {
        let line = match &joined.best.target {
            Target::Path(path) => {
                lines.iter().find(|line| names(line, &path.to_string_lossy()) || names_locked(line, path))
            }
            Target::Net { host, .. } => lines.iter().find(|line| names_host(line, host)),
            Target::Syscall | Target::None => continue,
        };
        if let Some(line) = line.filter(|line| !super::hints::prints_literally(evidence.command, line)) {
            joined.shown = true;
            joined.only_warned = line.trim_start().to_lowercase().starts_with("warning");
        }
    }
}

/// The line holds the name as a whole, not as the beginning of a longer one.
fn names(line: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-');
    name.len() > 1
        && line.match_indices(name).any(|(at, _)| {
            let after = line[at + name.len()..].chars().next();
            let before = line[..at].chars().next_back();
            !after.is_some_and(part_of_name) && !before.is_some_and(part_of_name)
        })
}

/// A lock file stands for the file whose change it guards: `could not write index`, of `index.lock`.
fn names_locked(line: &str, path: &std::path::Path) -> bool {
    let guarded = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".lock"));
    guarded.is_some_and(|name| {
        name.len() > 3 && line.split_whitespace().any(|word| word.trim_matches(['\'', '"', ':', ',', ';', '.']) == name)
    })
}

/// The same for a host, which may stand in a URL, but not in a longer name.
fn names_host(line: &str, host: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    host.len() > 1
        && line.match_indices(host).any(|(at, _)| {
            let mut after = line[at + host.len()..].chars();
            let longer = match after.next() {
                Some('.') => after.next().is_some_and(part_of_name),
                next => next.is_some_and(part_of_name),
            };
            !longer && !line[..at].ends_with(|c| part_of_name(c) || c == '.')
        })
}

/// Keeps at most [`MAX_DENIALS`], never dropping a blocking one for one in passing.
fn bound(accesses: Vec<Joined>, blocking: Vec<bool>) -> (Vec<(Joined, bool)>, u64) {
    let total = accesses.len();
    let blocked = blocking.iter().filter(|blocking| **blocking).count().min(MAX_DENIALS);
    let (mut room_blocking, mut room_passing) = (blocked, MAX_DENIALS - blocked);
    let kept: Vec<_> = accesses
        .into_iter()
        .zip(blocking)
        .filter(|(_, blocking)| {
            let room = if *blocking { &mut room_blocking } else { &mut room_passing };
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        })
        .collect();
    let omitted = u64::try_from(total - kept.len()).unwrap_or(u64::MAX);
    (kept, omitted)
}

fn denial(joined: Joined, blocking: bool, views: &PolicyViews<'_>) -> Denial {
    let (widen_to, grant) = super::cure::cure(&joined, views);
    let mut best = joined.best;
    if best.kind.class() != DenialClass::FileAccess {
        // The words tell reading from writing a file; elsewhere the kind says it all.
        best.access.clear();
    }
    let (path, host, port) = match best.target {
        Target::Path(path) => (Some(path), None, None),
        Target::Net { host, port } => (None, Some(host), port),
        Target::Syscall | Target::None => (None, None, None),
    };
    Denial {
        kind: best.kind,
        path,
        host,
        port,
        access: best.access,
        syscall: best.syscall,
        errno: best.errno,
        process: best.process,
        sources: joined.witnesses,
        blocking,
        widen_to,
        grant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_whole() {
        for line in [
            r#"go: module a.test/m: Get "https://bad.test/a.test/m/@v/list": Forbidden"#,
            "error: bad.test: unreachable",
            "could not reach bad.test.",
            "could not reach bad.test:443",
        ] {
            assert!(names_host(line, "bad.test"), "{line}");
        }
        for line in ["error: notbad.test", "error: my-bad.test", "error: a.bad.test", "error: bad.test.org", ""] {
            assert!(!names_host(line, "bad.test"), "{line}");
        }
    }
}
