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
}

impl Cache {
    pub(crate) fn cwd(&self, tid: u32, now: Instant) -> Option<&PathBuf> {
        self.cwd.get(&tid).filter(|(since, _)| now.duration_since(*since) < LIFE).map(|(_, path)| path)
    }

    pub(crate) fn keep_cwd(&mut self, tid: u32, now: Instant, path: PathBuf) {
        if self.cwd.len() >= MAX_ENTRIES {
            self.cwd.clear();
        }
        self.cwd.insert(tid, (now, path));
    }

    pub(crate) fn parent(&self, text: &[u8], now: Instant) -> Option<&Parent> {
        self.parents.get(text).filter(|(since, _)| now.duration_since(*since) < LIFE).map(|(_, parent)| parent)
    }

    pub(crate) fn keep_parent(&mut self, text: &[u8], now: Instant, parent: Parent) {
        if self.parents.len() >= MAX_ENTRIES {
            self.parents.clear();
        }
        self.parents.insert(text.to_vec(), (now, parent));
    }

    /// Working directories may have changed.
    pub(crate) fn forget_directories(&mut self) {
        self.cwd.clear();
    }

    /// The tree may have changed its shape.
    pub(crate) fn forget_all(&mut self) {
        self.cwd.clear();
        self.parents.clear();
    }
}
