//! The log itself: appended to, never rewritten, but for cutting off a line that a crash tore.
//!
//! An event counts once its newline is in the file. A failed append is undone, so that the next one never continues a
//! half-written line.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};

use super::{EventRecord, SessionError, SessionEvent};

/// Version of the format written here.
pub(super) const FORMAT: u32 = 1;

/// What was cut off the end of a log that a crash had torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes cut off.
    pub dropped: u64,
}

#[derive(Debug)]
pub(super) struct EventLog {
    next_seq: u64,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Memory(Vec<EventRecord>),
    File { path: PathBuf, file: Flock<File>, len: u64, broken: bool },
}

impl EventLog {
    pub(super) fn memory() -> Self {
        Self { next_seq: 1, sink: Sink::Memory(Vec::new()) }
    }

    /// Takes over an open file and its lock, handing every event in it to `seen`; cuts off a torn last line.
    pub(super) fn open(
        path: &Path,
        file: File,
        mut seen: impl FnMut(EventRecord),
    ) -> Result<(Self, Option<Recovered>), SessionError> {
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => SessionError::Busy { path: path.to_owned() },
            other => SessionError::io(format!("locking {}", path.display()), other),
        })?;
        let scan = scan(path, &mut file, &mut seen)?;
        if scan.torn > 0 {
            file.set_len(scan.len)
                .and_then(|()| file.sync_data())
                .map_err(|source| SessionError::io(format!("cutting the torn line off {}", path.display()), source))?;
        }
        let recovered = (scan.torn > 0).then_some(Recovered { dropped: scan.torn });
        let sink = Sink::File { path: path.to_owned(), file, len: scan.len, broken: false };
        Ok((Self { next_seq: scan.events + 1, sink }, recovered))
    }

    /// Writes one event; `durable` waits until it is on the disk.
    pub(super) fn append(&mut self, event: &SessionEvent, durable: bool) -> Result<(), SessionError> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let record = EventRecord { seq: self.next_seq, at, event: event.clone() };
        match &mut self.sink {
            Sink::Memory(events) => events.push(record),
            Sink::File { path, file, len, broken } => {
                if *broken {
                    return Err(SessionError::Broken { path: path.clone() });
                }
                let mut line = serde_json::to_vec(&record)
                    .map_err(|source| SessionError::io("writing an event as JSON", source))?;
                line.push(b'\n');
                let written = file.write_all(&line).and_then(|()| if durable { file.sync_data() } else { Ok(()) });
                if let Err(source) = written {
                    *broken = file.set_len(*len).is_err();
                    return Err(SessionError::io(format!("appending to {}", path.display()), source));
                }
                *len += line.len() as u64;
            }
        }
        self.next_seq += 1;
        Ok(())
    }

    pub(super) fn read_all(&mut self) -> Result<Vec<EventRecord>, SessionError> {
        match &mut self.sink {
            Sink::Memory(events) => Ok(events.clone()),
            Sink::File { path, file, .. } => {
                let mut events = Vec::new();
                scan(path, file, &mut |record| events.push(record))?;
                Ok(events)
            }
        }
    }
}

struct Scan {
    events: u64,
    len: u64,
    torn: u64,
}

/// Reads from the start to the last complete line. A complete line that is no event, or out of sequence, is damage.
fn scan(path: &Path, file: &mut File, seen: &mut dyn FnMut(EventRecord)) -> Result<Scan, SessionError> {
    let reading = |source| SessionError::io(format!("reading {}", path.display()), source);
    file.seek(SeekFrom::Start(0)).map_err(reading)?;
    let mut reader = BufReader::new(file);
    let mut found = Scan { events: 0, len: 0, torn: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = reader.read_until(b'\n', &mut line).map_err(reading)? as u64;
        if line.pop() != Some(b'\n') {
            found.torn = n;
            return Ok(found);
        }
        let damaged = |reason| SessionError::Damaged { path: path.to_owned(), line: found.events + 1, reason };
        let record: EventRecord = serde_json::from_slice(&line).map_err(|source| damaged(source.to_string()))?;
        if record.seq != found.events + 1 {
            return Err(damaged(format!("event {} stands where {} belongs", record.seq, found.events + 1)));
        }
        found.events += 1;
        found.len += n;
        seen(record);
    }
}
