//! What a command writes: kept, decoded, and shown on a person's terminal.

use std::sync::Arc;

use crate::approval::{escape_block, escape_line};
use crate::output::{Capture, SpillStore, TerminalFilter};

/// Output in two pieces, cut at what the first byte says; the second byte is the budget.
pub fn output(data: &[u8]) {
    let [cut, budget, bytes @ ..] = data else { return };
    let cut = usize::from(*cut).min(bytes.len());
    screen(bytes, cut);
    kept(bytes, cut, usize::from(*budget));
    let text = String::from_utf8_lossy(bytes);
    assert!(!escape_line(&text).chars().any(char::is_control), "one line, no control characters");
    let block = escape_block(&text, "> ");
    assert!(block.lines().all(|line| line.starts_with("> ")), "{block:?}");
    assert!(!block.chars().any(|c| c.is_control() && c != '\n'), "{block:?}");
}

/// The filter before a terminal: pieces of any size say the same, and what has passed once passes as it is.
fn screen(bytes: &[u8], cut: usize) {
    let mut whole = TerminalFilter::new();
    let shown = whole.filter(bytes);
    let mut pieces = TerminalFilter::new();
    let mut joined = pieces.filter(&bytes[..cut]);
    joined.extend(pieces.filter(&bytes[cut..]));
    assert_eq!(shown, joined, "cut at {cut}");
    assert_eq!(whole.reset(), pieces.reset());
    let text = std::str::from_utf8(&shown).unwrap();
    assert!(!text.chars().any(|c| ('\u{80}'..='\u{9f}').contains(&c)), "C1 controls do not pass: {text:?}");
    for forbidden in ["\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x1b]52", "\x1b]1337"] {
        assert!(!text.contains(forbidden), "{text:?}");
    }
    assert_eq!(TerminalFilter::new().filter(&shown), shown, "{text:?}");
}

/// The tail: no byte is lost or shown twice while it fits, and no character is cut.
fn kept(bytes: &[u8], cut: usize, budget: usize) {
    let store = Arc::new(SpillStore::new(std::path::PathBuf::from("/dev/null/nowhere"), 0, false));
    let mut capture = Capture::new(budget, store, "stdout");
    let mut read = String::new();
    let mut lossy = false;
    for piece in [&bytes[..cut], &bytes[cut..]] {
        capture.push(piece);
        let fresh = capture.read_fresh();
        lossy |= fresh.lossy;
        read.push_str(&fresh.text);
    }
    let done = capture.finish();
    let last = capture.read_fresh();
    lossy |= last.lossy;
    read.push_str(&last.text);
    assert_eq!(done.bytes, bytes.len() as u64);
    if !done.truncated {
        assert_eq!(done.text, String::from_utf8_lossy(bytes));
    }
    if !lossy {
        assert_eq!(read, String::from_utf8_lossy(bytes), "cut at {cut}, budget {budget}");
    }
}
