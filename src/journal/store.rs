//! Appending: one writer at a time, every record on disk before the call returns, a torn line of a crash repaired.
//!
//! Knobs are in [`JournalSettings`]. Fails closed: what cannot be recorded is an error, and the caller runs nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg, OFlag};
use serde::{Deserialize, Serialize};

use super::files::{directory, head_path, rotated, rotated_path};
use super::record::{Entry, GENESIS, Record, Repair, seal};
use super::tail;

/// Why a journal cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The kernel refused.
    #[error("journal {path}: {doing}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("journal {path}: its last line is no record of a journal; give another file")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The record could not be written as JSON.
    #[error("journal {path}: the record cannot be written: {source}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// The knobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalSettings {
    /// A journal that would grow beyond this is rotated first, bytes.
    pub max_bytes: u64,
    /// Wait until each record is on the disk, so that it survives a loss of power too.
    pub sync: bool,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, sync: true }
    }
}

/// A journal to append to. Any number of them, in any number of processes, may share one file.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
    settings: JournalSettings,
}

/// What `FILE.head` says: where the journal ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) hash: String,
    /// Length of the journal file.
    pub(super) bytes: u64,
}

impl Head {
    /// What a head file says; `None` when it is new or unreadable.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        // A hash that is none, or a number that nothing can follow, was written by somebody else.
        serde_json::from_slice(text).ok().filter(|head: &Self| head.seq < u64::MAX && head.hash.len() == GENESIS.len())
    }

    pub(super) fn start() -> Self {
        Self { seq: 0, hash: GENESIS.to_owned(), bytes: 0 }
    }
}

impl Journal {
    /// Opens or creates a journal, readable by its owner alone, and repairs what a crash left.
    ///
    /// # Errors
    /// When it cannot be opened, or holds something else.
    pub fn open(path: impl Into<PathBuf>, settings: JournalSettings) -> Result<Self, JournalError> {
        let journal = Self { path: path.into(), settings };
        let lock = journal.lock()?;
        let mut file = journal.file()?;
        let head = journal.recover(&lock, &mut file)?;
        journal.write_head(&lock, &head)?;
        Ok(journal)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record and returns it as written.
    ///
    /// # Errors
    /// When it cannot be written. Then nothing of it counts.
    pub fn append(&self, session: Option<&str>, entry: Entry) -> Result<Record, JournalError> {
        let lock = self.lock()?;
        let mut file = self.file()?;
        let mut head = self.recover(&lock, &mut file)?;
        let record = self.write(&mut file, &mut head, session, entry)?;
        self.write_head(&lock, &head)?;
        Ok(record)
    }

    /// Waits for the lock, which lies in the head so that it outlives rotation.
    fn lock(&self) -> Result<Flock<File>, JournalError> {
        let head = head_path(&self.path);
        let opened = options().open(&head).map_err(self.io("its .head file cannot be opened"))?;
        Flock::lock(opened, FlockArg::LockExclusive).map_err(|(_, errno)| self.io("it cannot be locked")(errno.into()))
    }

    fn file(&self) -> Result<File, JournalError> {
        options().append(true).open(&self.path).map_err(self.io("it cannot be opened"))
    }

    /// Where the journal ends, after making good what a crash left.
    fn recover(&self, lock: &Flock<File>, file: &mut File) -> Result<Head, JournalError> {
        let told = read_head(lock).map_err(self.io("its .head file cannot be read"))?;
        let length = file.metadata().map_err(self.io("it cannot be looked at"))?.len();
        if let Some(head) = told.as_ref().filter(|head| head.bytes == length)
            && ends_a_line(file, length).map_err(self.io("it cannot be read"))?
        {
            return Ok(head.clone());
        }
        let tail = tail::look(file).map_err(self.io("it cannot be read"))?;
        let damaged = tail.last.is_none() && tail.whole > 0;
        let found = match (tail.last, &told) {
            (Some(record), _) => Head { seq: record.seq, hash: record.hash, bytes: tail.whole },
            (None, Some(told)) if damaged => Head { bytes: tail.whole, ..told.clone() },
            (None, None) if damaged => return Err(JournalError::Foreign { path: self.path.clone() }),
            (None, _) => self.end_of_rotated()?,
        };
        if tail.torn > 0 {
            file.set_len(tail.whole).map_err(self.io("an unfinished line cannot be cut off"))?;
        }
        let repair = if damaged {
            let found = "its last line is not the record that was written".to_owned();
            Some(Repair { found, torn_bytes: tail.torn, lost: true })
        } else {
            repair(told.as_ref(), &found, tail.torn)
        };
        let mut head = found;
        if let Some(repair) = repair {
            self.write(file, &mut head, None, Entry::Repaired(repair))?;
        }
        Ok(head)
    }

    /// The end of the newest rotated file: a crash between renaming and writing leaves no journal file.
    fn end_of_rotated(&self) -> Result<Head, JournalError> {
        let numbers = rotated(&self.path).map_err(self.io("its directory cannot be read"))?;
        let Some(newest) = numbers.last() else { return Ok(Head::start()) };
        let mut file = File::open(rotated_path(&self.path, *newest)).map_err(self.io("a rotated file"))?;
        let tail = tail::look(&mut file).map_err(self.io("a rotated file cannot be read"))?;
        Ok(tail.last.map_or_else(Head::start, |record| Head { seq: record.seq, hash: record.hash, bytes: 0 }))
    }

    fn write(
        &self,
        file: &mut File,
        head: &mut Head,
        session: Option<&str>,
        entry: Entry,
    ) -> Result<Record, JournalError> {
        let mut record = Record {
            seq: head.seq.checked_add(1).ok_or_else(|| JournalError::Foreign { path: self.path.clone() })?,
            time: Timestamp::now(),
            session: session.map(str::to_owned),
            entry,
            prev: head.hash.clone(),
            hash: String::new(),
        };
        let encode = |source| JournalError::Encode { path: self.path.clone(), source };
        let mut line = seal(&mut record).map_err(encode)?;
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if head.bytes > 0 && head.bytes.saturating_add(length) > self.settings.max_bytes {
            *file = self.rotate()?;
            head.bytes = 0;
        }
        let written = file.write_all(&line).and_then(|()| if self.settings.sync { file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // A disk that is full must not leave half a line for the next writer to explain.
            if let Err(error) = file.set_len(head.bytes) {
                tracing::warn!(%error, "half a journal line stays until the next append");
            }
            return Err(self.io("the record cannot be written")(error));
        }
        *head = Head { seq: record.seq, hash: record.hash.clone(), bytes: head.bytes + length };
        Ok(record)
    }

    fn rotate(&self) -> Result<File, JournalError> {
        let numbers = rotated(&self.path).map_err(self.io("its directory cannot be read"))?;
        // Nothing is ever written over.
        let next = numbers.last().map_or(Some(1), |last| last.checked_add(1));
        let next =
            next.ok_or_else(|| self.io("there is no number left to rotate it to")(io::ErrorKind::Other.into()))?;
        let renamed = std::fs::rename(&self.path, rotated_path(&self.path, next));
        renamed.map_err(self.io("the full file cannot be renamed"))?;
        let fresh = self.file()?;
        if self.settings.sync {
            let synced = File::open(directory(&self.path)).and_then(|directory| directory.sync_all());
            synced.map_err(self.io("its directory cannot be synced"))?;
        }
        Ok(fresh)
    }

    fn write_head(&self, lock: &Flock<File>, head: &Head) -> Result<(), JournalError> {
        let encode = |source| JournalError::Encode { path: self.path.clone(), source };
        let mut text = serde_json::to_vec(head).map_err(encode)?;
        // One write of one sector: it is there or it is not.
        text.resize(text.len().max(HEAD_BYTES - 1), b' ');
        text.push(b'\n');
        let written = lock.write_all_at(&text, 0).and_then(|()| {
            // Somebody else's longer text would make the whole unreadable.
            let length = text.len() as u64;
            if lock.metadata()?.len() > length { lock.set_len(length) } else { Ok(()) }
        });
        written.map_err(self.io("its .head file cannot be written"))
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(io::Error) -> JournalError {
        let path = self.path.clone();
        move |source| JournalError::Io { path, doing, source }
    }
}

/// Length of the head file: fixed, so that a shorter head leaves nothing of a longer one.
const HEAD_BYTES: usize = 160;

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// Whether a record can be put behind what is there: somebody may have changed it and kept its length.
fn ends_a_line(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok(last == [b'\n'])
}

/// What the head says; `None` when it is new or unreadable.
pub(super) fn read_head(head: &File) -> io::Result<Option<Head>> {
    let mut bytes = [0_u8; 4096];
    let length = head.read_at(&mut bytes, 0)?;
    Ok(Head::read(&bytes[..length]))
}

/// What to say of an end that is not where the head put it; `None` when all is well but for the head.
fn repair(told: Option<&Head>, found: &Head, torn: u64) -> Option<Repair> {
    let lost = match told {
        Some(told) if told.seq > found.seq => {
            Some(format!("the journal ended at record {} and now ends at record {}", told.seq, found.seq))
        }
        Some(told) if told.seq == found.seq && told.hash != found.hash => {
            Some(format!("record {} is not the one that was written", told.seq))
        }
        None if found.seq > 0 => Some(format!("the .head file is gone or unreadable at record {}", found.seq)),
        _ => None,
    };
    let (lost, found) = match (lost, torn) {
        (Some(found), _) => (true, found),
        (None, 0) => return None,
        (None, torn) => (false, format!("an unfinished last line of {torn} bytes, left by a crash, was cut off")),
    };
    Some(Repair { found, torn_bytes: torn, lost })
}
