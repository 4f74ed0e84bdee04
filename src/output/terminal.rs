//! What a confined program may say to a person's terminal.
//!
//! Text, colours, cursor movement and screen modes pass. Sequences that act outside the screen do not: device control
//! (DCS), application, privacy and start-of-string sequences, printing (`CSI i`), and operating-system commands (OSC) but
//! for a list of harmless ones. A list of what passes, because OSC 52 is not the only way to the clipboard (1337, 5522),
//! and others open files, notify or change fonts.
//!
//! A sequence is held back until it is complete, and passes whole or not at all, so that nothing dropped between two
//! halves can join them. Input that is no UTF-8 becomes U+FFFD: a terminal would take such bytes for C1 controls.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

/// Operating-system commands that pass: titles (0, 1, 2), colours (4, 5, 10 to 19, 104, 105, 110 to 119), the directory
/// (7), links (8) and prompt marks (133).
const PASSING_OSC: [std::ops::RangeInclusive<u32>; 7] = [0..=2, 4..=5, 7..=8, 10..=19, 104..=105, 110..=119, 133..=133];

/// Longest sequence that is held back; a longer one is dropped.
const LONGEST: usize = 4096;

/// Private modes that a program may leave set and a person would suffer from: application cursor keys, mouse reports,
/// focus reports, the alternate screen, bracketed paste.
const SUFFERED: [u32; 12] = [1, 9, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1047, 1049, 2004];

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte (character sets).
    Intermediate,
    /// Within a control sequence.
    Control,
    /// Within an operating-system command.
    Command,
    /// Within a string that is dropped.
    Dropped,
}

/// A filter between a confined program and a person's terminal. Feed it output in pieces of any size.
#[derive(Debug, Clone, Default)]
pub struct TerminalFilter {
    state: State,
    /// The sequence so far.
    held: Vec<u8>,
    /// ESC came within a string: a backslash ends it.
    string_escape: bool,
    /// Bytes of an unfinished character.
    partial: Vec<u8>,
    /// Private modes that are set now.
    set: BTreeSet<u32>,
    cursor_hidden: bool,
}

impl TerminalFilter {
    /// A filter at the beginning of output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What of `bytes`, and of what was held back, may be shown now.
    #[must_use]
    pub fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.decode(*byte, &mut shown);
        }
        shown
    }

    /// Sequences that undo the modes a program left set: for the end of a session.
    #[must_use]
    pub fn reset(&self) -> Vec<u8> {
        let mut reset: Vec<u8> = self.set.iter().flat_map(|mode| format!("\x1b[?{mode}l").into_bytes()).collect();
        if self.cursor_hidden {
            reset.extend_from_slice(b"\x1b[?25h");
        }
        reset
    }

    /// Puts characters together and hands on one at a time.
    fn decode(&mut self, byte: u8, shown: &mut Vec<u8>) {
        if self.partial.is_empty() && byte < 0x80 {
            return self.character(&[byte], shown);
        }
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(_) => {
                let whole = std::mem::take(&mut self.partial);
                self.character(&whole, shown);
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                let broken = std::mem::take(&mut self.partial);
                self.character(REPLACEMENT, shown);
                // The byte that broke a character may begin the next one.
                if broken.len() > 1 {
                    self.decode(byte, shown);
                }
            }
        }
    }

    /// One character; C1 controls, two bytes in UTF-8, mean the same as ESC and a letter.
    fn character(&mut self, character: &[u8], shown: &mut Vec<u8>) {
        match *character {
            [0xc2, c1 @ 0x80..=0x9f] if matches!(self.state, State::Command | State::Dropped) => {
                if c1 == 0x9c {
                    self.end_string(b"\x1b\\", shown);
                } else {
                    self.begin();
                    self.escape(c1 - 0x40, shown);
                }
            }
            [0xc2, c1 @ 0x80..=0x9f] => {
                self.begin();
                self.escape(c1 - 0x40, shown);
            }
            [byte] => self.byte(byte, shown),
            _ => self.other(character, shown),
        }
    }

    fn begin(&mut self) {
        self.held.clear();
        self.held.push(ESC);
        self.string_escape = false;
        self.state = State::Escape;
    }

    fn finish(&mut self, shown: &mut Vec<u8>) {
        shown.append(&mut self.held);
        self.state = State::Text;
    }

    fn drop_sequence(&mut self) {
        self.held.clear();
        self.string_escape = false;
        self.state = State::Text;
    }

    fn byte(&mut self, byte: u8, shown: &mut Vec<u8>) {
        match (self.state, byte) {
            (State::Command | State::Dropped, _) => self.in_string(byte, shown),
            // Whatever was begun is given up.
            (_, ESC) => self.begin(),
            (State::Text, _) => shown.push(byte),
            (_, CAN | SUB) => self.drop_sequence(),
            // Other controls act at once, even within a sequence.
            (_, 0x00..=0x1f) => shown.push(byte),
            (State::Escape, _) => self.escape(byte, shown),
            (State::Intermediate, _) => {
                self.hold(&[byte]);
                if byte >= 0x30 {
                    self.finish(shown);
                }
            }
            (State::Control, _) => {
                self.hold(&[byte]);
                if (0x40..=0x7e).contains(&byte) {
                    self.end_control(byte, shown);
                }
            }
        }
    }

    /// The byte after ESC.
    fn escape(&mut self, byte: u8, shown: &mut Vec<u8>) {
        self.held.push(byte);
        match byte {
            b'[' => self.state = State::Control,
            b']' => self.state = State::Command,
            b'P' | b'X' | b'^' | b'_' => {
                self.held.clear();
                self.state = State::Dropped;
            }
            0x20..=0x2f => self.state = State::Intermediate,
            // A string terminator with no string before it.
            b'\\' => self.drop_sequence(),
            _ => self.finish(shown),
        }
    }

    fn in_string(&mut self, byte: u8, shown: &mut Vec<u8>) {
        if std::mem::take(&mut self.string_escape) {
            if byte == b'\\' {
                return self.end_string(b"\x1b\\", shown);
            }
            // ESC and anything else ends the string and begins a sequence.
            self.begin();
            return self.byte(byte, shown);
        }
        match byte {
            ESC => self.string_escape = true,
            BEL => self.end_string(&[BEL], shown),
            CAN | SUB => self.drop_sequence(),
            _ if self.state == State::Command => self.hold(&[byte]),
            _ => {}
        }
    }

    /// A character of several bytes.
    fn other(&mut self, character: &[u8], shown: &mut Vec<u8>) {
        match self.state {
            State::Text => shown.extend_from_slice(character),
            State::Command if !self.string_escape => self.hold(character),
            State::Dropped if !self.string_escape => {}
            // No sequence has one: it is given up, and the character shown.
            _ => {
                self.drop_sequence();
                shown.extend_from_slice(character);
            }
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.held.len() + bytes.len() > LONGEST {
            self.held.clear();
            // The rest of a string is dropped up to its end; of a control sequence, it is text.
            self.state = if self.state == State::Command { State::Dropped } else { State::Text };
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    fn end_string(&mut self, terminator: &[u8], shown: &mut Vec<u8>) {
        let passes = self.state == State::Command && passes(&self.held[2..]);
        if passes {
            self.held.extend_from_slice(terminator);
            self.finish(shown);
        } else {
            self.drop_sequence();
        }
    }

    fn end_control(&mut self, last: u8, shown: &mut Vec<u8>) {
        if self.state != State::Control || last == b'i' {
            return self.drop_sequence();
        }
        if matches!(last, b'h' | b'l') && self.held.get(2) == Some(&b'?') {
            self.note_modes(last == b'h');
        }
        self.finish(shown);
    }

    fn note_modes(&mut self, set: bool) {
        let parameters = String::from_utf8_lossy(&self.held[3..self.held.len() - 1]).into_owned();
        for mode in parameters.split(';').filter_map(|mode| mode.parse().ok()) {
            if mode == 25 {
                self.cursor_hidden = !set;
            } else if !set {
                self.set.remove(&mode);
            } else if SUFFERED.contains(&mode) {
                self.set.insert(mode);
            }
        }
    }
}

/// Whether an operating-system command passes: by its number, which stands first.
fn passes(command: &[u8]) -> bool {
    let digits = command.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ends = matches!(command.get(digits), None | Some(b';'));
    let number = std::str::from_utf8(&command[..digits]).ok().and_then(|text| text.parse::<u32>().ok());
    ends && number.is_some_and(|number| PASSING_OSC.iter().any(|range| range.contains(&number)))
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
