//! Unix sockets of the host that have a path.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Names that sockets of this network namespace were bound to, stream and datagram alike. They may be gone by now.
///
/// A read-only mount does not stop `connect(2)` on a socket, and Landlock does only from ABI 9, so the planner covers
/// these one by one. Source: `/proc/net/unix` (proc_net(5)).
///
/// # Errors
/// When `/proc/net/unix` cannot be read.
pub fn socket_names() -> std::io::Result<BTreeSet<PathBuf>> {
    Ok(names(&std::fs::read("/proc/net/unix")?))
}

/// Each line ends in the name, if there is one; abstract ones begin with `@`.
fn names(table: &[u8]) -> BTreeSet<PathBuf> {
    let name = |line: &[u8]| {
        let at = line.windows(2).position(|pair| pair == b" /")?;
        Some(PathBuf::from(OsStr::from_bytes(&line[at + 1..])))
    };
    table.split(|byte| *byte == b'\n').skip(1).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_whole_and_abstract_ones_left_out() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01  7042 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12 \n\
            0000000000000000: 00000002 00000000 00010000 0001 01 77 @abstract\n";
        assert_eq!(names(table), BTreeSet::from([PathBuf::from("/run/a b.sock")]));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(socket_names().unwrap().contains(&path));
    }
}
