//! Session keyrings: they are not namespaced, so the inherited one must be left behind.

use nix::errno::Errno;

/// Joins a new anonymous session keyring (`KEYCTL_JOIN_SESSION_KEYRING`, keyctl(2)).
///
/// # Errors
/// `ENOSYS` where the kernel has no keyrings (then there is nothing to leave behind), `EDQUOT` over the quota.
pub(crate) fn join_fresh_session_keyring() -> Result<(), Errno> {
    let anonymous = std::ptr::null::<libc::c_char>();
    // SAFETY: a null name asks for an anonymous keyring; the call reads no memory.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, anonymous) };
    Errno::result(result).map(drop)
}
