//! Messages that carry an errno text: `program: what: object: reason` and the runtimes' own forms.

use super::Context;
use super::mention::{Mention, Subject, Verb};
use super::quote::{Quoted, quoted_names};
use super::words::{PHRASES, PURPOSES, Place, call_verb, usual_verb};
use crate::denial::host_errors::{Cause, Found};

/// Reads a line whose last error text was found at `found`.
pub(super) fn read(line: &str, found: Found, context: &Context) -> Option<Mention> {
    let (head, tail) = (&line[..found.start], &line[found.end..]);
    python(head, tail, found.cause, context)
        .or_else(|| node(head, tail, found.cause))
        .or_else(|| ruby(tail, found.cause))
        .or_else(|| trailing_object(head, tail, found.cause))
        .or_else(|| terminal(head, tail, found.cause, context))
}

/// `OSError: [Errno 30] Read-only file system: 'f' -> 'g'`.
fn python(head: &str, tail: &str, cause: Cause, context: &Context) -> Option<Mention> {
    let (_, number) = head.rsplit_once("[Errno ")?;
    number.trim_end().strip_suffix(']')?.parse::<i32>().ok()?;
    let named = tail.strip_prefix(": ").or_else(|| tail.strip_prefix(" : "));
    let names = named.filter(|rest| rest.starts_with(['\'', '"', 'b'])).map(quoted_names).unwrap_or_default();
    // A name relative to a directory descriptor cannot be found again from the text.
    let by_descriptor = context.source.contains("dir_fd=");
    let subject = match names.as_slice() {
        [from, to, ..] if tail.contains("' -> '") && !by_descriptor => Subject::Two(from.name.clone(), to.name.clone()),
        [only, ..] if !by_descriptor => Subject::Path(only.name.clone()),
        _ => Subject::Nothing,
    };
    let verb = match (&subject, python_verb(&context.source)) {
        (_, Some(verb)) => verb,
        (Subject::Two(..), None) => Verb::Rename,
        _ => Verb::Unknown,
    };
    let mut mention = Mention::new(verb, subject, Some(cause));
    mention.program = Some("python".to_owned());
    mention.warning = head.trim_start().to_ascii_lowercase().starts_with("warning");
    Some(mention)
}

/// What a Python source line does, by the call it makes.
pub(crate) fn python_verb(source: &str) -> Option<Verb> {
    const CALLS: &[(&str, Verb)] = &[
        ("mkdir(", Verb::Create),
        ("makedirs(", Verb::Create),
        ("symlink(", Verb::Create),
        ("os.link(", Verb::Create),
        ("symlink_to(", Verb::Create),
        ("mkfifo(", Verb::Create),
        ("rename(", Verb::Rename),
        ("os.replace(", Verb::Rename),
        ("unlink(", Verb::Remove),
        ("remove(", Verb::Remove),
        ("rmdir(", Verb::Remove),
        ("rmtree(", Verb::Remove),
        ("chmod(", Verb::Metadata),
        ("chown(", Verb::Metadata),
        ("utime(", Verb::Metadata),
        ("setxattr(", Verb::Metadata),
        ("truncate(", Verb::Truncate),
        ("listdir(", Verb::Read),
        ("scandir(", Verb::Read),
        ("read_text(", Verb::Read),
        ("read_bytes(", Verb::Read),
        ("write_text(", Verb::OpenWrite),
        ("write_bytes(", Verb::OpenWrite),
        ("Popen(", Verb::Execute),
        ("_fork_exec(", Verb::Execute),
        ("execv", Verb::Execute),
    ];
    CALLS.iter().find(|(call, _)| source.contains(call)).map(|(_, verb)| *verb).or_else(|| {
        let modes = ["'w", "\"w", "'a", "\"a", "'x", "\"x", "'r+", "\"r+"];
        (source.contains("open(") && modes.iter().any(|mode| source.contains(mode))).then_some(Verb::OpenWrite)
    })
}

/// `EROFS: read-only file system, rename 'f' -> 'g'`.
fn node(head: &str, tail: &str, cause: Cause) -> Option<Mention> {
    let code = head.strip_suffix(": ")?.rsplit([' ', ':', '(']).next()?;
    Cause::from_errno(code)?;
    let rest = tail.strip_prefix(", ")?;
    let (call, objects) = rest.split_once(' ').unwrap_or((rest, ""));
    let verb = call_verb(call)?;
    // `copyfile` names both, and it is the second that could not be written.
    let subject = match quoted_names(objects).as_slice() {
        [_, to, ..] if call == "copyfile" || call.ends_with("link") => Subject::Path(to.name.clone()),
        [from, to, ..] => Subject::Two(from.name.clone(), to.name.clone()),
        [only] => Subject::Path(only.name.clone()),
        [] => Subject::Nothing,
    };
    let verb = if call == "copyfile" { Verb::OpenWrite } else { verb };
    let mut mention = Mention::new(verb, subject, Some(cause));
    mention.program = Some(if head.starts_with("npm ") { "npm" } else { "node" }.to_owned());
    mention.call = Some(call.to_owned());
    mention.warning = head.to_ascii_lowercase().contains("warn ");
    Some(mention)
}

/// `Read-only file system @ rb_sysopen - /x (Errno::EROFS)`.
fn ruby(tail: &str, cause: Cause) -> Option<Mention> {
    let (function, object) = tail.strip_prefix(" @ ")?.split_once(" - ")?;
    let object = object.rsplit_once(" (Errno::").map_or(object, |(object, _)| object);
    let verb = match function {
        "dir_s_mkdir" | "rb_file_s_symlink" | "rb_file_s_link" | "rb_file_s_mkfifo" => Verb::Create,
        "dir_s_rmdir" => Verb::Remove,
        "rb_file_s_rename" => Verb::Rename,
        "rb_file_s_truncate" => Verb::Truncate,
        "dir_initialize" => Verb::Read,
        _ => Verb::Unknown,
    };
    let pair = object.strip_prefix('(').and_then(|pair| pair.strip_suffix(')')).and_then(|pair| pair.split_once(", "));
    let subject = match pair {
        Some((_, to)) if verb == Verb::Create => Subject::Path(to.to_owned()),
        Some((from, to)) => Subject::Two(from.to_owned(), to.to_owned()),
        None => Subject::Path(object.to_owned()),
    };
    let mut mention = Mention::new(verb, subject, Some(cause));
    mention.program = Some("ruby".to_owned());
    Some(mention)
}

/// The object follows the reason: `... (os error 30) at path "/x"`, `chattr: ... while setting flags on f`,
/// `.NET: Access to the path '/x' is denied`-like forms with ` : '/x'`.
fn trailing_object(head: &str, tail: &str, cause: Cause) -> Option<Mention> {
    let lower = head.to_ascii_lowercase();
    if let Some((error, object)) = tail.split_once(" at path ") {
        error.trim().strip_prefix("(os error ")?;
        let name = quoted_names(object).into_iter().next()?.name;
        let mut mention = Mention::new(phrase_verb(&lower).unwrap_or(Verb::Unknown), Subject::Path(name), Some(cause));
        mention.temporary = lower.contains("temp");
        return Some(mention);
    }
    if let Some((_, object)) = tail.strip_prefix(" while ").and_then(|rest| rest.rsplit_once(" on ")) {
        let mut mention = Mention::new(Verb::Metadata, Subject::Path(object.to_owned()), Some(cause));
        mention.program = lower.split(':').next().map(str::to_owned);
        return Some(mention);
    }
    let object = tail.strip_prefix(" : '")?.strip_suffix('\'')?;
    let is_dotnet = lower.contains("exception");
    is_dotnet.then(|| Mention::new(Verb::Unknown, Subject::Path(object.to_owned()), Some(cause)))
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

fn phrase_verb(lower: &str) -> Option<Verb> {
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
        || SEVERITIES.iter().any(|word| segment.eq_ignore_ascii_case(word));
    let sentence = segment.contains(['«', '»', '„', '“', '‘', '’', '"']);
    let bare = one_word || usual.is_some() && !sentence || rooted && segment.split_whitespace().count() <= 4;
    bare && !nameless
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
    let plain = !object.is_empty() && (object.split_whitespace().count() <= 3 || object.starts_with(['/', '.']));
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
