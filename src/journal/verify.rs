//! Looking for edits, losses and reorderings, and saying where.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::{head_path, snapshot};
use super::record::{Entry, GENESIS, Record, hash_of};
use super::store::Head;

/// What was found of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyReport {
    /// Its files, oldest first.
    pub files: Vec<PathBuf>,
    /// Lines that are records and carry their right hash.
    pub records: u64,
    /// Number of the last record.
    pub last_seq: u64,
    /// Its hash: kept elsewhere, it proves later that everything up to here is unchanged.
    pub last_hash: String,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What is worth knowing and not wrong: repairs after a crash.
    pub notes: Vec<String>,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// In which file.
    pub file: PathBuf,
    /// At which line, from 1.
    pub line: u64,
    /// In words.
    pub what: String,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A line does not carry the hash of its content, or is no record at all.
    Edited,
    /// Records are missing before this line, or at the end.
    Lost,
    /// A record stands where it does not belong.
    Reordered,
    /// A record carries its right hash and does not follow the one before: one of the two was written anew.
    Rewritten,
    /// The last line is not finished: a crash, repaired by the next append.
    Torn,
}

impl FindingKind {
    /// The word in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Lost => "lost",
            Self::Reordered => "reordered",
            Self::Rewritten => "rewritten",
            Self::Torn => "torn",
        }
    }
}

/// Reads the whole journal, rotated files included. `known` is a hash that an earlier check ended with, which must
/// still be there.
///
/// # Errors
/// When a file cannot be read, or there is no journal.
pub fn verify(journal: &Path, known: Option<&str>) -> io::Result<VerifyReport> {
    let snapshot = snapshot(journal)?;
    let mut check = Check::new(snapshot.head.as_deref().and_then(Head::read), known);
    let mut files = Vec::with_capacity(snapshot.files.len());
    for (path, file) in snapshot.files {
        check.file(&path, BufReader::new(file))?;
        files.push(path);
    }
    check.end(journal);
    Ok(VerifyReport { files, ..check.report })
}

struct Check<'a> {
    report: VerifyReport,
    head: Option<Head>,
    /// The head's record was met and carries the head's hash.
    head_met: bool,
    known: Option<&'a str>,
    known_met: bool,
    last: Place,
}

#[derive(Default)]
struct Place {
    file: PathBuf,
    line: u64,
}

impl<'a> Check<'a> {
    fn new(head: Option<Head>, known: Option<&'a str>) -> Self {
        let head_met = head.as_ref().is_some_and(|head| head.seq == 0);
        let report = VerifyReport { last_hash: GENESIS.to_owned(), ..VerifyReport::default() };
        Self { report, head, head_met, known, known_met: false, last: Place::default() }
    }

    fn file(&mut self, path: &Path, mut reader: impl BufRead) -> io::Result<()> {
        self.last = Place { file: path.to_path_buf(), line: 0 };
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            self.last.line += 1;
            if line.last() == Some(&b'\n') {
                line.pop();
                self.line(&line);
            } else {
                self.find(FindingKind::Torn, "the last line is not finished: a crash, or somebody cut it".to_owned());
            }
            line.clear();
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        let record = serde_json::from_slice::<Record>(line);
        // A number that nothing can follow was written by hand; what comes after it is out of place all the same.
        let expected = self.report.last_seq.saturating_add(1);
        let record = match record {
            Ok(record) if hash_of(line).as_ref() == Some(&record.hash) => record,
            Ok(record) => {
                self.find(FindingKind::Edited, format!("record {} was changed after it was written", record.seq));
                // Its neighbours still tell whether it stands in its place.
                self.step_over(&record, expected);
                return;
            }
            Err(error) => {
                self.find(FindingKind::Edited, format!("this is no record ({error}); record {expected} belongs here"));
                self.report.last_seq = expected;
                self.report.last_hash.clear();
                return;
            }
        };
        self.report.records += 1;
        self.place(&record, expected);
        self.known_met |= self.known == Some(record.hash.as_str());
        self.head_met |= self.head.as_ref().is_some_and(|head| head.seq == record.seq && head.hash == record.hash);
        if let Entry::Repaired(repair) = &record.entry {
            if repair.lost {
                self.find(FindingKind::Lost, format!("recorded when the journal was next used: {}", repair.found));
            } else {
                self.report.notes.push(format!("record {}: {}", record.seq, repair.found));
            }
        }
        (self.report.last_seq, self.report.last_hash) = (record.seq, record.hash);
    }

    fn step_over(&mut self, record: &Record, expected: u64) {
        self.place(record, expected);
        (self.report.last_seq, self.report.last_hash) = (record.seq, record.hash.clone());
    }

    /// Whether a record stands where its number and its `prev` say.
    fn place(&mut self, record: &Record, expected: u64) {
        let follows = record.prev == self.report.last_hash || self.report.last_hash.is_empty();
        if record.seq > expected {
            let what = match record.seq - expected {
                1 => format!("record {expected} is missing before this one"),
                _ => format!("records {expected} to {} are missing before this one", record.seq - 1),
            };
            self.find(FindingKind::Lost, what);
        } else if record.seq < expected {
            let what = format!("record {} stands here, where record {expected} belongs", record.seq);
            self.find(FindingKind::Reordered, what);
        } else if !follows {
            let what =
                format!("record {} does not follow record {}: one of them was written anew", record.seq, expected - 1);
            self.find(FindingKind::Rewritten, what);
        }
    }

    /// What only the end tells: records that the head knows and the files do not.
    fn end(&mut self, journal: &Path) {
        let last = self.report.last_seq;
        match self.head.clone() {
            None => self.find(
                FindingKind::Lost,
                format!(
                    "{} is gone or unreadable, so nobody can tell whether records are missing after {last}",
                    head_path(journal).display()
                ),
            ),
            Some(head) if head.seq > last => {
                let what = format!("the journal ended at record {}, and ends at record {last} now", head.seq);
                self.find(FindingKind::Lost, what);
            }
            // A crash after a record and before its head leaves one record more.
            Some(head) if head.seq.saturating_add(1) < last => {
                let what = format!("records after {} were not written by a journal", head.seq);
                self.find(FindingKind::Rewritten, what);
            }
            Some(head) if !self.head_met => {
                self.find(FindingKind::Rewritten, format!("record {} is not the one that was written", head.seq));
            }
            Some(_) => {}
        }
        if let Some(known) = self.known.filter(|_| !self.known_met) {
            self.find(FindingKind::Lost, format!("no record carries the hash {known}"));
        }
    }

    fn find(&mut self, kind: FindingKind, what: String) {
        let finding = Finding { kind, file: self.last.file.clone(), line: self.last.line, what };
        self.report.findings.push(finding);
    }
}
