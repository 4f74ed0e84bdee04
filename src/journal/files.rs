//! The files of one journal, by name.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

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
