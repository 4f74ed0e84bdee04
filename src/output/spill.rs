//! Spill files: the whole of a stream on disk, for as long as the executor lives.
//!
//! Directory 0700, files 0600, names from `tempfile` (never fixed). A file is advertised only while it holds every byte
//! of its stream: over the cap, or after a failed write, it is deleted at once.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use super::sweep::OwnedDir;

/// Largest spill of one stream, bytes; more than this is not kept on disk at all.
pub const SPILL_CAP: u64 = 64 * 1024 * 1024;

/// Beginning of the name of every spill directory.
pub const SPILL_PREFIX: &str = "stockade-spill-";

/// Beginning of the name of a spill directory that outlives its executor: nobody sweeps it.
const KEPT_PREFIX: &str = "stockade-output-";

/// The spill directory of one executor, made when the first stream overflows.
#[derive(Debug)]
pub(crate) struct SpillStore {
    root: PathBuf,
    cap: u64,
    keep: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Unused,
    Open(OwnedDir),
    Closed,
}

impl SpillStore {
    /// Spills below `root` (made when needed), at most `cap` bytes a stream. With `keep` they are the caller's to remove.
    pub(crate) const fn new(root: PathBuf, cap: u64, keep: bool) -> Self {
        Self { root, cap, keep, state: Mutex::new(State::Unused) }
    }

    /// Removes every spill that is not kept; nothing is spilled from now on.
    pub(crate) fn close(&self) {
        let State::Open(dir) = std::mem::replace(&mut *self.lock(), State::Closed) else { return };
        if self.keep {
            dir.keep_unless_empty();
        } else if let Err(error) = dir.remove() {
            tracing::warn!(%error, "a spill directory could not be removed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, label: &str) -> io::Result<NamedTempFile> {
        let mut state = self.lock();
        if matches!(*state, State::Unused) {
            let prefix = if self.keep { KEPT_PREFIX } else { SPILL_PREFIX };
            *state = State::Open(OwnedDir::create(&self.root, prefix)?);
        }
        let State::Open(dir) = &*state else { return Err(io::Error::other("the executor has been shut down")) };
        // `tempfile` makes its files 0600, whatever the umask.
        tempfile::Builder::new().prefix(&format!("{label}-")).suffix(".log").tempfile_in(dir.path())
    }
}

impl Drop for SpillStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// The spill of one stream.
#[derive(Debug)]
pub(crate) struct Spill {
    store: Arc<SpillStore>,
    label: &'static str,
    state: Stream,
}

#[derive(Debug)]
enum Stream {
    /// The tail still holds everything.
    Waiting,
    /// Deleted if dropped.
    Writing(NamedTempFile, u64),
    Complete(PathBuf),
    Withheld,
}

impl Spill {
    pub(crate) const fn new(store: Arc<SpillStore>, label: &'static str) -> Self {
        Self { store, label, state: Stream::Waiting }
    }

    /// Whether nothing has been spilled yet.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.state, Stream::Waiting)
    }

    /// Opens the file and writes the stream so far.
    pub(crate) fn begin(&mut self, so_far: &[&[u8]]) {
        match self.store.create(self.label) {
            Ok(file) => {
                self.state = Stream::Writing(file, 0);
                so_far.iter().for_each(|part| self.append(part));
            }
            Err(error) => self.withhold(&error),
        }
    }

    /// Writes on, when a spill is under way.
    pub(crate) fn append(&mut self, chunk: &[u8]) {
        let Stream::Writing(file, written) = &mut self.state else { return };
        *written += chunk.len() as u64;
        if *written > self.store.cap {
            self.state = Stream::Withheld;
            return;
        }
        let outcome = File::write_all(file.as_file_mut(), chunk);
        if let Err(error) = outcome {
            self.withhold(&error);
        }
    }

    /// Keeps the file until the executor goes.
    pub(crate) fn finish(&mut self) {
        if !matches!(self.state, Stream::Writing(..)) {
            return;
        }
        if let Stream::Writing(file, _) = std::mem::replace(&mut self.state, Stream::Withheld) {
            // Held over the check and the keeping, so that a closing store either sees the file or is seen closed.
            let store = self.store.lock();
            if matches!(*store, State::Open(_)) {
                match file.keep() {
                    Ok((_, path)) => self.state = Stream::Complete(path),
                    Err(error) => tracing::warn!(%error, "a spill file could not be kept"),
                }
            }
        }
    }

    /// The file, when it holds the whole stream so far.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.state {
            Stream::Writing(file, _) => Some(file.path()),
            Stream::Complete(path) => Some(path),
            Stream::Waiting | Stream::Withheld => None,
        }
    }

    fn withhold(&mut self, error: &io::Error) {
        tracing::warn!(%error, stream = self.label, "the full output is not kept on disk");
        self.state = Stream::Withheld;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn modes_are_private_and_closing_removes_everything() {
        let root = tempfile::tempdir().unwrap();
        let store = Arc::new(SpillStore::new(root.path().to_path_buf(), 100, false));
        let mut spill = Spill::new(Arc::clone(&store), "stderr");
        spill.begin(&[b"ab", b"cd"]);
        spill.append(b"ef");
        spill.finish();
        let path = spill.path().unwrap().to_path_buf();
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        store.close();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let mut late = Spill::new(store, "stdout");
        late.begin(&[b"x"]);
        assert_eq!(late.path(), None);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_spill_that_cannot_be_written_is_withheld() {
        let root = tempfile::tempdir().unwrap();
        let store = Arc::new(SpillStore::new(root.path().join("file"), 100, false));
        fs::write(root.path().join("file"), b"not a directory").unwrap();
        let mut spill = Spill::new(store, "stdout");
        spill.begin(&[b"x"]);
        spill.append(b"y");
        spill.finish();
        assert_eq!(spill.path(), None);
    }
}
