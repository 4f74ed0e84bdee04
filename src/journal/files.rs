//! The files of one journal, by name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Take};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// `FILE.head`: the lock, and where the journal ends.
pub(super) fn head_path(journal: &Path) -> PathBuf {
    with_suffix(journal, "head")
}

/// The name that a full journal is given.
pub(super) fn rotated_path(journal: &Path, number: u64) -> PathBuf {
    with_suffix(journal, &number.to_string())
}

fn with_suffix(journal: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(journal);
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The directory of a journal.
pub(super) fn directory(journal: &Path) -> &Path {
    match journal.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Numbers of the rotated files that are there, ascending.
pub(super) fn rotated(journal: &Path) -> io::Result<Vec<u64>> {
    let Some(name) = journal.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let prefix = format!("{name}.");
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory(journal))? {
        let name_of_entry = entry?.file_name();
        let number = name_of_entry
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .and_then(|text| text.parse::<u64>().ok());
        // `+7` and `007` are somebody else's.
        numbers.extend(number.filter(|number| rotated_path(journal, *number).file_name() == Some(&name_of_entry)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A journal as it was at one moment, whoever appends to it meanwhile.
pub(super) struct Snapshot {
    /// `FILE.head`, where there is one; its content may be of a later moment.
    pub(super) head: Option<Vec<u8>>,
    /// Its files, oldest first, each up to where it ended.
    pub(super) files: Vec<(PathBuf, Take<File>)>,
}

/// Opens all files of a journal while nobody writes to it.
pub(super) fn snapshot(journal: &Path) -> io::Result<Snapshot> {
    let mut lock = match File::open(head_path(journal)) {
        Ok(head) => Some(Flock::lock(head, FlockArg::LockShared).map_err(|(_, errno)| io::Error::from(errno))?),
        // Without its head there is nothing that a writer would lock either.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let head = lock.as_mut().map(|head| {
        let mut text = Vec::new();
        Read::by_ref(&mut **head).take(4096).read_to_end(&mut text).map(|_| text)
    });
    let open = |path: PathBuf| {
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        Ok((path, file.take(length)))
    };
    let files = segments(journal)?.into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
    if files.is_empty() {
        return Err(nix::errno::Errno::ENOENT.into());
    }
    Ok(Snapshot { head: head.transpose()?, files })
}

/// The file that was begun when the one with this inode was full; `None` while that one is the newest.
pub(super) fn successor(journal: &Path, inode: u64) -> io::Result<Option<File>> {
    let snapshot = match snapshot(journal) {
        Ok(snapshot) => snapshot,
        // Between two files of one rotation.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let files: Vec<File> = snapshot.files.into_iter().map(|(_, file)| file.into_inner()).collect();
    let mut at = None;
    for (number, file) in files.iter().enumerate() {
        if file.metadata()?.ino() == inode {
            at = Some(number + 1);
        }
    }
    // Somebody took it away: what is left begins anew.
    let next = at.unwrap_or(0);
    Ok(files.into_iter().nth(next))
}

/// Every file of a journal that is there, oldest first.
///
/// # Errors
/// When the directory cannot be read.
pub fn segments(journal: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = rotated(journal)?.into_iter().map(|number| rotated_path(journal, number)).collect();
    if journal.try_exists()? {
        files.push(journal.to_path_buf());
    }
    Ok(files)
}
