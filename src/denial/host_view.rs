//! What the host itself would allow: the half of every cure that no policy can give.
//!
//! Asked after the run, with the executor's own credentials. A refused access left no trace on the host, so what is true
//! there now was true when the command tried.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use caps::{CapSet, Capability};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use rustix::fs::{StatxAttributes, StatxFlags};

/// What stands at a path, the last link not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Nothing, in a directory that exists.
    Missing,
    /// Nothing, and its parent is not a directory that could hold it either.
    NoParent,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A Unix socket.
    Socket,
    /// A device, FIFO or anything else.
    Other,
    /// The executor may not look.
    Unknown,
}

impl FileState {
    /// Something is there.
    #[must_use]
    pub const fn exists(self) -> bool {
        !matches!(self, Self::Missing | Self::NoParent | Self::Unknown)
    }
}

/// What would be done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAccess {
    /// Read a file or list a directory.
    Read,
    /// Change the content of what exists.
    Write,
    /// Add the name to its directory.
    Create,
    /// Take the name out of its directory.
    Remove,
    /// Change mode, times or attributes.
    Metadata,
    /// Give it another owner.
    Owner,
    /// Execute a file.
    Execute,
}

/// Answers about the host, for the user who runs the executor.
pub trait HostView {
    /// What stands at a path.
    fn state(&self, path: &Path) -> FileState;
    /// The path with the symbolic links of its directories followed as far as they exist; the last component is kept.
    fn resolve(&self, path: &Path) -> PathBuf;
    /// Where the symbolic link at a path finally leads, whether or not something is there; `None` when it is none.
    fn target(&self, path: &Path) -> Option<PathBuf>;
    /// Both lie on one file system of the host.
    fn on_one_file_system(&self, one: &Path, other: &Path) -> bool;
    /// The host would let this user do it: permissions, mounts that are read-only on the host, sticky directories,
    /// immutable and append-only flags.
    fn permits(&self, access: HostAccess, path: &Path) -> bool;
    /// A process of the host listens on this TCP port of this loopback address.
    fn listens(&self, address: IpAddr, port: u16) -> bool;
    /// The executor holds the capability that mount, ptrace of others and new namespaces need.
    fn is_privileged(&self) -> bool;
    /// The executor itself runs with no_new_privs, so set-user-ID programs gain nothing outside the sandbox either.
    fn no_new_privs(&self) -> bool;
    /// The host lets this user make a user namespace, and in it the others.
    fn makes_user_namespaces(&self) -> bool;
    /// The host's Yama setting lets a process trace its own descendants.
    fn may_trace(&self) -> bool;
}

/// The host this process runs on.
#[derive(Debug, Default)]
pub struct ProcessHostView {
    listeners: OnceLock<HashSet<(IpAddr, u16)>>,
}

impl ProcessHostView {
    /// A view that reads the listener table at most once.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

fn holds(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

fn may(path: &Path, flags: AccessFlags) -> bool {
    faccessat(AT_FDCWD, path, flags, AtFlags::AT_EACCESS).is_ok()
}

fn read_only_mount(path: &Path) -> bool {
    statvfs(path).is_ok_and(|vfs| vfs.flags().contains(FsFlags::ST_RDONLY))
}

fn frozen(path: &Path, attributes: StatxAttributes) -> bool {
    rustix::fs::statx(rustix::fs::CWD, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
        .is_ok_and(|stat| stat.stx_attributes.intersects(attributes))
}

/// Names may be added to or removed from the directory.
fn directory_open(directory: &Path, removing: bool) -> bool {
    // An append-only directory takes new names and gives none up.
    let flags =
        if removing { StatxAttributes::IMMUTABLE | StatxAttributes::APPEND } else { StatxAttributes::IMMUTABLE };
    directory.is_dir()
        && may(directory, AccessFlags::W_OK | AccessFlags::X_OK)
        && !read_only_mount(directory)
        && !frozen(directory, flags)
}

/// In a sticky directory only the owner of the entry or of the directory (or root) removes an entry.
fn sticky_forbids(directory: &Path, entry: &std::fs::Metadata) -> bool {
    let me = geteuid();
    std::fs::metadata(directory).is_ok_and(|dir| {
        dir.mode() & 0o1000 != 0
            && !holds(Capability::CAP_FOWNER)
            && me.as_raw() != dir.uid()
            && me.as_raw() != entry.uid()
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

impl HostView for ProcessHostView {
    fn state(&self, path: &Path) -> FileState {
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_file() => FileState::File,
            Ok(meta) if meta.is_dir() => FileState::Directory,
            Ok(meta) if meta.file_type().is_symlink() => FileState::Link,
            Ok(meta) if meta.file_type().is_socket() => FileState::Socket,
            Ok(_) => FileState::Other,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => FileState::Unknown,
            Err(_) if parent(path).is_dir() => FileState::Missing,
            Err(_) => FileState::NoParent,
        }
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return path.to_path_buf() };
        let mut missing: Vec<&OsStr> = vec![name];
        for ancestor in directory.ancestors() {
            if let Ok(real) = std::fs::canonicalize(ancestor) {
                return missing.iter().rev().fold(real, |whole, part| whole.join(part));
            }
            missing.extend(ancestor.file_name());
        }
        path.to_path_buf()
    }

    fn target(&self, path: &Path) -> Option<PathBuf> {
        /// As many as the kernel follows.
        const MAX_LINKS: usize = 40;
        let mut end = path.to_path_buf();
        for followed in 0..MAX_LINKS {
            let Ok(next) = std::fs::read_link(&end) else { return (followed > 0).then_some(end) };
            end = self.resolve(&super::refusal::normalize(&parent(&end).join(next)));
        }
        None
    }

    fn on_one_file_system(&self, one: &Path, other: &Path) -> bool {
        let device = |path: &Path| std::fs::symlink_metadata(path).map(|meta| meta.dev()).ok();
        device(one).is_some() && device(one) == device(other)
    }

    fn permits(&self, access: HostAccess, path: &Path) -> bool {
        let stuck = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        match access {
            HostAccess::Read => may(path, AccessFlags::R_OK) && (!path.is_dir() || may(path, AccessFlags::X_OK)),
            HostAccess::Execute => may(path, AccessFlags::X_OK),
            HostAccess::Owner => holds(Capability::CAP_CHOWN) && !read_only_mount(path) && !frozen(path, stuck),
            HostAccess::Write => {
                may(path, AccessFlags::W_OK) && !read_only_mount(path) && !frozen(path, StatxAttributes::IMMUTABLE)
            }
            HostAccess::Create => directory_open(parent(path), false),
            HostAccess::Remove => std::fs::symlink_metadata(path).is_ok_and(|meta| {
                directory_open(parent(path), true) && !sticky_forbids(parent(path), &meta) && !frozen(path, stuck)
            }),
            HostAccess::Metadata => std::fs::symlink_metadata(path).is_ok_and(|meta| {
                (holds(Capability::CAP_FOWNER) || geteuid().as_raw() == meta.uid())
                    && !read_only_mount(path)
                    && !frozen(path, stuck)
            }),
        }
    }

    fn listens(&self, address: IpAddr, port: u16) -> bool {
        let address = reached(address);
        let table = self.listeners.get_or_init(listeners);
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        table.contains(&(address, port)) || any.iter().any(|any| table.contains(&(*any, port)))
    }

    fn is_privileged(&self) -> bool {
        holds(Capability::CAP_SYS_ADMIN)
    }

    fn no_new_privs(&self) -> bool {
        nix::sys::prctl::get_no_new_privs().unwrap_or(false)
    }

    fn makes_user_namespaces(&self) -> bool {
        // The kernel's own limit; a switch of Debian's; AppArmor's, which Ubuntu sets. The last two may be absent.
        let number = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse::<u64>().ok();
        number("user/max_user_namespaces") != Some(0)
            && number("kernel/unprivileged_userns_clone") != Some(0)
            && number("kernel/apparmor_restrict_unprivileged_userns") != Some(1)
    }

    fn may_trace(&self) -> bool {
        // 0 and 1 allow tracing one's own children; 2 asks for CAP_SYS_PTRACE; 3 allows nobody. Absent without Yama.
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        match scope.as_deref().map(str::trim) {
            Ok("2") => self.is_privileged(),
            Ok("3") => false,
            _ => true,
        }
    }
}

/// Where a connection to an address arrives: the unspecified one means the loopback of its family.
pub(super) fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// A socket that takes connections to this address and port.
pub(super) fn serves(entry: &procfs::net::TcpNetEntry, address: IpAddr, port: u16) -> bool {
    let local = entry.local_address.ip().to_canonical();
    entry.state == procfs::net::TcpState::Listen
        && entry.local_address.port() == port
        && (local == address || local.is_unspecified() && (address.is_ipv4() || local.is_ipv6()))
}

fn listeners() -> HashSet<(IpAddr, u16)> {
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    tables
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.state == procfs::net::TcpState::Listen)
        .map(|entry| (entry.local_address.ip().to_canonical(), entry.local_address.port()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn states_of_paths() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        let view = ProcessHostView::new();
        assert_eq!(view.state(dir.path()), FileState::Directory);
        assert_eq!(view.state(&dir.path().join("file")), FileState::File);
        assert_eq!(view.state(&dir.path().join("none")), FileState::Missing);
        assert_eq!(view.state(&dir.path().join("none/below")), FileState::NoParent);
        assert_eq!(view.state(&dir.path().join("file/below")), FileState::NoParent);
    }

    #[test]
    fn directories_links_are_followed_and_the_last_name_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let view = ProcessHostView::new();
        assert_eq!(view.resolve(&dir.path().join("link/new/deep")), real.join("new/deep"));
        assert_eq!(view.resolve(&dir.path().join("link")), dir.path().canonicalize().unwrap().join("link"));
    }

    #[test]
    fn a_port_is_seen_while_someone_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(ProcessHostView::new().listens(address.ip(), address.port()));
        drop(listener);
        assert!(!ProcessHostView::new().listens(address.ip(), address.port()));
    }

    /// The same tests as an ordinary user: what root may do proves little about permissions.
    #[test]
    fn an_ordinary_user_sees_other_answers() {
        if !geteuid().is_root() {
            return; // This is the ordinary user; the other tests ran as one.
        }
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("tests");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        for path in [dir.path(), &copy] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let sticky = dir.path().join("sticky");
        std::fs::create_dir(&sticky).unwrap();
        std::fs::set_permissions(&sticky, PermissionsExt::from_mode(0o1777)).unwrap();
        std::fs::write(sticky.join("of-root"), "x").unwrap();
        std::fs::set_permissions(sticky.join("of-root"), PermissionsExt::from_mode(0o666)).unwrap();
        for test in ["permissions_are_those_of_this_user", "a_sticky_directory_keeps_the_files_of_others"] {
            let status = std::process::Command::new("setpriv")
                .args(["--reuid=1500", "--regid=1500", "--clear-groups"])
                .arg(&copy)
                .args(["--exact", &format!("denial::host_view::tests::{test}"), "--include-ignored"])
                .env("STICKY", &sticky)
                .env_remove("TMPDIR")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&status.stdout);
            assert!(status.status.success() && text.contains("1 passed"), "{test}: {text}");
        }
    }

    #[test]
    #[ignore = "run as an ordinary user by an_ordinary_user_sees_other_answers"]
    fn a_sticky_directory_keeps_the_files_of_others() {
        let sticky = PathBuf::from(std::env::var_os("STICKY").unwrap());
        let view = ProcessHostView::new();
        let theirs = sticky.join("of-root");
        assert!(view.permits(HostAccess::Write, &theirs));
        assert!(!view.permits(HostAccess::Remove, &theirs));
        assert!(!view.permits(HostAccess::Metadata, &theirs));
        assert!(!view.permits(HostAccess::Owner, &theirs));
        assert!(view.permits(HostAccess::Create, &sticky.join("mine")));
        std::fs::write(sticky.join("mine"), "x").unwrap();
        assert!(view.permits(HostAccess::Remove, &sticky.join("mine")));
        assert!(view.permits(HostAccess::Metadata, &sticky.join("mine")));
        assert!(!view.is_privileged());
    }

    #[test]
    fn permissions_are_those_of_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let view = ProcessHostView::new();
        assert!(view.permits(HostAccess::Write, &file));
        assert!(view.permits(HostAccess::Create, &dir.path().join("new")));
        assert!(!view.permits(HostAccess::Create, &dir.path().join("no/new")));
        assert!(view.permits(HostAccess::Remove, &file));
        assert!(!view.permits(HostAccess::Remove, &dir.path().join("new")));
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).unwrap();
        // Root writes where the mode says otherwise; an ordinary user does not.
        assert_eq!(view.permits(HostAccess::Create, &dir.path().join("new")), geteuid().is_root());
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    }
}
