//! The client's roots: which of them is the workspace.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// The first root that is a directory of this machine.
pub(super) fn workspace<'a>(uris: impl IntoIterator<Item = &'a str>) -> Option<PathBuf> {
    uris.into_iter().filter_map(path).find(|path| path.is_dir())
}

/// The path of a `file` URI that names this machine.
fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = path.split(['?', '#']).next().filter(|path| path.starts_with('/'))?;
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    // A path with a NUL is none, and would end early where one is expected.
    (!bytes.contains(&0)).then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_this_machine_are_paths() {
        for (uri, expected) in [
            ("file:///w", Some("/w")),
            ("file://localhost/w/a%20b", Some("/w/a b")),
            ("file:///w#part", Some("/w")),
            ("file://other/w", None),
            ("https://x/w", None),
            ("/w", None),
            ("file:///a%00b", None),
            ("file://", None),
        ] {
            assert_eq!(path(uri), expected.map(PathBuf::from), "{uri}");
        }
    }

    #[test]
    fn the_first_directory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let uri = format!("file://{}", dir.path().display());
        assert_eq!(workspace(["https://x", "file:///nonexistent", uri.as_str(), "file:///"]), Some(dir.path().into()));
        assert_eq!(workspace(["file:///nonexistent"]), None);
    }
}
