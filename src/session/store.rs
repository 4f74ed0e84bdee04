//! Sessions on disk: one JSON Lines file each, in a directory that belongs to this user alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::log::EventLog;
use super::{Inner, Session, SessionError, SessionEvent, SessionId, SessionState};

/// A directory of session logs.
#[derive(Debug, Clone)]
pub struct SessionStore {
    dir: PathBuf,
}

impl SessionStore {
    /// Opens the directory, making it (mode 0700) when it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to or is open to anybody else.
    pub fn at(dir: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let dir = dir.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|source| SessionError::io(format!("making {}", dir.display()), source))?;
        let meta = std::fs::metadata(&dir)
            .map_err(|source| SessionError::io(format!("looking at {}", dir.display()), source))?;
        private(&dir, &meta)?;
        let dir = std::fs::canonicalize(&dir)
            .map_err(|source| SessionError::io(format!("resolving {}", dir.display()), source))?;
        Ok(Self { dir })
    }

    /// Begins a new session in `cwd`.
    ///
    /// # Errors
    /// When the id is taken, `cwd` cannot be used, or the log cannot be written.
    pub fn create(&self, id: SessionId, cwd: impl AsRef<Path>) -> Result<Session, SessionError> {
        let cwd = canonical_directory(cwd.as_ref())?;
        let path = self.file(&id);
        // Born under another name, so that a log that is there at all begins with its first event.
        let newborn = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&self.dir)
            .map_err(|source| SessionError::io(format!("creating a log in {}", self.dir.display()), source))?;
        let file = open_options()
            .open(newborn.path())
            .map_err(|source| SessionError::io(format!("opening {}", newborn.path().display()), source))?;
        let (log, _) = EventLog::open(&path, file, |_| {})?;
        let inner = Mutex::new(Inner { log, state: SessionState::default() });
        let session = Session { id, cwd, path: Some(path.clone()), recovered: None, inner };
        session.record_opened()?;
        newborn.persist_noclobber(&path).map_err(|failed| match failed.error.kind() {
            ErrorKind::AlreadyExists => SessionError::Exists { id: session.id.to_string() },
            _ => SessionError::io(format!("creating {}", path.display()), failed.error),
        })?;
        self.sync()?;
        Ok(session)
    }

    /// Opens an existing session and replays its log.
    ///
    /// # Errors
    /// When there is none, it is open elsewhere, its log is damaged or exposed, or its directory was replaced.
    pub fn resume(&self, id: &SessionId) -> Result<Session, SessionError> {
        let path = self.file(id);
        let file = open_options().open(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => SessionError::NotFound { id: id.to_string(), dir: self.dir.clone() },
            _ => SessionError::io(format!("opening {}", path.display()), source),
        })?;
        let meta =
            file.metadata().map_err(|source| SessionError::io(format!("looking at {}", path.display()), source))?;
        private(&path, &meta)?;
        let mut state = SessionState::default();
        let mut logged = None;
        let (log, recovered) = EventLog::open(&path, file, |record| {
            state.apply(&record.event);
            if let (1, SessionEvent::Opened { id, cwd, .. }) = (record.seq, record.event) {
                logged = Some((id, cwd));
            }
        })?;
        let Some(cwd) = logged.filter(|(named, _)| named == id).map(|(_, cwd)| cwd) else {
            let reason = format!("the log does not begin with session/opened of {id}");
            return Err(SessionError::Damaged { path, line: 1, reason });
        };
        let found = canonical_directory(&cwd)?;
        if found != cwd {
            return Err(SessionError::CwdMoved { logged: cwd, found });
        }
        let session =
            Session { id: id.clone(), cwd, path: Some(path), recovered, inner: Mutex::new(Inner { log, state }) };
        if let Some(recovered) = recovered {
            session.append(SessionEvent::Recovered { dropped: recovered.dropped }, true)?;
        }
        Ok(session)
    }

    /// Resumes the session when there is one of that id, creates it otherwise.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`resume`](Self::resume); also when the session's directory is not `cwd`.
    pub fn open(&self, id: SessionId, cwd: impl AsRef<Path>) -> Result<Session, SessionError> {
        match self.resume(&id) {
            Err(SessionError::NotFound { .. }) => self.create(id, cwd),
            Ok(session) => {
                let asked = canonical_directory(cwd.as_ref())?;
                if asked == session.cwd {
                    return Ok(session);
                }
                Err(SessionError::CwdMoved { logged: session.cwd, found: asked })
            }
            Err(other) => Err(other),
        }
    }

    /// The ids of every session here, sorted.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<SessionId>, SessionError> {
        let reading = |source| SessionError::io(format!("reading {}", self.dir.display()), source);
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(reading)? {
            let name = entry.map_err(reading)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|stem| stem.parse().ok());
            ids.extend(id);
        }
        ids.sort();
        Ok(ids)
    }

    fn file(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.jsonl"))
    }

    /// Makes a new name in the directory survive a crash.
    fn sync(&self) -> Result<(), SessionError> {
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|source| SessionError::io(format!("syncing {}", self.dir.display()), source))
    }
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // O_NONBLOCK so that a FIFO put in the log's place cannot hang the open; it means nothing to a regular file.
    options.read(true).append(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

fn private(path: &Path, meta: &std::fs::Metadata) -> Result<(), SessionError> {
    let problem = if meta.uid() != nix::unistd::geteuid().as_raw() {
        format!("owned by uid {}", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("open to others (mode {:04o})", meta.mode() & 0o7777)
    } else if !meta.is_file() && !meta.is_dir() {
        "not a regular file".to_owned()
    } else {
        return Ok(());
    };
    Err(SessionError::Exposed { path: path.to_owned(), problem })
}

/// The canonical form of a directory.
pub(super) fn canonical_directory(path: &Path) -> Result<PathBuf, SessionError> {
    let found = std::fs::canonicalize(path).and_then(|found| {
        if found.is_dir() { Ok(found) } else { Err(std::io::Error::from_raw_os_error(libc::ENOTDIR)) }
    });
    found.map_err(|source| SessionError::Cwd { path: path.to_owned(), source })
}
