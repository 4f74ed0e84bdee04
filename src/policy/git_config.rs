//! The few keys of a git configuration that matter to protection: `core.hooksPath`, `core.worktree` and includes.
//!
//! It reads generously: a key found where git would see none costs a rule too many, never one too few.

#![forbid(unsafe_code)]

/// What a path in a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `core.hooksPath`.
    HooksPath,
    /// `include.path` and `includeIf.*.path`.
    Include,
}

/// A path named by a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) path: String,
}

/// Every path that makes git run or read something.
pub(super) fn paths(text: &str) -> Vec<Named> {
    let mut found = Vec::new();
    each(text, |section, key, value| {
        let kind = match (section, key) {
            ("core", "hookspath") => Kind::HooksPath,
            ("include" | "includeif", "path") => Kind::Include,
            _ => return,
        };
        found.push(Named { kind, path: value.to_owned() });
    });
    found
}

/// `core.worktree`, the last one given, as git has it.
pub(super) fn worktree(text: &str) -> Option<String> {
    let mut found = None;
    each(text, |section, key, value| {
        if (section, key) == ("core", "worktree") {
            found = Some(value.to_owned());
        }
    });
    found
}

/// Reads a configuration whose text anybody chose.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(text: &str) {
    assert!(paths(text).len() <= text.lines().count(), "a line names one path at most");
    assert!(worktree(text).is_none_or(|path| path.len() <= text.len()));
}

/// Calls with section (without its subsection) and key in lower case, and the value unquoted.
fn each(text: &str, mut visit: impl FnMut(&str, &str, &str)) {
    let joined = text.replace("\\\n", "");
    let mut section = String::new();
    for line in joined.lines() {
        let mut line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            let Some((name, rest)) = head.split_once(']') else { continue };
            section = name.split([' ', '\t', '"', '.']).next().unwrap_or_default().to_ascii_lowercase();
            line = rest.trim();
        }
        if let Some((key, value)) = line.split_once('=') {
            visit(&section, &key.trim().to_ascii_lowercase(), &unquoted(value.trim()));
        }
    }
}

/// Takes quotes, escapes and a trailing comment away.
fn unquoted(value: &str) -> String {
    let mut out = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for c in value.chars() {
        match c {
            _ if escaped => {
                out.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            _ => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_keys_that_matter() {
        let text = "[core]\n\tbare = false\n\thooksPath = \".husky/_\" ; here\n[includeIf \"gitdir:~/w/\"]\npath=../x.inc\n\
                    [Include] path = a\\\nb # c\n[user]\npath = no\n[CORE]\nworktree = ../../../libs/foo\n";
        let named = paths(text);
        assert_eq!(
            named,
            [
                Named { kind: Kind::HooksPath, path: ".husky/_".into() },
                Named { kind: Kind::Include, path: "../x.inc".into() },
                Named { kind: Kind::Include, path: "ab".into() },
            ]
        );
        assert_eq!(worktree(text).as_deref(), Some("../../../libs/foo"));
        assert_eq!(worktree("[remote \"x\"]\nworktree = y\n"), None);
    }
}
