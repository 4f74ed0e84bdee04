//! What is remembered between two calls, so that an allowed one costs two short system calls and no lookup.
//!
//! Only two things are remembered, both for a moment: where a process's working directory is, and that a directory's
//! text leads to a certain directory. The traced calls that can change either (`chdir`, `rename`, `symlink`, `link`
//! of a link) empty it first, so a command cannot put a link where a directory was and have the old answer used. What
//! others change on the host is covered by the short life of an entry.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const LIFE: Duration = Duration::from_millis(20);
const MAX_ENTRIES: usize = 2048;
/// How long a call that changes what is remembered may take to do so once it was let go on. Until its thread is heard of
/// again, or this is over, nothing new is remembered: another thread could have the old state remembered in between.
const SETTLES: Duration = Duration::from_millis(100);

/// A directory that a text leads to.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    /// Its resolved path.
    pub(crate) within: PathBuf,
    /// Every child of it may be written, without a look at the name.
    pub(crate) uniform: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Cache {
    cwd: HashMap<u32, (Instant, PathBuf)>,
    parents: HashMap<Vec<u8>, (Instant, Parent)>,
    /// Threads whose call is about to change something.
    changing: HashMap<u32, Instant>,
}

impl Cache {
    pub(crate) fn cwd(&self, tid: u32, now: Instant) -> Option<&PathBuf> {
        self.cwd.get(&tid).filter(|(since, _)| now.duration_since(*since) < LIFE).map(|(_, path)| path)
    }

    /// A thread makes a call, so its last one is over.
    pub(crate) fn heard_of(&mut self, tid: u32) {
        self.changing.remove(&tid);
    }

    fn settled(&mut self, now: Instant) -> bool {
        self.changing.retain(|_, since| now.saturating_duration_since(*since) < SETTLES);
        self.changing.is_empty()
    }

    pub(crate) fn keep_cwd(&mut self, tid: u32, now: Instant, path: PathBuf) {
        if !self.settled(now) {
            return;
        }
        if self.cwd.len() >= MAX_ENTRIES {
            self.cwd.clear();
        }
        self.cwd.insert(tid, (now, path));
    }

    pub(crate) fn parent(&self, text: &[u8], now: Instant) -> Option<&Parent> {
        self.parents.get(text).filter(|(since, _)| now.duration_since(*since) < LIFE).map(|(_, parent)| parent)
    }

    pub(crate) fn keep_parent(&mut self, text: &[u8], now: Instant, parent: Parent) {
        if !self.settled(now) {
            return;
        }
        if self.parents.len() >= MAX_ENTRIES {
            self.parents.clear();
        }
        self.parents.insert(text.to_vec(), (now, parent));
    }

    /// Working directories are about to change.
    pub(crate) fn forget_directories(&mut self, tid: u32, now: Instant) {
        self.changing.insert(tid, now);
        self.cwd.clear();
    }

    /// The tree is about to change its shape.
    pub(crate) fn forget_all(&mut self, tid: u32, now: Instant) {
        self.changing.insert(tid, now);
        self.cwd.clear();
        self.parents.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_while_another_thread_changes_it() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let parent = || Parent { within: "/d".into(), uniform: true };
        cache.keep_parent(b"/d/", now, parent());
        assert!(cache.parent(b"/d/", now).is_some());
        cache.forget_all(1, now);
        // Thread 2 comes between the answer to thread 1 and what thread 1 then does.
        cache.heard_of(2);
        cache.keep_parent(b"/d/", now, parent());
        cache.keep_cwd(2, now, "/d".into());
        assert!(cache.parent(b"/d/", now).is_none() && cache.cwd(2, now).is_none());
        cache.heard_of(1);
        cache.keep_cwd(2, now, "/d".into());
        assert!(cache.cwd(2, now).is_some());
        cache.forget_directories(1, now);
        let later = now + SETTLES;
        cache.keep_cwd(2, later, "/e".into());
        assert!(cache.cwd(2, later).is_some(), "a thread that is never heard of again");
    }
}
