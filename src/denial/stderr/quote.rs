//! Quoted names in messages: the quotation marks of every locale, and the escapes of shells, Python and Rust.

/// Opening mark and the closing marks it may end with.
const MARKS: [(char, &[char]); 11] = [
    ('\'', &['\'']),
    ('"', &['"']),
    ('`', &['`', '\'']),
    ('‘', &['’']),
    ('“', &['”']),
    ('„', &['“', '”']),
    ('‚', &['‘', '’']),
    ('«', &['»']),
    ('»', &['«']),
    ('「', &['」']),
    ('”', &['”']),
];

/// One quoted name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quoted {
    /// First byte, the mark itself.
    pub(super) start: usize,
    /// One past the closing mark.
    pub(super) end: usize,
    /// The name, unescaped.
    pub(super) name: String,
}

/// The quoted names of a text, in order. An apostrophe inside a word (`can't`) opens nothing.
pub(super) fn quoted_names(text: &str) -> Vec<Quoted> {
    let mut names = Vec::new();
    let mut from = 0;
    while names.len() < 8 {
        let Some(quoted) = next_quoted(text, from) else { break };
        from = quoted.end;
        if !quoted.name.is_empty() {
            names.push(quoted);
        }
    }
    names
}

fn next_quoted(text: &str, from: usize) -> Option<Quoted> {
    let mut before = text[..from].chars().next_back();
    for (at, mark) in text[from..].char_indices().map(|(at, mark)| (from + at, mark)) {
        let inside_word = before.is_some_and(char::is_alphanumeric);
        before = Some(mark);
        let Some((_, closers)) = MARKS.iter().find(|(open, _)| *open == mark) else { continue };
        if inside_word && mark != '«' {
            // `$'..'` and `b'..'` are handled by their readers; `can't` is a word.
            continue;
        }
        let body = at + mark.len_utf8();
        if mark == '\'' {
            return shell_quoted(text, at);
        }
        // An unclosed mark ends the search: looking on from each mark in turn would cost the square of the line.
        let (name, end) = until(text, body, closers)?;
        return Some(Quoted { start: at, end, name: name.trim_matches(['\u{a0}', '\u{202f}', ' ']).to_owned() });
    }
    None
}

/// Reads up to a closing mark; a backslash escapes the next character (Rust and Go debug form, Python repr).
fn until(text: &str, from: usize, closers: &[char]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut chars = text[from..].char_indices();
    while let Some((at, c)) = chars.next() {
        if closers.contains(&c) {
            return Some((name, from + at + c.len_utf8()));
        }
        if c == '\\' {
            let (_, escaped) = chars.next()?;
            name.push(match escaped {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            });
        } else {
            name.push(c);
        }
    }
    None
}

/// Coreutils' shell-escape style: `'a'$'\n''b'`, and `'it'\''s'`; plain `'x'` is its simplest case.
fn shell_quoted(text: &str, start: usize) -> Option<Quoted> {
    let mut name = String::new();
    let mut at = start;
    loop {
        let rest = &text[at..];
        if let Some(body) = rest.strip_prefix("$'") {
            let (part, length) = ansi_c(body)?;
            name.push_str(&part);
            at += 2 + length;
        } else if let Some(body) = rest.strip_prefix("\\'") {
            name.push('\'');
            at = text.len() - body.len();
        } else if let Some(body) = rest.strip_prefix('\'') {
            let length = body.find('\'')?;
            name.push_str(&body[..length]);
            at += length + 2;
        } else {
            return Some(Quoted { start, end: at, name });
        }
    }
}

/// The body of `$'...'`: returns the text and the bytes used, closing mark included.
fn ansi_c(body: &str) -> Option<(String, usize)> {
    let mut bytes = Vec::new();
    let raw = body.as_bytes();
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        match byte {
            b'\'' => return Some((String::from_utf8(bytes).ok()?, at)),
            b'\\' => {
                let escaped = *raw.get(at)?;
                at += 1;
                match escaped {
                    b'n' => bytes.push(b'\n'),
                    b't' => bytes.push(b'\t'),
                    b'r' => bytes.push(b'\r'),
                    b'0'..=b'7' => {
                        let digits = raw.get(at - 1..at + 2)?;
                        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?);
                        at += 2;
                    }
                    other => bytes.push(other),
                }
            }
            other => bytes.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        quoted_names(text).into_iter().map(|quoted| quoted.name).collect()
    }

    #[test]
    fn marks_of_many_locales() {
        for (text, name) in [
            ("cannot touch 'new'", "new"),
            ("cannot create directory ‘nd’", "nd"),
            ("Verzeichnis „nd“ kann", "nd"),
            ("impossible de créer « nd »", "nd"),
            ("open `/a b/c`", "/a b/c"),
            ("file \"it's\"", "it's"),
            ("touch: cannot touch \"it's\"", "it's"),
        ] {
            assert_eq!(names(text), [name], "{text}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(names("cannot touch 'a'$'\\n''b'"), ["a\nb"]);
        assert_eq!(names("cannot touch 'it'\\''s'"), ["it's"]);
        assert_eq!(names("cannot touch ''$'\\303\\251'"), ["é"]);
    }

    #[test]
    fn words_with_apostrophes_are_no_quotes() {
        assert_eq!(names("can't create a.o, couldn't open b"), Vec::<String>::new());
        assert_eq!(names("can't open 'x'"), ["x"]);
        assert_eq!(names("unfinished 'x"), Vec::<String>::new());
    }

    #[test]
    fn two_names() {
        assert_eq!(names("cannot move 'f' to 'g'"), ["f", "g"]);
    }
}
