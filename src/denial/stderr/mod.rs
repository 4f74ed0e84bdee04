//! Messages of refused programs, read by their shape.
//!
//! A message counts only when it ends in (or, in Python, Node and Ruby, turns on) the words of an error that a refusal
//! can produce, and names its object in the place where that program puts it. What a message says is not yet a fact: the
//! path it names is put to the policy and to the host afterwards.
#![forbid(unsafe_code)]

mod mention;
mod network;
mod peers;
mod quote;
mod runtimes;
mod shape;
mod special;
mod words;

use std::collections::HashSet;

use super::host_errors::{Cause, HostErrors};
pub use mention::{Mention, Subject, Verb};
pub(super) use peers::command_peers;

/// Messages kept of one text. A command that fails more often than this fails for the same few reasons.
const MAX_MENTIONS: usize = 2000;

/// Longest line looked at, in bytes; of a longer one the end is taken, where the reason stands.
const MAX_LINE: usize = 4096;

/// Reads every message of a text.
#[must_use]
pub fn read_messages(text: &[u8]) -> Vec<Mention> {
    if text.trim_ascii().is_empty() {
        return Vec::new();
    }
    let mentions = read_with(text, HostErrors::english());
    if !mentions.is_empty() {
        return mentions;
    }
    // Nothing in English: only now are the other languages worth their catalogues.
    read_with(text, HostErrors::every_language())
}

fn read_with(text: &[u8], errors: &HostErrors) -> Vec<Mention> {
    let mut seen = HashSet::new();
    let mut mentions = Vec::new();
    let mut context = Context::default();
    for (number, raw) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = clean(raw);
        let line = line.trim_end();
        if line.trim().is_empty() {
            continue;
        }
        let found = read_line(line, &context, errors);
        context.note(line);
        let Some(mut mention) = found else { continue };
        mention.line = number;
        line.clone_into(&mut mention.text);
        if !mention.subject_is_plausible() || !seen.insert(line.to_owned()) {
            continue;
        }
        mentions.push(mention);
        if mentions.len() == MAX_MENTIONS {
            break;
        }
    }
    mentions
}

fn read_line(line: &str, context: &Context, errors: &HostErrors) -> Option<Mention> {
    let found = errors.last_in(line);
    special::read(line)
        .or_else(|| network::read(line, found))
        .or_else(|| found.and_then(|found| shape::read(line, found, context)))
        .or_else(|| symbol(line))
}

/// An errno by its symbol alone, as a program prints the `code` of what it caught.
fn symbol(line: &str) -> Option<Mention> {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let cause = words.find_map(|word| word.starts_with('E').then(|| Cause::from_errno(word)).flatten())?;
    Some(Mention::new(Verb::Unknown, Subject::Nothing, Some(cause)))
}

impl Mention {
    /// A name with a replacement character is not the name any more; one with a line feed at its end never was.
    fn subject_is_plausible(&self) -> bool {
        let name_ok = |name: &String| !name.is_empty() && name.len() < 4096 && !name.contains(['\u{fffd}', '\0']);
        match &self.subject {
            Subject::Path(path) => name_ok(path),
            Subject::Two(from, to) => name_ok(from) && name_ok(to),
            Subject::Host { host, .. } => name_ok(host),
            Subject::InCommand | Subject::Nothing => true,
        }
    }
}

/// What the lines before a message tell about it.
#[derive(Debug, Default)]
struct Context {
    /// The last line that was not blank and not a joint (`Caused by:`).
    previous: String,
    /// The last source line of a Python traceback.
    source: String,
    in_traceback: bool,
}

impl Context {
    fn note(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed == "Caused by:" {
            return;
        }
        if trimmed.starts_with("Traceback (most recent call last)") {
            self.in_traceback = true;
            self.source.clear();
        } else if !line.starts_with(' ') {
            self.in_traceback = false;
            self.source.clear();
        } else if self.in_traceback && !trimmed.starts_with("File ") && trimmed.chars().any(char::is_alphanumeric) {
            trimmed.clone_into(&mut self.source);
        }
        line.clone_into(&mut self.previous);
    }
}

/// One line as text: the end of an overlong one, what a progress bar left after its last carriage return, no colours.
fn clean(raw: &[u8]) -> String {
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    let raw = &raw[raw.len().saturating_sub(MAX_LINE)..];
    let raw = raw.rsplit(|byte| *byte == b'\r').next().unwrap_or(raw);
    let text = String::from_utf8_lossy(raw);
    if !text.contains('\u{1b}') {
        return text.into_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if rest.next_if_eq(&'[').is_some() {
            // A control sequence ends with its first byte from @ to ~.
            while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        }
    }
    plain
}
