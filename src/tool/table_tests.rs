//! The table of background tasks under threads; `tests/interleavings.rs` tries every order of a few steps.

use std::sync::Arc;
use std::thread;

use super::TaskStatus;
use super::table::TaskTable;
use super::talker::Talker;
use crate::executor::BashProcess as _;

/// Two readers, the process and the one who notes its end, in whatever order threads come: no byte is read twice, and
/// none is lost without being said. The table has one lock and takes no other under it.
#[test]
fn output_is_read_once_by_whoever_comes() {
    let mut lost = 0;
    for round in 0..600_u64 {
        let (table, talker) = (TaskTable::default(), Arc::new(Talker::default()));
        let id = table.insert("talk", Arc::clone(&talker) as _);
        // Others that have ended unread, so that noting one more drops some.
        for _ in 0..round % 40 {
            let other = Arc::new(Talker::default());
            other.end();
            let id = table.insert("other", Arc::clone(&other) as _);
            table.finished(&id, &other.status());
        }
        let read = |until_it_ends: bool| {
            let (mut bytes, mut lossy) = (0, false);
            loop {
                let Ok((read, _)) = table.read(&id) else { return (bytes, lossy) };
                bytes += read.stdout.len() as u64;
                lossy |= read.lossy;
                if !until_it_ends || read.status != TaskStatus::Running {
                    return (bytes, lossy);
                }
            }
        };
        let (first, second) = thread::scope(|scope| {
            let readers = [scope.spawn(|| read(true)), scope.spawn(|| read(true))];
            scope.spawn(|| {
                (0..20).for_each(|_| talker.say());
                talker.end();
                assert!(table.finished(&id, &talker.status()).is_some());
            });
            let [first, second] = readers.map(|reader| reader.join().unwrap());
            (first, second)
        });
        let last = read(false);
        let bytes = first.0 + second.0 + last.0;
        assert!(bytes == 20 || (bytes < 20 && (first.1 || second.1 || last.1)), "round {round}: {bytes} of 20");
        lost += u64::from(bytes < 20);
        assert_ne!(table.insert("next", Arc::clone(&talker) as _), id);
    }
    assert!(lost < 600, "most are read to their end");
}
