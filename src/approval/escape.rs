//! Showing text from elsewhere so that it cannot act on a terminal, forge a line, or read in another order than it is.

#![forbid(unsafe_code)]

use std::fmt::Write;

/// `text` on one line: control, direction and invisible characters appear as `\n`, `\t`, `\r` or `\u{..}`.
///
/// A backslash stays as it is, so that ordinary paths can be copied; text that spells an escape out looks like one, but
/// never the other way round.
#[must_use]
pub fn escape_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| push(&mut shown, c));
    shown
}

/// `text` with every line behind `prefix`, escaped like [`escape_line`].
#[must_use]
pub fn escape_block(text: &str, prefix: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| format!("{prefix}{}", escape_line(line))).collect();
    lines.join("\n")
}

fn push(shown: &mut String, c: char) {
    match c {
        '\n' => shown.push_str("\\n"),
        '\t' => shown.push_str("\\t"),
        '\r' => shown.push_str("\\r"),
        c if c.is_control() || unseen(c) => {
            // Writing to a String cannot fail.
            let written = write!(shown, "\\u{{{:x}}}", u32::from(c));
            debug_assert!(written.is_ok(), "formatting into a String failed");
        }
        c => shown.push(c),
    }
}

/// Unicode's format characters (general category Cf), separators that break lines, and the fillers that show as nothing.
fn unseen(c: char) -> bool {
    matches!(u32::from(c),
        0xAD | 0x34F | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2 | 0x115F..=0x1160 | 0x17B4..=0x17B5
        | 0x180B..=0x180F | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF
        | 0xFFA0 | 0xFFF9..=0xFFFB | 0x110BD | 0x110CD | 0x13430..=0x1345F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_or_hides_comes_through() {
        for (given, shown) in [
            ("plain /a/ü b\\c", "plain /a/ü b\\c"),
            ("a\n[exit code: 0]", "a\\n[exit code: 0]"),
            ("\x1b]52;c;AAAA\x07", "\\u{1b}]52;c;AAAA\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("a\u{200b}b\u{2028}c\u{e0041}", "a\\u{200b}b\\u{2028}c\\u{e0041}"),
            ("\r\t\0\u{7f}", "\\r\\t\\u{0}\\u{7f}"),
        ] {
            assert_eq!(escape_line(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_block_keeps_its_lines_behind_the_prefix() {
        assert_eq!(escape_block("a\nb\r\n", "| "), "| a\n| b\\r\n| ");
    }
}
