//! Wildcards in the last component of a deny entry, filled in when the policy is resolved.

#![forbid(unsafe_code)]

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::look;

/// Entries of one directory looked at for a pattern; a larger directory is reported, not read on.
const MAX_ENTRIES: usize = 20_000;

/// True when the last component has `*` or `?`.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().iter().any(|b| matches!(b, b'*' | b'?')))
}

/// The paths that match, sorted; the flag says that the directory was too large to be read to its end.
pub(super) fn expand(path: &Path) -> (Vec<PathBuf>, bool) {
    let (Some(parent), Some(pattern)) = (path.parent(), path.file_name()) else { return (Vec::new(), false) };
    let Ok(entries) = look::list(parent) else { return (Vec::new(), false) };
    let mut seen = 0;
    let mut hits = Vec::new();
    for entry in entries.flatten() {
        seen += 1;
        if seen > MAX_ENTRIES {
            break;
        }
        if matches(pattern.as_bytes(), entry.file_name().as_bytes()) {
            hits.push(parent.join(entry.file_name()));
        }
    }
    hits.sort();
    (hits, seen > MAX_ENTRIES)
}

/// `*` is any run of bytes, `?` any one byte. Linear in time: only the last star is ever tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&b) if b == b'?' || b == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, name, hit) in [
            ("ssh_host_*_key", "ssh_host_rsa_key", true),
            ("ssh_host_*_key", "ssh_host_rsa_key.pub", false),
            (".env*", ".env", true),
            (".env*", ".env.local", true),
            ("?.pem", "a.pem", true),
            ("?.pem", ".pem", false),
            ("*a*b", "xaxxab", true),
            ("**", "", true),
            ("*.key", "key", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), hit, "{pattern} {name}");
        }
        let hostile = "*a".repeat(50);
        assert!(!matches(hostile.as_bytes(), "a".repeat(49).as_bytes()));
    }
}
