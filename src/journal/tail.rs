//! The end of a journal file: its last whole line, and what a crash left after it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::record::{Record, hash_of};

/// How much is read at a time, from the end backwards.
const PIECE: u64 = 64 * 1024;

/// The end of one file.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Where the last whole line ends.
    pub(super) whole: u64,
    /// Bytes after it: a line that was not finished.
    pub(super) torn: u64,
    /// The last whole line, when it is a record that carries its right hash.
    pub(super) last: Option<Record>,
}

/// Looks at the end of a file.
pub(super) fn look(file: &mut File) -> io::Result<Tail> {
    let length = file.metadata()?.len();
    let Some(end) = newline_before(file, length)? else {
        return Ok(Tail { whole: 0, torn: length, last: None });
    };
    let begin = newline_before(file, end)?.map_or(0, |at| at + 1);
    file.seek(SeekFrom::Start(begin))?;
    let mut line = Vec::new();
    file.take(end - begin).read_to_end(&mut line)?;
    let read = serde_json::from_slice::<Record>(&line).ok();
    let last = read.filter(|record| hash_of(&line).as_ref() == Some(&record.hash));
    Ok(Tail { whole: end + 1, torn: length - end - 1, last })
}

/// Offset of the last newline before `end`.
fn newline_before(file: &mut File, end: u64) -> io::Result<Option<u64>> {
    let mut upper = end;
    while upper > 0 {
        let lower = upper.saturating_sub(PIECE);
        file.seek(SeekFrom::Start(lower))?;
        let mut piece = Vec::new();
        Read::by_ref(file).take(upper - lower).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(lower + u64::try_from(at).unwrap_or(0)));
        }
        upper = lower;
    }
    Ok(None)
}
