//! The forms of language runtimes, in which the object follows the reason.

use super::Context;
use super::mention::{Mention, Subject, Verb};
use super::quote::quoted_names;
use super::words::call_verb;
use crate::denial::host_errors::Cause;

/// Reads a message whose reason stands between `head` and `tail`.
pub(super) fn read(head: &str, tail: &str, cause: Cause, context: &Context) -> Option<Mention> {
    python(head, tail, cause, context)
        .or_else(|| node(head, tail, cause))
        .or_else(|| ruby(tail, cause))
        .or_else(|| trailing_object(head, tail, cause))
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
fn python_verb(source: &str) -> Option<Verb> {
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
        let mut mention =
            Mention::new(super::shape::phrase_verb(&lower).unwrap_or(Verb::Unknown), Subject::Path(name), Some(cause));
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
