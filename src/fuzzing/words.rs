//! What the kernel's audit records and a command's standard error say.

use crate::denial::audit::parser::{self, Joiner, LANDLOCK_ACCESS, LANDLOCK_DOMAIN, SECCOMP, SYSCALL};
use crate::denial::stderr::{Subject, read_messages};

/// Record types by the first byte of a line.
const KINDS: [u16; 5] = [LANDLOCK_ACCESS, LANDLOCK_DOMAIN, SECCOMP, SYSCALL, parser::END_OF_EVENT];

/// Audit records, one a line; the first byte of each chooses its type.
pub fn audit(data: &[u8]) {
    let mut joiner = Joiner::default();
    let mut records = 0;
    let mut joined = 0;
    for line in data.split(|byte| *byte == b'\n') {
        let Some((kind, text)) = line.split_first() else { continue };
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let Some(record) = parser::parse(kind, text) else { continue };
        assert!(record.fields.iter().all(|(name, _)| !name.contains(['=', ' '])), "{record:?}");
        assert!(parser::domain(&record).is_none() || kind == LANDLOCK_DOMAIN);
        records += usize::from(kind != parser::END_OF_EVENT);
        joined += joiner.add(record).iter().map(|event| check(event)).sum::<usize>();
    }
    joined += joiner.flush().iter().map(|event| check(event)).sum::<usize>();
    assert!(joined <= records, "{joined} records in events, of {records} read");
}

/// Reads the refusals of one event; returns its length.
fn check(event: &[parser::Record]) -> usize {
    assert!(event.iter().all(|record| record.serial == event[0].serial), "an event has one serial number: {event:?}");
    let refusals = parser::refusals(event);
    assert!(refusals.len() <= event.len());
    event.len()
}

/// Standard error of a command.
pub fn stderr(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    for mention in read_messages(data) {
        assert!(mention.line < lines, "{mention:?}");
        let named = |name: &str| !name.is_empty() && !name.contains('\0');
        match &mention.subject {
            Subject::Path(path) => assert!(named(path), "{mention:?}"),
            Subject::Two(from, to) => assert!(named(from) && named(to), "{mention:?}"),
            Subject::Host { host, .. } => assert!(named(host), "{mention:?}"),
            Subject::InCommand | Subject::Nothing => {}
        }
    }
    crate::denial::fuzz_peers(&String::from_utf8_lossy(data));
}
