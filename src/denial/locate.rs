//! From a message to an observation: which path of this host it names, and whether the policy refuses that.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::host_errors::Cause;
use super::refusal::{fails_anyway, loopback, normalize, path_refused, peer_refused};
use super::stderr::{Mention, Subject, Verb, command_peers};
use super::{
    AccessWord, Aftermath, DenialKind, DeniedProcess, FileBackend, FileState, HostAccess, Observation, PolicyViews,
};
use super::{Remedy, RunEvidence, Target, Witness};
use crate::policy::NetworkMode;

/// Finds what messages talk about.
pub(super) struct Locator<'a> {
    evidence: &'a RunEvidence<'a>,
    views: PolicyViews<'a>,
    bases: Vec<PathBuf>,
}

impl<'a> Locator<'a> {
    pub(super) fn new(evidence: &'a RunEvidence<'a>, views: PolicyViews<'a>) -> Self {
        Self { evidence, views, bases: directories(evidence) }
    }

    /// Where a path as printed may lie, most likely first.
    pub(super) fn candidates(&self, printed: &str) -> Vec<PathBuf> {
        let printed = Path::new(printed);
        if printed.is_absolute() {
            return vec![self.views.host.resolve(&normalize(printed))];
        }
        if let (Ok(below), Some(home)) = (printed.strip_prefix("~"), self.evidence.home) {
            return vec![self.views.host.resolve(&normalize(&home.join(below)))];
        }
        let mut found: Vec<PathBuf> = Vec::new();
        for base in &self.bases {
            let path = self.views.host.resolve(&normalize(&base.join(printed)));
            if !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// Where a path as printed may lie, with the ends of links at those places.
    pub(super) fn candidates_and_targets(&self, printed: &str) -> Vec<PathBuf> {
        let places = self.candidates(printed);
        let targets: Vec<PathBuf> = places.iter().filter_map(|path| self.views.host.target(path)).collect();
        places.into_iter().chain(targets).collect()
    }

    /// The place of one end of a move, when the policy refuses to change the names there.
    pub(super) fn refused_end(&self, printed: &str) -> Option<PathBuf> {
        let refused = |path: &PathBuf| path_refused(self.views.effective, DenialKind::FsRename, path, &self.views);
        self.candidates(printed).into_iter().find(refused)
    }

    /// The refusal a message tells of, when the policy refuses what it names.
    pub(super) fn locate(&self, mention: &Mention) -> Option<Observation> {
        match &mention.subject {
            Subject::Host { host, port } => self.peer(mention, host, *port),
            Subject::InCommand => None,
            Subject::Path(path) if mention.verb == Verb::Socket => self.socket(mention, path),
            Subject::Path(path) if mention.cause.is_none() => self.without_reason(mention, path),
            Subject::Path(path) => self.candidates(path).into_iter().find_map(|path| self.path(mention, path)),
            Subject::Two(from, to) => self.two(mention, from, to),
            Subject::Nothing => self.operation(mention),
        }
    }

    fn sighting(&self, mention: &Mention, kind: DenialKind, target: Target) -> Observation {
        let access = match kind {
            DenialKind::FsRead => vec![AccessWord::Read],
            DenialKind::FsExecute => vec![AccessWord::Execute],
            DenialKind::FsCreate
            | DenialKind::FsWrite
            | DenialKind::FsTruncate
            | DenialKind::FsRemove
            | DenialKind::FsRename
            | DenialKind::FsMetadata => vec![AccessWord::Write],
            _ => Vec::new(),
        };
        let process = mention.program.clone().map(|comm| DeniedProcess { pid: None, comm });
        Observation {
            kind,
            target,
            access,
            syscall: None,
            errno: mention.cause.and_then(Cause::errno).map(str::to_owned),
            process,
            witness: Witness::Stderr,
            at: None,
            seq: u64::try_from(mention.line).unwrap_or(u64::MAX),
            aftermath: Aftermath::Unknown,
            remedy: Remedy::Ask,
        }
    }

    fn path(&self, mention: &Mention, path: PathBuf) -> Option<Observation> {
        // Opening follows a link; removing, moving and making act on the name itself.
        let follows = !matches!(mention.verb, Verb::Create | Verb::Remove | Verb::Rename);
        let path = follows.then(|| self.views.host.target(&path)).flatten().unwrap_or(path);
        let kind = self.kind(mention, &path)?;
        let refused = path_refused(self.views.effective, kind, &path, &self.views);
        let mounting = kind == DenialKind::Mount && self.views.effective.mode.confines();
        let exclusive = false; // The message carries the kernel's own reason, which was not EEXIST.
        let ordinary = !mounting && fails_anyway(kind, &path, exclusive, self.views.host);
        if let Some(remedy) = self.by_call(mention, kind, &path) {
            return Some(Observation { remedy, ..self.sighting(mention, kind, Target::Path(path)) });
        }
        ((refused || mounting || self.across(mention, kind, &path)) && !ordinary)
            .then(|| self.sighting(mention, kind, Target::Path(path)))
    }

    /// A hard link whose two ends the sandbox keeps apart, on one file system of the host.
    fn across(&self, mention: &Mention, kind: DenialKind, new: &Path) -> bool {
        if kind != DenialKind::FsCreate || mention.cause != Some(Cause::CrossDevice) {
            return false;
        }
        let Some((_, rest)) = mention.text.rsplit_once(" => '") else { return false };
        let Some((old, _)) = rest.split_once('\'') else { return false };
        let (policy, files) = (self.views.effective, self.views.files);
        let Some(directory) = new.parent() else { return false };
        policy.mode.confines()
            && self
                .candidates(old)
                .iter()
                .any(|old| !files.writable(policy, old) && self.views.host.on_one_file_system(old, directory))
    }

    /// `EPERM` for metadata that the host would let this user change: the call itself is refused, for the bits it sets
    /// or, without mounts, for being one of its kind.
    fn by_call(&self, mention: &Mention, kind: DenialKind, path: &Path) -> Option<Remedy> {
        let program = mention.program.as_deref().unwrap_or("");
        let asked = if matches!(program, "chown" | "chgrp") { HostAccess::Owner } else { HostAccess::Metadata };
        let ours = self.views.effective.mode.confines()
            && kind == DenialKind::FsMetadata
            && mention.cause == Some(Cause::Perm)
            && (self.views.host.permits(asked, path) || self.views.host.state(path) == FileState::Missing);
        let by_path = path_refused(self.views.effective, kind, path, &self.views);
        // The rule about these bits answers before the host can.
        let bits = self.views.effective.mode.confines()
            && kind == DenialKind::FsMetadata
            && mention.cause == Some(Cause::Perm)
            && program == "chmod"
            && super::hints::sets_id(self.evidence.command);
        match self.views.files {
            _ if bits => Some(Remedy::Unconfined),
            _ if !ours => None,
            FileBackend::Landlock if by_path && !super::hints::sets_id(self.evidence.command) => Some(Remedy::NoGrant),
            FileBackend::Mounts { .. } if by_path => None,
            // Attributes and owners ask for capabilities of their own.
            FileBackend::Mounts { .. } if matches!(program, "chattr" | "setfattr" | "setfacl" | "chown" | "chgrp") => {
                None
            }
            _ => Some(Remedy::Unconfined),
        }
    }

    /// The kind of access a message tells of, with what stands at the path deciding between creating and writing.
    fn kind(&self, mention: &Mention, path: &Path) -> Option<DenialKind> {
        let state = self.views.host.state(path);
        let open = if state.exists() { DenialKind::FsWrite } else { DenialKind::FsCreate };
        let cause = mention.cause?;
        // Inside a mask nothing exists, so reading what the host has there ends in ENOENT; elsewhere ENOENT is ordinary.
        if cause == Cause::Missing {
            let masked = self.masked(path) && state.exists();
            return masked.then_some(DenialKind::FsRead);
        }
        let by_errno =
            matches!(cause, Cause::Access | Cause::Perm | Cause::ReadOnly | Cause::CrossDevice | Cause::Busy);
        if !by_errno {
            return None;
        }
        Some(match mention.verb {
            Verb::Create => DenialKind::FsCreate,
            Verb::OpenWrite if state == FileState::Directory => DenialKind::FsMetadata,
            Verb::OpenWrite => open,
            Verb::Truncate if state.exists() => DenialKind::FsTruncate,
            Verb::Truncate => open,
            Verb::Remove => DenialKind::FsRemove,
            Verb::Rename => DenialKind::FsRename,
            Verb::Metadata => DenialKind::FsMetadata,
            // Reading what is not there ends in ENOENT, and never in EROFS: this was an output.
            Verb::Read if cause == Cause::ReadOnly || state == FileState::Missing => open,
            Verb::Read => DenialKind::FsRead,
            Verb::Execute => DenialKind::FsExecute,
            Verb::Mount => DenialKind::Mount,
            Verb::Shell => self.shell(cause, path, state)?,
            Verb::Unknown => self.guess(mention, cause, path, state)?,
            _ => return None,
        })
    }

    fn masked(&self, path: &Path) -> bool {
        self.views.files.masks(self.views.effective, path)
    }

    /// A shell prints `name: reason` for a redirection and for a command word alike.
    fn shell(&self, cause: Cause, path: &Path, state: FileState) -> Option<DenialKind> {
        let open = if state.exists() { DenialKind::FsWrite } else { DenialKind::FsCreate };
        if cause == Cause::ReadOnly || super::hints::redirects_to(self.evidence.command, path) {
            return Some(open);
        }
        let masked = self.masked(path);
        match state {
            _ if masked && state.exists() => Some(DenialKind::FsRead),
            FileState::Missing => Some(open),
            // A file that may be executed and read gives EACCES only to a redirection.
            FileState::File
                if self.views.host.permits(HostAccess::Execute, path)
                    && self.views.host.permits(HostAccess::Read, path) =>
            {
                Some(open)
            }
            // Not executable: most likely a command word, and then the refusal is the host's.
            _ => None,
        }
    }

    /// The message does not tell what was tried.
    fn guess(&self, mention: &Mention, cause: Cause, path: &Path, state: FileState) -> Option<DenialKind> {
        let hint = super::hints::verb_in_command(self.evidence.command);
        let masked = self.masked(path) && state.exists();
        if masked && cause != Cause::ReadOnly {
            return Some(DenialKind::FsRead);
        }
        let known_speaker = mention.program.as_deref().is_some_and(super::hints::is_runtime);
        let in_command = |printed: &str| {
            self.evidence
                .command
                .split(|c: char| !c.is_alphanumeric() && !"._-+".contains(c))
                .any(|word| word == printed)
        };
        let bare_word =
            matches!(&mention.subject, Subject::Path(printed) if !printed.contains('/') && !in_command(printed));
        if cause != Cause::ReadOnly {
            let readable = self.views.host.permits(HostAccess::Read, path);
            let script = state == FileState::File && !self.views.host.permits(HostAccess::Execute, path);
            let executed = script && mention_starts_with_dot(mention);
            // Reading what the host keeps from this user, or running what is not executable, is the host's refusal.
            if state.exists() && (!readable || executed) || state == FileState::Unknown {
                return None;
            }
            if bare_word && !known_speaker && state == FileState::Missing {
                return None;
            }
        }
        Some(match (hint, state) {
            (Some(Verb::Remove), state) if state.exists() => DenialKind::FsRemove,
            (Some(Verb::Metadata), state) if state.exists() => DenialKind::FsMetadata,
            (Some(Verb::Truncate), FileState::File) => DenialKind::FsTruncate,
            (_, FileState::Directory) if cause == Cause::ReadOnly => DenialKind::FsRemove,
            (_, FileState::Directory) => return None,
            (_, state) if state.exists() => DenialKind::FsWrite,
            _ => DenialKind::FsCreate,
        })
    }

    /// A move or a link: the source is judged first, then the destination.
    fn two(&self, mention: &Mention, from: &str, to: &str) -> Option<Observation> {
        let links = super::hints::verb_in_command(self.evidence.command) == Some(Verb::Create);
        if mention.verb == Verb::Rename && !links {
            let mut moved = mention.clone();
            moved.subject = Subject::Path(from.to_owned());
            if let Some(sighting) = self.candidates(from).into_iter().find_map(|path| self.path(&moved, path)) {
                return Some(sighting);
            }
        }
        let made = if links { Verb::Create } else { mention.verb };
        let placed = Mention { subject: Subject::Path(to.to_owned()), verb: made, ..mention.clone() };
        self.candidates(to).into_iter().find_map(|path| self.path(&placed, path))
    }

    /// A file could not be written and the program does not say why: ours only where nothing else explains it.
    fn without_reason(&self, mention: &Mention, printed: &str) -> Option<Observation> {
        self.candidates(printed).into_iter().find_map(|path| {
            let state = self.views.host.state(&path);
            let (kind, access) = if state.exists() {
                (DenialKind::FsWrite, HostAccess::Write)
            } else {
                (DenialKind::FsCreate, HostAccess::Create)
            };
            // SQLite and javac say the same for a directory that is missing and for the host's own refusal.
            let ours = path_refused(self.views.effective, kind, &path, &self.views)
                && self.views.host.permits(access, &path)
                && state != FileState::Directory;
            ours.then(|| self.sighting(mention, kind, Target::Path(path)))
        })
    }

    fn socket(&self, mention: &Mention, printed: &str) -> Option<Observation> {
        let path = self.views.host.resolve(&normalize(Path::new(printed)));
        path_refused(self.views.effective, DenialKind::UnixConnect, &path, &self.views)
            .then(|| self.sighting(mention, DenialKind::UnixConnect, Target::Path(path)))
    }

    fn peer(&self, mention: &Mention, host: &str, port: Option<u16>) -> Option<Observation> {
        let kind = match mention.verb {
            Verb::Resolve if loopback(host).is_none() => DenialKind::NetResolve,
            Verb::Bind => DenialKind::NetBind,
            _ => DenialKind::NetConnect,
        };
        let port = port.filter(|_| kind != DenialKind::NetResolve);
        let target = Target::Net { host: host.to_owned(), port };
        peer_refused(self.views.effective, host, port, &self.views).then(|| self.sighting(mention, kind, target))
    }

    /// The message with the object that only the command line names filled in, where it names exactly one.
    pub(super) fn completed(&self, mention: Mention) -> Mention {
        if mention.subject != Subject::InCommand {
            return mention;
        }
        let subject = if mention.call.as_deref() == Some("sqlite") {
            super::hints::database_in(self.evidence.command).map(Subject::Path)
        } else {
            match command_peers(self.evidence.command).as_slice() {
                [(host, port)] => Some(Subject::Host { host: host.clone(), port: *port }),
                [] if mention.call.as_deref() == Some("pip") => {
                    Some(Subject::Host { host: "pypi.org".to_owned(), port: Some(443) })
                }
                _ => None,
            }
        };
        Mention { subject: subject.unwrap_or(Subject::InCommand), ..mention }
    }

    /// The message names no object, or what stands where one would is a word of its own (`cannot: Permission denied`).
    pub(super) fn names_nothing(&self, mention: &Mention) -> bool {
        match &mention.subject {
            Subject::Nothing | Subject::InCommand => true,
            Subject::Path(printed) => {
                let word = printed.bytes().all(|byte| byte.is_ascii_alphabetic());
                word && self.candidates(printed).iter().all(|path| self.views.host.state(path) == FileState::Missing)
            }
            Subject::Two(..) | Subject::Host { .. } => false,
        }
    }

    /// An operation without an object: every confining mode refuses it, whatever its arguments.
    fn operation(&self, mention: &Mention) -> Option<Observation> {
        let kind = match mention.verb {
            Verb::Namespace => DenialKind::Namespace,
            Verb::Ptrace => DenialKind::Ptrace,
            Verb::Privilege if !self.views.host.no_new_privs() => DenialKind::Capability,
            _ => return None,
        };
        if !self.views.effective.mode.confines() {
            return None;
        }
        let mut sighting = self.sighting(mention, kind, Target::Syscall);
        if kind == DenialKind::Namespace && !super::hints::makes_a_user_namespace(self.evidence.command) {
            sighting.remedy = Remedy::Privileged;
        }
        sighting.syscall.clone_from(&mention.call);
        Some(sighting)
    }

    /// The network is private or filtered, so a failed look-up is a refusal.
    pub(super) fn network_is_closed(&self) -> bool {
        self.views.effective.mode.confines() && self.views.effective.network.mode != NetworkMode::Full
    }
}

fn mention_starts_with_dot(mention: &Mention) -> bool {
    matches!(&mention.subject, Subject::Path(printed) if printed.starts_with("./"))
}

/// The directories relative names may be relative to: those the command changed to, latest first, then its start.
fn directories(evidence: &RunEvidence<'_>) -> Vec<PathBuf> {
    let mut current = evidence.workdir.to_path_buf();
    let mut bases = vec![current.clone()];
    let entered = [evidence.stdout, evidence.stderr].map(super::hints::directories_entered).concat();
    for printed in super::hints::directories_in_command(evidence.command).into_iter().chain(entered) {
        let target = match (printed.strip_prefix('~'), evidence.home) {
            (Some(below), Some(home)) => home.join(below.trim_start_matches('/')),
            _ => PathBuf::from(&printed),
        };
        let from_start = normalize(&evidence.workdir.join(&target));
        current = normalize(&current.join(&target));
        for base in [from_start, current.clone()] {
            if !bases.contains(&base) && bases.len() < 16 {
                bases.push(base);
            }
        }
    }
    bases.reverse();
    bases
}
