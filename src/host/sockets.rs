//! Unix sockets of the host that have a path.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Names that sockets of this network namespace were bound to, stream and datagram alike. They may be gone by now.
///
/// A read-only mount does not stop `connect(2)` on a socket, and Landlock does only from ABI 9, so the planner covers
/// these one by one. Source: `/proc/net/unix` (proc_net(5)).
///
/// # Errors
/// When `/proc/net/unix` cannot be read.
pub fn socket_names() -> std::io::Result<BTreeSet<PathBuf>> {
    // The size of a file of `/proc` is not known: without room from the start it would be read in many small pieces.
    let mut table = Vec::with_capacity(TABLE_ROOM);
    std::fs::File::open("/proc/net/unix")?.read_to_end(&mut table)?;
    Ok(names(&table))
}

/// Holds some 500 sockets, bytes.
const TABLE_ROOM: usize = 32 << 10;

/// Whether every socket that a process of the host bound is in that table, which lists one network namespace.
///
/// A process in another one may bind a name on a file system that both see: the host's around a container, above all.
/// So the answer is yes in the initial network namespace only. Its inode is fixed since Linux 6.18 (`NET_NS_INIT_INO`,
/// include/uapi/linux/nsfs.h); before, it is taken to be that of process 1, where that is the machine's own: in the
/// initial PID namespace, whose inode is as old as such inodes. What cannot be told counts as no.
pub(super) fn table_is_complete() -> bool {
    let namespace = |name: &str| std::fs::metadata(format!("/proc/self/ns/{name}")).map(|meta| meta.ino()).ok();
    if std::fs::File::open("/proc/net/unix").is_err() {
        return false;
    }
    namespace("net") == Some(INITIAL_NETWORK)
        || namespace("pid") == Some(INITIAL_PIDS) && table_of("1").is_some_and(|one| table_of("self") == Some(one))
}

/// `NET_NS_INIT_INO`.
const INITIAL_NETWORK: u64 = 0xEFFF_FFF9;
/// `PID_NS_INIT_INO`.
const INITIAL_PIDS: u64 = 0xEFFF_FFFC;

/// Which table a process sees. Unlike the link to its namespace, anybody may look at that.
fn table_of(process: &str) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(format!("/proc/{process}/net/unix")).ok()?;
    Some((meta.dev(), meta.ino()))
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
