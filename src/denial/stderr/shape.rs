//! Messages that end in an errno text: `program: what: object: reason`.

use super::mention::{Mention, Subject, Verb};
use super::quote::{Quoted, quoted_names};
use super::words::{PHRASES, PURPOSES, Place, call_verb, usual_verb};
use super::{Context, runtimes};
use crate::denial::host_errors::{Cause, Found};

/// Reads a line whose last error text was found at `found`.
pub(super) fn read(line: &str, found: Found, context: &Context) -> Option<Mention> {
    let (head, tail) = (&line[..found.start], &line[found.end..]);
    runtimes::read(head, tail, found.cause, context).or_else(|| terminal(head, tail, found.cause, context))
}

/// What may stand after the reason in a message that ends with it.
fn ends_message(tail: &str) -> bool {
    let tail = tail.trim();
    let closers = tail.trim_start_matches(['.', '!', ')', ']', '"', '\'', ',', ';', '`', '}']);
    closers.is_empty()
        || tail.starts_with("(os error ")
        || tail.starts_with("; class=")
        || tail.starts_with("(Errno")
        || tail.starts_with("at ") && tail.contains(" line ")
        || tail == ", skipping"
        || tail
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'))
            .is_some_and(|number| number.parse::<u16>().is_ok())
}

/// A message that ends with its reason.
fn terminal(head: &str, tail: &str, cause: Cause, context: &Context) -> Option<Mention> {
    if !ends_message(tail) {
        return None;
    }
    let body = head.trim_end();
    if body.is_empty() {
        return bare(head, tail, cause, context);
    }
    let body = body.strip_suffix([':', ',', '(', '-', ';', '='])?.trim_end();
    let mut mention = message(body, cause)?;
    if mention.subject == Subject::Nothing
        && let Some(earlier) = message(context.previous.trim(), cause)
        && head.starts_with(' ')
        && earlier.subject != Subject::Nothing
    {
        mention = earlier;
    }
    if tail.trim_start().starts_with("at ") && mention.program.is_none() {
        mention.program = Some("perl".to_owned());
    }
    Some(mention)
}

/// The reason alone on its line: what failed was said on the line before.
fn bare(head: &str, tail: &str, cause: Cause, context: &Context) -> Option<Mention> {
    let continues = !head.is_empty() || tail.trim_start().starts_with("(os error ");
    let earlier = continues.then(|| message(context.previous.trim().trim_end_matches(':'), cause)).flatten();
    earlier
        .filter(|earlier| earlier.verb != Verb::Unknown || matches!(earlier.subject, Subject::Path(_)))
        .or_else(|| Some(Mention::new(Verb::Unknown, Subject::Nothing, Some(cause))))
}

/// Severity words that stand where a program's name would.
const SEVERITIES: &[&str] = &[
    "fatal",
    "error",
    "warning",
    "fatal error",
    "err",
    "note",
    "info",
    "critical",
    "failed",
    "failure",
    "panic",
    "caused by",
    "remote",
    "exception",
    "npm error",
    "npm err!",
    "e",
    "fehler",
    "erreur",
    "warnung",
];

/// A message without its reason: `program: what: object`.
fn message(body: &str, cause: Cause) -> Option<Mention> {
    let segments: Vec<&str> = segments(body);
    let (program, severity) = speaker(&segments);
    let default = program.as_deref().and_then(usual_verb);
    let (verb, subject, phrase) = objects(&segments, program.is_some(), default)?;
    let verb = match (default, verb) {
        (Some(Verb::Truncate), Verb::OpenWrite | Verb::Unknown) => Verb::Truncate,
        (Some(usual), Verb::Unknown) => usual,
        (_, verb) => verb,
    };
    let git_lock = phrase == Some("could not lock config file");
    let subject = match subject {
        Subject::Path(path) if git_lock => Subject::Path(format!("{path}.lock")),
        subject => subject,
    };
    let mut mention = Mention::new(verb, subject, Some(cause));
    mention.temporary = phrase.is_some_and(|phrase| phrase.contains("temp"));
    mention.warning = severity.is_some_and(|word| word.eq_ignore_ascii_case("warning"));
    mention.program = program;
    Some(mention)
}

/// Splits at `: ` outside quotation marks, dropping a shell's line number.
fn segments(body: &str) -> Vec<&str> {
    let quoted = quoted_names(body);
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in body.match_indices(": ") {
        if at >= start && !quoted.iter().any(|name| name.start < at && at < name.end) && parts.len() < 12 {
            parts.push(body[start..at].trim());
            start = at + 2;
        }
    }
    parts.push(body[start..].trim());
    let lineno = |part: &str| {
        let mut words = part.split_whitespace();
        let first = words.next().unwrap_or("");
        let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        match (words.next(), words.next()) {
            (None, _) => number(first),
            (Some(second), None) => number(second) && first.chars().all(char::is_alphabetic),
            _ => false,
        }
    };
    // The program comes first, a line number only second or third.
    let tail = parts.split_off(1);
    parts.extend(tail.into_iter().enumerate().filter(|(at, part)| *at > 1 || !lineno(part)).map(|(_, part)| part));
    parts
}

/// Who speaks: the first segment when it looks like a program's name, and the severity word when there is one.
fn speaker<'a>(segments: &[&'a str]) -> (Option<String>, Option<&'a str>) {
    let is_severity = |part: &str| SEVERITIES.iter().any(|word| part.eq_ignore_ascii_case(word));
    let severity = segments.iter().take(2).copied().find(|part| is_severity(part));
    let Some(first) = segments.first().filter(|_| segments.len() > 1) else { return (None, severity) };
    if severity == Some(*first) {
        // `fatal:` at the start of a line is git's way; others put their name before it.
        let git = matches!(*first, "fatal").then(|| "git".to_owned());
        return (git, severity);
    }
    if first.ends_with("Exception") && first.contains("java.") {
        return (Some("java".to_owned()), severity);
    }
    let name = first.strip_suffix(" (child)").unwrap_or(first);
    let name = name.rsplit('/').next().unwrap_or(name);
    let fits = !name.is_empty()
        && name.len() <= 32
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-[".contains(&byte));
    (fits.then(|| name.to_owned()), severity)
}

pub(super) fn phrase_verb(lower: &str) -> Option<Verb> {
    PHRASES.iter().find(|(phrase, ..)| lower.contains(phrase)).map(|(_, verb, _)| *verb)
}

type Object = (Verb, Subject, Option<&'static str>);

/// Finds what was tried and on what, looking from the reason backwards.
fn objects(segments: &[&str], has_program: bool, usual: Option<Verb>) -> Option<Object> {
    let first = usize::from(has_program);
    for (index, segment) in segments.iter().enumerate().skip(first).rev() {
        let lower = segment.to_ascii_lowercase();
        let phrase = PHRASES.iter().find(|(text, _, place)| match place {
            Place::After => lower.contains(text),
            Place::Before => lower.starts_with(text),
        });
        let names = quoted_names(segment);
        if let Some((text, verb, place)) = phrase {
            let verb = purpose(&lower).unwrap_or(*verb);
            let subject = if *place == Place::Before {
                Subject::Path((*segments.get(index.checked_sub(1)?).filter(|_| index > first)?).to_owned())
            } else {
                after_phrase(segment, &lower, text, &names, verb)
                    .or_else(|| beside(segments, index, first))
                    .unwrap_or(Subject::Nothing)
            };
            return Some((verb, subject, Some(text)));
        }
        if !names.is_empty() {
            let verb = purpose(&lower).unwrap_or(Verb::Unknown);
            return Some((verb, from_names(&names, usual.unwrap_or(verb)), None));
        }
        if let Some(object) = operation(segment) {
            return Some(object);
        }
        if segment.starts_with('(') {
            // `kill: (1) - reason`: a process, which is no path and no host.
            break;
        }
        if names_a_path(segment, usual) {
            return Some((Verb::Unknown, Subject::Path((*segment).to_owned()), None));
        }
        if index + 3 < segments.len() {
            break;
        }
    }
    Some((Verb::Unknown, Subject::Nothing, None))
}

fn purpose(lower: &str) -> Option<Verb> {
    PURPOSES.iter().find(|(text, _)| lower.contains(text)).map(|(_, verb)| *verb)
}

/// `open /x`, `mkdir /x`, `rename a b`, `fork/exec /x`: Go's form, the operation and its object.
fn operation(segment: &str) -> Option<Object> {
    // The operation may follow a log's date and time.
    let words = segment.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '/' | ':' | '.' | ' ' | '-'));
    let (call, object) = words.split_once(' ')?;
    let verb = call_verb(call)?;
    let two = matches!(verb, Verb::Rename).then(|| object.split_once(' ')).flatten();
    let made = matches!(call, "symlink" | "link").then(|| object.split_once(' ')).flatten();
    let subject = match (two, made) {
        (Some((from, to)), _) => Subject::Two(from.to_owned(), to.to_owned()),
        (None, Some((_, new))) => Subject::Path(new.to_owned()),
        (None, None) => Subject::Path(object.to_owned()),
    };
    Some((verb, subject, None))
}

/// An unquoted segment is taken for a path when it is one word, or when its speaker is known to print names bare.
fn names_a_path(segment: &str, usual: Option<Verb>) -> bool {
    let one_word = !segment.contains(char::is_whitespace);
    let rooted = segment.starts_with(['/', '.', '~']);
    let nameless = segment.is_empty()
        || segment.len() > 1024
        || segment.starts_with('(')
        || segment.ends_with("()")
        || one_word
            && ["Error", "Exception", "Warning"].iter().any(|end| segment.len() > end.len() && segment.ends_with(end))
        || is_source_position(segment)
        || SEVERITIES.iter().any(|word| segment.eq_ignore_ascii_case(word));
    let sentence = segment.contains(['«', '»', '„', '“', '‘', '’', '"']);
    let bare = one_word || usual.is_some() && !sentence || rooted && segment.split_whitespace().count() <= 4;
    bare && !nameless
}

/// `file.c:12:3`, where a compiler says it stands.
fn is_source_position(segment: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    segment.rsplit_once(':').is_some_and(|(_, last)| number(last))
}

/// Words that stand where a name would when the program names none (`unable to create temporary file`).
fn is_generic(object: &str) -> bool {
    const GENERIC: &[&str] = &[
        "a",
        "an",
        "the",
        "new",
        "temporary",
        "temp",
        "tmp",
        "output",
        "log",
        "lock",
        "file",
        "directory",
        "dir",
        "files",
    ];
    let mut words = object.split_whitespace().peekable();
    let several = words.clone().count() > 1 || matches!(object, "file" | "directory" | "dir");
    several && words.peek().is_some() && words.all(|word| GENERIC.contains(&word))
}

fn from_names(names: &[Quoted], verb: Verb) -> Subject {
    match (names, verb) {
        ([from, to, ..], Verb::Rename) => Subject::Two(from.name.clone(), to.name.clone()),
        ([first, ..], Verb::Create) => Subject::Path(first.name.clone()),
        ([.., last], _) => Subject::Path(last.name.clone()),
        ([], _) => Subject::Nothing,
    }
}

fn after_phrase(segment: &str, lower: &str, phrase: &str, names: &[Quoted], verb: Verb) -> Option<Subject> {
    if !names.is_empty() {
        // `cannot create hard link 'new' => 'old'` names the new one first; a move names both.
        let both = phrase == "inter-device move failed";
        return Some(if both { Subject::Path(names.last()?.name.clone()) } else { from_names(names, verb) });
    }
    let at = lower.find(phrase)? + phrase.len();
    let mut object = segment.get(at..)?.trim();
    for (word, _) in PURPOSES {
        object = object.strip_suffix(word).map_or(object, str::trim);
    }
    for article in ["file ", "directory ", "the file ", "of "] {
        object = object.strip_prefix(article).unwrap_or(object);
    }
    let plain = !object.is_empty()
        && !is_generic(object)
        && (object.split_whitespace().count() <= 3 || object.starts_with(['/', '.']));
    plain.then(|| Subject::Path(object.to_owned()))
}

/// A phrase alone in its segment: the object is the nearest other segment (`cannot open: f` is after, `f: open failed` before).
fn beside(segments: &[&str], index: usize, first: usize) -> Option<Subject> {
    let before = index.checked_sub(1).filter(|at| *at >= first).and_then(|at| segments.get(at));
    let segment = segments.get(index + 1).or(before)?;
    let named = quoted_names(segment).into_iter().next_back().map(|quoted| quoted.name);
    let name = named.or_else(|| names_a_path(segment, None).then(|| (*segment).to_owned()))?;
    Some(Subject::Path(name))
}
