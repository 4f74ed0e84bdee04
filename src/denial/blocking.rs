//! Did a refusal matter: was it why the command failed, or what the command showed?
#![forbid(unsafe_code)]

use super::merge::Joined;
use super::{Aftermath, DenialKind, Observation, RunEvidence, Target};

/// Words in which programs say that something could not be done. Used only to tell whether text without an errno may
/// be about a refusal that is already proven.
const COULD_NOT: &[&str] = &[
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable to",
    "failed to",
    "denied",
    "refused",
    "read-only",
    "readonly",
    "not permitted",
    "permission",
    "not writable",
    "unreachable",
    "failure writing",
    "failed writing",
    "error writing",
    "forbidden",
    "403",
    "407",
    "giving up",
    "must be root",
    "only root",
    "be superuser",
    // The same in other languages.
    "konnte nicht",
    "kann nicht",
    "keine berechtigung",
    "nur lesbar",
    "nur-lese",
    "schreibgeschützt",
    "impossible",
    "permission non accordée",
    "lecture seule",
    "no se puede",
    "no se pudo",
    "permiso denegado",
    "sólo lectura",
    "solo lectura",
    "impossibile",
    "permesso negato",
    "sola lettura",
    "não foi possível",
    "permissão negada",
    "somente leitura",
    "невозможно",
    "не удалось",
    "отказано в доступе",
    "только для чтения",
    "无法",
    "权限不够",
    "只读",
    "できません",
    "許可がありません",
];

/// Marks each access as blocking or not.
pub(super) fn decide(accesses: &[Joined], evidence: &RunEvidence<'_>) -> Vec<bool> {
    let failed = evidence.exit_code.is_none_or(|code| code != 0);
    if !failed {
        // The status was hidden (a pipe, `; true`) but the message was not; a warning says that the program coped.
        return accesses.iter().map(|joined| joined.shown && !joined.only_warned).collect();
    }
    if accesses.iter().any(|joined| joined.shown) {
        let all_warnings = accesses.iter().all(|joined| !joined.shown || joined.only_warned);
        return accesses.iter().map(|joined| joined.shown && (all_warnings || !joined.only_warned)).collect();
    }
    let mut blocking = vec![false; accesses.len()];
    if let Some(last) = silent_cause(accesses, evidence) {
        blocking[last] = true;
    }
    blocking
}

/// Nothing was shown for any refusal: the last one that can explain the failure, if one can.
fn silent_cause(accesses: &[Joined], evidence: &RunEvidence<'_>) -> Option<usize> {
    if evidence.timed_out {
        return None;
    }
    let said = said_something_else(evidence);
    let by_its_end = accesses.iter().rposition(|joined| {
        let refused = &joined.best;
        if in_passing_by_nature(refused) {
            return false;
        }
        let explains = match refused.aftermath {
            Aftermath::Continued => false,
            Aftermath::ProcessExited { code: 0 } => false,
            Aftermath::ProcessExited { code } => explains_status(code, refused, evidence),
            Aftermath::Unknown => !said.any || said.could_not,
        };
        explains && (!said.any || said.could_not)
    });
    by_its_end.or_else(|| if said.could_not { told_by_its_verb(accesses, evidence) } else { None })
}

/// A complaint that names neither object nor reason (`unable to create temporary object directory`) is about the last
/// refusal of what it says could not be done.
fn told_by_its_verb(accesses: &[Joined], evidence: &RunEvidence<'_>) -> Option<usize> {
    let lines: Vec<String> = complaining_lines(evidence).into_iter().map(|line| line.to_lowercase()).collect();
    accesses.iter().rposition(|joined| {
        let verbs = verbs_of(joined.best.kind);
        !in_passing_by_nature(&joined.best)
            && joined.best.aftermath != (Aftermath::ProcessExited { code: 0 })
            && lines.iter().any(|line| verbs.iter().any(|verb| line.contains(verb)))
    })
}

/// Beginnings of the words in which programs tell of an access of this kind.
const fn verbs_of(kind: DenialKind) -> &'static [&'static str] {
    match kind {
        DenialKind::FsCreate => &["creat", "mkdir", "mak", "writ"],
        DenialKind::FsWrite | DenialKind::FsTruncate => &["writ", "updat", "sav", "modify"],
        DenialKind::FsRemove => &["remov", "unlink", "delet"],
        DenialKind::FsRename => &["renam", "mov"],
        DenialKind::NetConnect => &["connect", "fetch", "download", "find", "retriev", "network"],
        DenialKind::NetResolve => &["resolv", "look", "connect", "fetch", "download", "find", "retriev", "network"],
        _ => &[],
    }
}

/// The refused process's status is the command's, and is one that a failure gives rather than a program's own choice.
fn explains_status(code: i32, refused: &Observation, evidence: &RunEvidence<'_>) -> bool {
    if super::hints::exits_on_failure(evidence.command) {
        return true;
    }
    let comm = refused.process.as_ref().map_or("", |process| process.comm.as_str());
    if super::hints::ran_before_the_end(evidence.command, comm) {
        return false;
    }
    // An interpreter that goes on after a refusal ends with whatever its script decides; its own failures are 1 and 2.
    let chosen = super::hints::is_interpreter(comm) && !matches!(code, 1 | 2);
    evidence.exit_code == Some(code) && !chosen
}

struct Said {
    any: bool,
    could_not: bool,
}

/// What standard error holds when it holds no message about any refusal.
fn said_something_else(evidence: &RunEvidence<'_>) -> Said {
    let tail = &evidence.stderr[evidence.stderr.len().saturating_sub(16 << 10)..];
    let text = String::from_utf8_lossy(tail);
    // A handler's own words are the command's, not a program's.
    let by_handler = |line: &&str| {
        super::hints::exits_on_failure(evidence.command) && super::hints::prints_literally(evidence.command, line)
    };
    let any = text.lines().filter(|line| !line.trim().is_empty()).any(|line| !by_handler(&line));
    let text = text.to_lowercase();
    Said { any, could_not: COULD_NOT.iter().any(|words| text.contains(words)) }
}

/// Lines in which an access proven by other witnesses may be named: those that say something could not be done.
pub(super) fn complaining_lines(evidence: &RunEvidence<'_>) -> Vec<String> {
    let failed = evidence.exit_code.is_none_or(|code| code != 0);
    let with_stdout = failed || super::hints::merges_streams(evidence.command);
    // Of a command that succeeded, the plain output is data unless it says clearly that something could not be done.
    let outputs = [(evidence.stderr, true), (evidence.stdout, with_stdout)];
    let tails = outputs.iter().map(|(output, any)| (&output[output.len().saturating_sub(64 << 10)..], *any));
    tails
        .flat_map(|(tail, any)| tail.split(|byte| *byte == b'\n').map(move |line| (line, any)))
        .filter(|(line, _)| line.len() <= 4096)
        .map(|(line, any)| (String::from_utf8_lossy(line).into_owned(), any))
        .filter(|(line, any)| {
            let lower = line.to_lowercase();
            *any && lower.contains("error") || COULD_NOT.iter().any(|words| lower.contains(words))
        })
        .map(|(line, _)| line)
        .take(400)
        .collect()
}

/// Caches, histories and probes that programs keep on the side: their refusal never fails a command.
pub(super) fn in_passing_by_nature(refused: &Observation) -> bool {
    let Target::Path(path) = &refused.target else { return false };
    let comm = refused.process.as_ref().map_or("", |process| process.comm.as_str());
    let text = path.to_string_lossy();
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let parts = ["__pycache__", ".cache", "_logs", "_update-notifier", "configstore", "fontconfig", ".npm"];
    let names = [
        ".bash_history",
        ".python_history",
        ".node_repl_history",
        ".sqlite_history",
        ".lesshst",
        ".viminfo",
        ".wget-hsts",
        ".rnd",
    ];
    let sockets = ["/nscd/socket", "/io.systemd.", "systemd/resolve", "/lttng-ust-"];
    path.components().any(|part| parts.iter().any(|known| part.as_os_str() == *known))
        || names.contains(&name.as_str())
        || name.ends_with(".pyc")
        || name.contains(".pyc.")
        || sockets.iter().any(|socket| text.contains(socket))
        || comm == "git" && name == "index.lock" && refused.aftermath != Aftermath::ProcessExited { code: 128 }
}
