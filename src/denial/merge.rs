//! One denial for each refused access: observations of the same access are joined, the best witness speaking first.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::PathBuf;

use super::locate::Locator;
use super::refusal::loopback;
use super::stderr::{Mention, Subject, Verb};
use super::{DenialClass, DenialKind, Observation, Target, Witness};

/// An access with everything its witnesses said.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    /// The best witness's account, completed by the others.
    pub(super) best: Observation,
    /// All witnesses, best first.
    pub(super) witnesses: Vec<Witness>,
    /// A message about it is in the output.
    pub(super) shown: bool,
    /// Every message about it calls itself a warning.
    pub(super) only_warned: bool,
    /// The name is a random temporary one beside the real target.
    pub(super) temporary: bool,
    /// The other end of a move, where the policy refuses that too.
    pub(super) other_end: Option<PathBuf>,
}

impl Joined {
    pub(super) fn new(best: Observation) -> Self {
        let witnesses = vec![best.witness];
        Self { best, witnesses, shown: false, only_warned: true, temporary: false, other_end: None }
    }

    pub(super) fn add_witness(&mut self, witness: Witness) {
        if let Err(at) = self.witnesses.binary_search(&witness) {
            self.witnesses.insert(at, witness);
        }
    }

    pub(super) fn note_message(&mut self, mention: &Mention) {
        self.shown = true;
        self.only_warned &= mention.warning;
        self.temporary |= mention.temporary;
        self.add_witness(Witness::Stderr);
        if mention.verb == Verb::Truncate && self.best.kind == DenialKind::FsWrite {
            // The file was opened for writing in order to shorten it.
            self.best.kind = DenialKind::FsTruncate;
        }
        let errno = mention.cause.and_then(super::host_errors::Cause::errno);
        if self.best.errno.is_none() {
            self.best.errno = errno.map(str::to_owned);
        }
    }

    /// A move names two paths; the one that is not the denial's own may be refused as well.
    pub(super) fn note_other_end(&mut self, mention: &Mention, locator: &Locator<'_>) {
        let (Subject::Two(from, to), Target::Path(own), DenialKind::FsRename) =
            (&mention.subject, &self.best.target, self.best.kind)
        else {
            return;
        };
        let is_own = |printed: &String| locator.candidates(printed).contains(own);
        let other = if is_own(from) { to } else { from };
        self.other_end = locator.refused_end(other).filter(|path| path != own);
    }

    /// The kernel saw a datagram to a name server, or a socket that was not to be had; the program says for whom.
    fn name_peer(&mut self, host: &str, port: Option<u16>, verb: Verb) {
        let nameless = matches!(self.best.target, Target::Syscall | Target::None);
        if verb == Verb::Resolve {
            self.best.kind = DenialKind::NetResolve;
            self.best.target = Target::Net { host: host.to_owned(), port: None };
        } else if nameless {
            self.best.kind = if verb == Verb::Bind { DenialKind::NetBind } else { DenialKind::NetConnect };
            self.best.target = Target::Net { host: host.to_owned(), port };
        } else {
            self.name_loopback(host, port);
        }
    }

    /// The kernel saw an address of the loopback where the program was told a name; a grant has to be of the name.
    fn name_loopback(&mut self, name: &str, wanted: Option<u16>) {
        let is_name = name.parse::<std::net::IpAddr>().is_err() && loopback(name).is_some();
        if let (DenialKind::NetConnect, Target::Net { host, port }) = (self.best.kind, &mut self.best.target)
            && is_name
            && loopback(host).is_some()
            && (wanted.is_none() || wanted == *port)
        {
            name.clone_into(host);
        }
    }

    /// Takes in another observation of the same access.
    fn absorb(&mut self, other: Observation) {
        self.add_witness(other.witness);
        let fell_back = self.best.kind == DenialKind::FsRename && other.kind != DenialKind::FsRename;
        if other.witness < self.best.witness || fell_back && other.witness == self.best.witness {
            let old = std::mem::replace(&mut self.best, other);
            self.complete(old, false);
        } else {
            self.complete(other, true);
        }
    }

    fn complete(&mut self, other: Observation, later: bool) {
        let best = &mut self.best;
        best.errno = best.errno.take().or(other.errno);
        best.syscall = best.syscall.take().or(other.syscall);
        best.process = best.process.take().or(other.process);
        if best.remedy == super::Remedy::Ask && best.kind == other.kind {
            best.remedy = other.remedy;
        }
        if matches!(best.target, Target::Syscall | Target::None) {
            best.target = other.target;
        }
        best.at = match (best.at, other.at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // Of several tries by the same witness the last tells how it ended.
        if later && other.witness == best.witness || best.aftermath == super::Aftermath::Unknown {
            best.aftermath = other.aftermath;
        }
    }
}

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
fn one_intent(a: DenialKind, b: DenialKind) -> bool {
    let moves = |kind| matches!(kind, DenialKind::FsRename | DenialKind::FsCreate | DenialKind::FsRemove);
    let move_of = |a, b| a == DenialKind::FsRename && moves(b);
    a == b || changes_content(a) && changes_content(b) || move_of(a, b) || move_of(b, a)
}

fn perhaps_same_program(a: &Observation, b: &Observation) -> bool {
    match (&a.process, &b.process) {
        (Some(a), Some(b)) => a.comm.starts_with(&b.comm) || b.comm.starts_with(&a.comm),
        _ => true,
    }
}

/// Both at one target, or both without one.
fn is_the_same(known: &Observation, new: &Observation) -> bool {
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

/// Accesses found so far, indexed by target.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    list: Vec<Joined>,
    by_target: HashMap<Target, Vec<usize>>,
}

impl Accesses {
    /// Adds an observation, to an access already known where it is the same.
    pub(super) fn add(&mut self, observation: Observation) -> &mut Joined {
        let at = |target: &Target| self.by_target.get(target).into_iter().flatten().copied();
        let nameless = if observation.kind == DenialKind::Mount { Some(at(&Target::Syscall)) } else { None };
        let known = at(&observation.target)
            .chain(nameless.into_iter().flatten())
            .find(|index| is_the_same(&self.list[*index].best, &observation));
        if let Some(index) = known {
            self.list[index].absorb(observation);
            return &mut self.list[index];
        }
        let index = self.list.len();
        self.by_target.entry(observation.target.clone()).or_default().push(index);
        self.list.push(Joined::new(observation));
        &mut self.list[index]
    }

    /// Joins an audit record that names a directory alone with the access to a name in it; where there is none, the
    /// directory is what is known.
    pub(super) fn place(&mut self, seen: Observation) {
        let Target::Path(directory) = &seen.target else { return };
        let in_directory =
            |joined: &Joined| matches!(&joined.best.target, Target::Path(path) if path.parent() == Some(directory));
        let about = |joined: &Joined| {
            in_directory(joined) && one_intent(joined.best.kind, seen.kind) && perhaps_same_program(&joined.best, &seen)
        };
        let unwitnessed = |joined: &Joined| about(joined) && !joined.witnesses.contains(&Witness::Audit);
        if let Some(joined) = self.list.iter().position(unwitnessed).and_then(|at| self.list.get_mut(at)) {
            let (target, kind) = (joined.best.target.clone(), joined.best.kind);
            joined.absorb(Observation { target, kind, ..seen });
        } else if !self.list.iter().any(about) {
            self.add(seen);
        }
    }

    /// The known access a message is about; marked as shown.
    pub(super) fn note(&mut self, mention: &Mention, locator: &Locator<'_>) -> bool {
        let operation = match mention.verb {
            Verb::Mount => Some(DenialKind::Mount),
            Verb::Namespace => Some(DenialKind::Namespace),
            Verb::Ptrace => Some(DenialKind::Ptrace),
            Verb::Privilege => Some(DenialKind::Capability),
            _ => None,
        };
        let index = match &mention.subject {
            _ if operation.is_some() => self.list.iter().rposition(|joined| Some(joined.best.kind) == operation),
            Subject::Path(path) => self.at_path(path, mention, locator),
            Subject::Two(from, to) => {
                self.at_path(from, mention, locator).or_else(|| self.at_path(to, mention, locator))
            }
            Subject::Host { host, port } => self.at_peer(host, *port, mention),
            Subject::InCommand | Subject::Nothing => None,
        };
        let Some(joined) = index.and_then(|index| self.list.get_mut(index)) else { return false };
        joined.note_message(mention);
        joined.note_other_end(mention, locator);
        if let (Subject::Path(path), Target::Syscall, DenialKind::Mount) =
            (&mention.subject, &joined.best.target, joined.best.kind)
            && let Some(path) = locator.candidates(path).into_iter().next()
        {
            joined.best.target = Target::Path(path);
        }
        if let Subject::Host { host, port } = &mention.subject {
            joined.name_peer(host, *port, mention.verb);
        }
        true
    }

    fn at_path(&self, printed: &str, mention: &Mention, locator: &Locator<'_>) -> Option<usize> {
        let paths = locator.candidates_and_targets(printed);
        let exact = paths.iter().find_map(|path| self.by_target.get(&Target::Path(path.clone())));
        if let Some(indices) = exact {
            let fits = |index: &&usize| mention_fits(mention, &self.list[**index]);
            return indices.iter().find(fits).or(indices.last()).copied();
        }
        // What follows from a refused mkdir: the names beneath it are missing too.
        if mention.cause == Some(super::host_errors::Cause::Missing) {
            let follows = |joined: &Joined| match &joined.best.target {
                Target::Path(made) => {
                    joined.best.kind == DenialKind::FsCreate && paths.iter().any(|path| path.starts_with(made))
                }
                _ => false,
            };
            return self.list.iter().rposition(follows);
        }
        if let Some(above) = self.above(&paths, mention) {
            return Some(above);
        }
        if let Some(neighbour) = self.beside(&paths, mention) {
            return Some(neighbour);
        }
        // A directory the text does not tell of (a script's own `cd`): the end of the path has to do.
        let relative = printed.trim_start_matches("./").trim_start_matches("../");
        if relative.starts_with('/') || relative.is_empty() || relative.contains("..") {
            return None;
        }
        self.list.iter().rposition(|joined| {
            matches!(&joined.best.target, Target::Path(path) if path.ends_with(relative))
                && mention_fits(mention, joined)
        })
    }

    /// A program names what it wanted to make where a directory on the way was refused, for the same reason.
    fn above(&self, paths: &[PathBuf], mention: &Mention) -> Option<usize> {
        let errno = mention.cause.and_then(super::host_errors::Cause::errno)?;
        self.list.iter().rposition(|joined| {
            let Target::Path(made) = &joined.best.target else { return false };
            joined.best.kind == DenialKind::FsCreate
                && joined.best.errno.as_deref() == Some(errno)
                && paths.iter().any(|path| path.starts_with(made))
        })
    }

    /// A program names what it works on where it was a temporary name beside it that was refused, or names that one where
    /// it was the name to be taken over: the same program, the same reason, the same directory, and nothing else said of it.
    fn beside(&self, paths: &[PathBuf], mention: &Mention) -> Option<usize> {
        let errno = mention.cause.and_then(super::host_errors::Cause::errno)?;
        mention.program.as_ref()?;
        self.list.iter().rposition(|joined| {
            let Target::Path(path) = &joined.best.target else { return false };
            let named = matches!(joined.best.kind, DenialKind::FsCreate | DenialKind::FsRename);
            let together = paths.iter().any(|other| other.parent() == path.parent() && other != path);
            named
                && together
                && !joined.shown
                && joined.best.witness == Witness::Trace
                && joined.best.errno.as_deref() == Some(errno)
                && joined.best.process.is_some()
                && by_program(mention, joined)
        })
    }

    fn at_peer(&self, host: &str, port: Option<u16>, mention: &Mention) -> Option<usize> {
        let same_host = |other: &str| {
            let both_loopback = loopback(host).is_some() && loopback(other).is_some();
            other.trim_end_matches('.').eq_ignore_ascii_case(host.trim_end_matches('.')) || both_loopback
        };
        let same = self.list.iter().position(|joined| match &joined.best.target {
            Target::Net { host: other, port: known } => {
                let fits = port.is_none() || known.is_none() || *known == port;
                joined.best.kind.class() == DenialClass::NetworkAccess && fits && same_host(other)
            }
            _ => false,
        });
        let name_server = || self.list.iter().position(asks_a_name_server);
        let no_socket = || {
            self.list.iter().position(|joined| {
                joined.best.kind == DenialKind::NetConnect
                    && matches!(joined.best.target, Target::Syscall)
                    && by_program(mention, joined)
            })
        };
        same.or_else(|| (mention.verb == Verb::Resolve).then(name_server).flatten()).or_else(no_socket)
    }

    /// A message without an object: it is about the last access of its class, by that program, that nothing else explains.
    pub(super) fn note_nameless(&mut self, mention: &Mention) {
        use super::host_errors::Cause;
        let Some(cause) = mention.cause else { return };
        let files = matches!(cause, Cause::Access | Cause::Perm | Cause::ReadOnly | Cause::CrossDevice | Cause::Busy);
        let operation = matches!(cause, Cause::Access | Cause::Perm | Cause::NoSyscall);
        let class = if files { DenialClass::FileAccess } else { DenialClass::NetworkAccess };
        let found = self.list.iter_mut().rev().find(|joined| {
            // A failed look-up has no errno of its own.
            let lookup = joined.best.kind == DenialKind::NetResolve && cause == Cause::Lookup;
            let same_errno = lookup || joined.best.errno.is_some() && joined.best.errno.as_deref() == cause.errno();
            let fits = match joined.best.kind.class() {
                same if same == class => same_errno || joined.best.errno.is_none(),
                DenialClass::Operation => operation && (same_errno || joined.best.errno.is_none()),
                // A socket that the kernel would not give.
                DenialClass::NetworkAccess => operation && same_errno,
                DenialClass::FileAccess => false,
            };
            fits && !joined.shown && !super::blocking::in_passing_by_nature(&joined.best) && by_program(mention, joined)
        });
        if let Some(joined) = found {
            joined.note_message(mention);
        }
    }

    /// Sockets that were refused for a peer that only the command line names, where it names one.
    pub(super) fn name_sockets(&mut self, peer: Option<(String, Option<u16>)>, listening: bool) {
        let Some((host, port)) = peer else { return };
        let is_name = loopback(&host).is_none() && host.parse::<std::net::IpAddr>().is_err();
        let verb = match (listening, is_name) {
            (true, _) => Verb::Bind,
            (false, true) => Verb::Resolve,
            (false, false) => Verb::Connect,
        };
        for joined in &mut self.list {
            if joined.best.kind == DenialKind::NetConnect && matches!(joined.best.target, Target::Syscall) {
                joined.name_peer(&host, port, verb);
            } else {
                joined.name_loopback(&host, port);
            }
        }
    }

    /// Datagrams to name servers are one look-up: of the name a message told, or of the only name in the command.
    pub(super) fn fold_lookups(&mut self, only_name: Option<&str>) {
        let told = self
            .list
            .iter()
            .position(|joined| joined.best.kind == DenialKind::NetResolve && !asks_a_name_server(joined));
        let lookup = told.or_else(|| {
            let first = self.list.iter().position(asks_a_name_server)?;
            let name = only_name?.to_owned();
            self.list[first].best.kind = DenialKind::NetResolve;
            self.list[first].best.target = Target::Net { host: name, port: None };
            Some(first)
        });
        let Some(lookup) = lookup else { return };
        let Target::Net { host: name, .. } = &self.list[lookup].best.target else { return };
        // Resolvers try the name with each search domain behind it.
        let longer = format!("{name}.");
        let is_query = |joined: &Joined| {
            let searched = matches!(&joined.best.target, Target::Net { host, .. } if host.starts_with(&longer));
            asks_a_name_server(joined) || joined.best.kind == DenialKind::NetResolve && searched
        };
        let (queries, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.list)
            .into_iter()
            .enumerate()
            .partition(|(at, joined)| *at != lookup && is_query(joined));
        let at = rest.iter().position(|(at, _)| *at == lookup);
        self.list = rest.into_iter().map(|(_, joined)| joined).collect();
        // The index is not used after this point; positions have moved.
        self.by_target.clear();
        let Some(kept) = at.and_then(|at| self.list.get_mut(at)) else { return };
        for (_, query) in queries {
            kept.shown |= query.shown;
            kept.absorb(Observation { kind: DenialKind::NetResolve, ..query.best });
        }
    }

    /// The accesses in the order they happened: by time where a witness has it, then by each witness's own order.
    pub(super) fn into_ordered(mut self) -> Vec<Joined> {
        self.list.sort_by_key(|joined| (joined.best.at.is_none(), joined.best.at, joined.best.seq));
        self.list
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Joined> {
        self.list.iter_mut()
    }
}

/// A look-up of which only the server is known, not the name.
fn asks_a_name_server(joined: &Joined) -> bool {
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
fn by_program(mention: &Mention, joined: &Joined) -> bool {
    match (&mention.program, &joined.best.process) {
        (Some(program), Some(process)) => process.comm.starts_with(program.as_str()),
        _ => true,
    }
}

fn mention_fits(mention: &Mention, joined: &Joined) -> bool {
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
