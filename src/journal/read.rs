//! Reading a journal: filters, and following it as it grows.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::{snapshot, successor};
use super::record::{Entry, Record};
use crate::policy::SandboxMode;

/// Which records to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this session only.
    pub session: Option<String>,
    /// Under this mode only.
    pub mode: Option<SandboxMode>,
    /// With denials only.
    pub denied: bool,
    /// Not before this.
    pub since: Option<Timestamp>,
}

impl Filter {
    /// Whether a record is to be shown.
    #[must_use]
    pub fn admits(&self, record: &Record) -> bool {
        let (mode, denied) = match &record.entry {
            Entry::Started(run) => (run.mode, false),
            Entry::Ended(ended) => (ended.run.mode, !ended.denials.is_empty()),
            Entry::Asked(question) => (Some(question.mode), false),
            Entry::Approval(approval) => (Some(approval.question.mode), false),
            Entry::Repaired(_) => (None, false),
        };
        self.session.as_ref().is_none_or(|wanted| record.session.as_ref() == Some(wanted))
            && self.mode.is_none_or(|wanted| mode == Some(wanted))
            && (denied || !self.denied)
            && self.since.is_none_or(|since| record.time >= since)
    }
}

/// Hands every line of a journal to `each`, oldest first; a line that is no record as the error.
///
/// # Errors
/// When a file cannot be read, or there is no journal.
pub fn read_all(journal: &Path, mut each: impl FnMut(&str, Result<Record, serde_json::Error>)) -> io::Result<()> {
    for (_, file) in snapshot(journal)?.files {
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            each(&String::from_utf8_lossy(&line), serde_json::from_slice(&line));
        }
    }
    Ok(())
}

/// The lines that are appended from now on, across rotation.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    reader: BufReader<File>,
    inode: u64,
    partial: Vec<u8>,
    /// Nothing is appended to this file any more.
    finished: bool,
}

impl Follow {
    /// Begins at the start of the journal file, or at its end.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(journal: &Path, at_end: bool) -> io::Result<Self> {
        let mut file = File::open(journal)?;
        if at_end {
            file.seek(SeekFrom::End(0))?;
        }
        let inode = file.metadata()?.ino();
        Ok(Self {
            path: journal.to_path_buf(),
            reader: BufReader::new(file),
            inode,
            partial: Vec::new(),
            finished: false,
        })
    }

    /// The next whole line that is there already.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.reader.read_until(b'\n', &mut self.partial)? > 0 {
                if self.partial.last() == Some(&b'\n') {
                    self.partial.pop();
                    return Ok(Some(std::mem::take(&mut self.partial)));
                }
                continue;
            }
            // At the end of this file. When there is a next one, this one was finished before that was begun, and what was
            // appended between the look at its end and the look for the next is read before going on.
            if self.finished {
                let Some(fresh) = successor(&self.path, self.inode)? else { return Ok(None) };
                self.inode = fresh.metadata()?.ino();
                self.reader = BufReader::new(fresh);
                self.partial.clear();
                self.finished = false;
            } else if successor(&self.path, self.inode)?.is_some() {
                self.finished = true;
            } else {
                return Ok(None);
            }
        }
    }
}
