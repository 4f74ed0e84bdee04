//! Files that were written before and may have been changed since: the journal and the log of a session.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::journal::{Entry, FindingKind, Follow, Journal, JournalSettings, Repair, read_all, verify};
use crate::session::{SessionId, SessionStore};

/// Stands between the journal and its `.head`.
const HEAD: &[u8] = b"\n---head\n";

/// A journal with, behind a mark, its head; the same bytes are also read as the log of a session.
pub fn journal(data: &[u8]) {
    let room = room();
    let file = room.path().join("journal");
    let mark = data.windows(HEAD.len()).position(|window| window == HEAD);
    let (lines, head) = mark.map_or((data, None), |at| (&data[..at], Some(&data[at + HEAD.len()..])));
    write(&file, lines);
    if let Some(head) = head {
        write(&room.path().join("journal.head"), head);
    }
    look(&file, lines);
    // However it was damaged, it takes the next record or says that it cannot, and nothing that was there is lost.
    let settings = JournalSettings { max_bytes: 1 << 12, sync: false };
    let entry = Entry::Repaired(Repair { found: "nothing".to_owned(), torn_bytes: 0, lost: false });
    if let Ok(appended) = Journal::open(&file, settings).and_then(|journal| journal.append(None, entry)) {
        let report = verify(&file, Some(&appended.hash)).unwrap();
        assert_eq!((report.last_seq, &report.last_hash), (appended.seq, &appended.hash));
        assert!(!report.findings.iter().any(|finding| finding.kind == FindingKind::Torn), "{:?}", report.findings);
    }
    session(room.path(), lines);
}

/// The readers: every line is seen by each of them, and none of them invents one.
fn look(file: &Path, lines: &[u8]) {
    let mut read = 0_u64;
    read_all(file, |_, _| read += 1).unwrap();
    assert!(read <= lines.split(|byte| *byte == b'\n').count() as u64);
    let report = verify(file, None).unwrap();
    assert!(report.records <= read, "{report:?}");
    let mut follow = Follow::open(file, false).unwrap();
    let mut whole = 0;
    while follow.next_line().unwrap().is_some() {
        whole += 1;
    }
    assert_eq!(whole, lines.iter().filter(|byte| **byte == b'\n').count());
}

fn session(root: &Path, lines: &[u8]) {
    let store = SessionStore::at(root.join("sessions")).unwrap();
    let id: SessionId = "s".parse().unwrap();
    let log = root.join("sessions").join("s.jsonl");
    // The directory that the log names has to be there.
    let named = String::from_utf8_lossy(lines).replace("$ROOT", &root.display().to_string());
    write(&log, named.as_bytes());
    assert!(store.list().unwrap().contains(&id), "the log is where sessions are looked for");
    if let Ok(session) = store.resume(&id) {
        assert_eq!(session.id(), &id);
        let events = session.events().unwrap();
        assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq), "{events:?}");
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}

/// In memory where the host has such a place.
fn room() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let mut builder = tempfile::Builder::new();
    let built = builder.prefix("stockade-fuzz-").permissions(fs::Permissions::from_mode(0o700)).tempdir_in(&root);
    // Not every user may write there.
    built.or_else(|_| builder.tempdir()).unwrap()
}
