//! Readers, a process that writes and ends, and whoever notes its end.

use std::sync::Arc;

use loom::thread;

use stockade::tool::{TaskRead, TaskStatus};

use crate::every_order;
use crate::executor::BashProcess as _;

use table::TaskTable;
use talker::Talker;

mod locks {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}
#[path = "../../src/tool/marker.rs"]
mod marker;
#[path = "../../src/tool/table.rs"]
mod table;
#[path = "../../src/tool/talker.rs"]
mod talker;

fn bytes(table: &TaskTable, id: &str) -> (usize, TaskStatus) {
    let (read, _) = table.read(id).unwrap();
    assert!(!read.lossy, "nothing was dropped");
    (read.stdout.len(), read.status)
}

/// Whoever reads, and whenever the process ends: each byte is read exactly once, and who is told that it has ended has
/// been given, with those before, all there is.
#[test]
fn a_byte_is_read_once_and_before_the_end_is_told() {
    every_order(|| {
        let table = Arc::new(TaskTable::default());
        let talker = Arc::new(Talker::default());
        let id = table.insert("talk", Arc::clone(&talker) as _);
        let reader = {
            let (table, id) = (Arc::clone(&table), id.clone());
            thread::spawn(move || bytes(&table, &id))
        };
        let process = {
            let (table, id) = (Arc::clone(&table), id.clone());
            thread::spawn(move || {
                talker.say();
                talker.end();
                assert!(table.finished(&id, &talker.status()).is_some());
            })
        };
        let (first, status) = reader.join().unwrap();
        assert!(first == 1 || status == TaskStatus::Running, "told of the end, and not of its last byte");
        process.join().unwrap();
        let (second, status) = bytes(&table, &id);
        assert_eq!(first + second, 1);
        assert_ne!(status, TaskStatus::Running);
        assert_eq!(table.counts(), (1, 0), "a task that has been read to its end holds no process");
    });
}

/// Two that start and one that ends a session: ids differ, and nothing of the session is left that came before its end.
#[test]
fn ids_are_given_once_while_sessions_end() {
    every_order(|| {
        let table = Arc::new(TaskTable::default());
        let before = table.insert("before", Arc::new(Talker::default()) as _);
        let starting = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.insert("one", Arc::new(Talker::default()) as _))
        };
        let ending = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.forget("a"))
        };
        table.reserve(7);
        let mine = table.insert("two", Arc::new(Talker::default()) as _);
        let theirs = starting.join().unwrap();
        ending.join().unwrap();
        assert!(mine != theirs && mine != before && theirs != before, "{before} {mine} {theirs}");
        assert_eq!(table.owner_of(&before), None);
        let number: u64 = mine.strip_prefix("bash-").unwrap().parse().unwrap();
        assert!(number > 7, "{number} was reserved");
    });
}
