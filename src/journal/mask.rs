//! Masking secrets in a command before it is written down.
//!
//! Masked are: values given to names that the environment's scrub calls secret (`NAME=VALUE`, `--token VALUE`, header
//! and JSON fields), credentials in URLs, values of curl's `-u`, words that begin like well-known tokens, and the values
//! of the executor's own secret variables wherever they stand. A masked value appears as `***`. What a command reads
//! from files or standard input is not in the command and so not in the journal. Text can hide a secret from any list;
//! keep the journal as private as the shell history it resembles.

#![forbid(unsafe_code)]

use std::ops::Range;

use crate::environment::{Variables, is_secret_name};

/// What stands in place of a secret.
const MASK: &str = "***";

/// Values shorter than this are not looked for: they would be found in ordinary text.
const SHORTEST_VALUE: usize = 8;

/// Beginnings of tokens whose issuers mark them so that they can be found.
const MARKED: [&str; 17] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-ant-",
    "sk-proj-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "npm_",
    "pypi-",
];

/// What follows a marked beginning at least.
const MARKED_REST: usize = 12;

/// Words that say how a credential is presented and are followed by it.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "digest"];

/// Masks secrets.
#[derive(Clone, Default)]
pub struct Masker {
    /// Longest first, so that one value within another is not cut out of it.
    values: Vec<String>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masker").field("values", &self.values.len()).finish()
    }
}

impl Masker {
    /// A masker that also knows the values of the secret variables of an environment.
    #[must_use]
    pub fn knowing(environment: &Variables) -> Self {
        let secret = environment.iter().filter(|(name, _)| is_secret_name(&name.to_string_lossy()));
        let mut values: Vec<String> = secret.filter_map(|(_, value)| value.to_str().map(str::to_owned)).collect();
        // A socket or a file is where a secret is, not what it is.
        values.retain(|value| value.len() >= SHORTEST_VALUE && !value.starts_with('/'));
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Masks a shell command, or any text.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut secret = Vec::new();
        let mut context = Context::default();
        for word in words(text) {
            let raw = &text[word.clone()];
            secret.extend(context.secrets(raw).into_iter().map(|r| word.start + r.start..word.start + r.end));
        }
        self.cover(text, secret)
    }

    /// Masks the arguments of a program, the program first.
    pub fn arguments(&self, arguments: impl Iterator<Item = String>) -> Vec<String> {
        let mut context = Context::default();
        arguments
            .map(|argument| {
                let found = context.secrets(&argument);
                self.cover(&argument, found)
            })
            .collect()
    }

    /// Replaces the ranges, and every known value.
    fn cover(&self, text: &str, mut ranges: Vec<Range<usize>>) -> String {
        for value in &self.values {
            ranges.extend(text.match_indices(value.as_str()).map(|(at, found)| at..at + found.len()));
        }
        ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        let mut masked = String::with_capacity(text.len());
        let mut done = 0;
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            if range.start >= done {
                masked.push_str(&text[done..range.start]);
                masked.push_str(MASK);
            }
            done = done.max(range.end);
        }
        masked.push_str(&text[done..]);
        masked
    }
}

/// What the words before say of the next one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Ordinary,
    /// A secret flag or header name came before.
    Secret,
    /// `-u` or `--user` came before: `NAME:PASSWORD`.
    User,
}

#[derive(Debug, Default)]
struct Context {
    next: Next,
}

impl Context {
    /// The secret parts of one word, and what it says of the next.
    fn secrets(&mut self, word: &str) -> Vec<Range<usize>> {
        let bare = unquoted(word);
        let before = std::mem::take(&mut self.next);
        if before == Next::Secret && SCHEMES.contains(&bare.to_ascii_lowercase().as_str()) {
            self.next = Next::Secret;
            return Vec::new();
        }
        match before {
            Next::Secret => return std::iter::once(0..word.len()).collect(),
            Next::User => {
                if let Some(colon) = word.find(':') {
                    return std::iter::once(colon + 1..inner_end(word)).collect();
                }
            }
            Next::Ordinary => {}
        }
        self.next = announces(bare);
        let mut found = assignments(word);
        found.extend(url_credentials(word));
        found.extend(marked_tokens(word));
        found
    }
}

/// What a whole word says of the word after it.
fn announces(bare: &str) -> Next {
    let flag = bare.strip_prefix("--").or_else(|| bare.strip_prefix('-'));
    match flag {
        Some("u" | "user" | "proxy-user" | "U") => Next::User,
        Some(name) if is_plain_name(name) && is_secret_name(name) => Next::Secret,
        Some(_) => Next::Ordinary,
        None => match bare.strip_suffix(':') {
            Some(name) if is_plain_name(name) && is_secret_name(name) => Next::Secret,
            _ => Next::Ordinary,
        },
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_name_byte)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Values after `NAME=` and `NAME:` anywhere in a word.
fn assignments(word: &str) -> Vec<Range<usize>> {
    let bytes = word.as_bytes();
    let mut found = Vec::new();
    let mut begin = 0;
    while begin < bytes.len() {
        if !is_name_byte(bytes[begin]) {
            begin += 1;
            continue;
        }
        let end = (begin..bytes.len()).find(|at| !is_name_byte(bytes[*at])).unwrap_or(bytes.len());
        let name = word[begin..end].trim_start_matches('-');
        let value = if is_secret_name(name) { value_after(word, begin, end) } else { None };
        begin = value.as_ref().map_or(end, |value| value.end).max(end);
        found.extend(value);
    }
    found
}

/// The value of the name at `begin..end`, when one follows.
fn value_after(word: &str, begin: usize, end: usize) -> Option<Range<usize>> {
    let bytes = word.as_bytes();
    let mut at = end;
    // `"name": value` of JSON, escaped or not.
    while matches!(bytes.get(at), Some(b'\\')) {
        at += 1;
    }
    if matches!(bytes.get(at), Some(b'"' | b'\'')) {
        at += 1;
    }
    let sign = *bytes.get(at)?;
    at += 1;
    match sign {
        b'=' if begin == 0 => return Some(at..word.len()),
        b'=' => {}
        b':' if !word[at..].starts_with("//") => {
            while matches!(bytes.get(at), Some(b' ' | b'\t')) {
                at += 1;
            }
            if at == bytes.len() {
                return None;
            }
        }
        _ => return None,
    }
    while matches!(bytes.get(at), Some(b'\\')) {
        at += 1;
    }
    let ends: &[u8] = match bytes.get(at) {
        Some(quote @ (b'"' | b'\'')) => {
            at += 1;
            if *quote == b'"' { b"\"" } else { b"'" }
        }
        // A header reaches to the end of its line; anything else to the end of its field.
        _ if sign == b':' => b"\"'\n\r}",
        _ => b" \t\n\r\"'&#,;}",
    };
    let stop = (at..bytes.len()).find(|i| ends.contains(&bytes[*i])).unwrap_or(bytes.len());
    Some(at..stop)
}

/// Passwords, and whole user parts without one, of URLs: `https://TOKEN@host`. `ssh://git@host` names an account.
fn url_credentials(word: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in word.match_indices("://") {
        let begin = at + 3;
        let rest = &word[begin..];
        let end = rest.find(['/', '?', '#', ' ', '\n', '"', '\'']).unwrap_or(rest.len());
        let Some(sign) = rest[..end].rfind('@') else { continue };
        match rest[..sign].find(':') {
            Some(colon) => found.push(begin + colon + 1..begin + sign),
            None if !word[..at].ends_with("ssh") && &rest[..sign] != "git" => found.push(begin..begin + sign),
            None => {}
        }
    }
    found
}

fn marked_tokens(word: &str) -> Vec<Range<usize>> {
    let bytes = word.as_bytes();
    let mut found = Vec::new();
    for mark in MARKED {
        for (at, _) in word.match_indices(mark) {
            let whole = at == 0 || !is_name_byte(bytes[at - 1]);
            let end = (at..bytes.len()).find(|i| !is_name_byte(bytes[*i])).unwrap_or(bytes.len());
            if whole && end - at >= mark.len() + MARKED_REST {
                found.push(at..end);
            }
        }
    }
    found
}

/// Words as a shell would separate them, quotes kept.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let (mut begin, mut quote, mut escaped) = (None, None, false);
    for (at, c) in text.char_indices() {
        let separates = quote.is_none() && !escaped && (c.is_whitespace() || "|&;()<>".contains(c));
        if separates {
            words.extend(begin.take().map(|begin| begin..at));
            continue;
        }
        begin.get_or_insert(at);
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    words.extend(begin.map(|begin| begin..text.len()));
    words
}

/// The word without the quotes around it.
fn unquoted(word: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    word
}

fn inner_end(word: &str) -> usize {
    if word.len() > 1 && word.ends_with(['"', '\'']) && word.starts_with(['"', '\'']) {
        word.len() - 1
    } else {
        word.len()
    }
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
