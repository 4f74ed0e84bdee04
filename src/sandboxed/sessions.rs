//! The private `/tmp` of each session: a directory on the host that lasts as long as the session.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::output::OwnedDir;

/// Beginning of the name of every session directory.
pub(super) const PREFIX: &str = "stockade-session-";

/// The session directories of one executor.
#[derive(Debug)]
pub(super) struct Sessions {
    root: PathBuf,
    open: Mutex<HashMap<String, Arc<SessionTmp>>>,
}

/// One private `/tmp`. Dropping the last handle removes it.
#[derive(Debug)]
pub(super) struct SessionTmp {
    _owner: OwnedDir,
    tmp: PathBuf,
}

impl SessionTmp {
    /// Makes a fresh one below `root`: open to everybody like `/tmp` itself, in a directory that only its owner enters.
    fn create(root: &Path) -> io::Result<Self> {
        let owner = OwnedDir::create(root, PREFIX)?;
        let tmp = owner.path().join("tmp");
        std::fs::create_dir(&tmp)?;
        std::fs::set_permissions(&tmp, std::fs::Permissions::from_mode(0o1777))?;
        Ok(Self { tmp: tmp.canonicalize()?, _owner: owner })
    }

    pub(super) fn path(&self) -> &Path {
        &self.tmp
    }
}

impl Sessions {
    /// Stands ready.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, open: Mutex::new(HashMap::new()) }
    }

    /// The directory of a session, made when it is asked for first; of no session, one for the caller alone.
    pub(super) fn tmp(&self, session: Option<&str>) -> io::Result<Arc<SessionTmp>> {
        let Some(session) = session else { return SessionTmp::create(&self.root).map(Arc::new) };
        let mut open = self.lock();
        if let Some(tmp) = open.get(session) {
            return Ok(Arc::clone(tmp));
        }
        let tmp = Arc::new(SessionTmp::create(&self.root)?);
        open.insert(session.to_owned(), Arc::clone(&tmp));
        Ok(tmp)
    }

    pub(super) fn end(&self, session: &str) {
        self.lock().remove(session);
    }

    pub(super) fn end_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionTmp>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
