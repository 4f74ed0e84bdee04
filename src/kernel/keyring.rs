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

/// Adds a key of type `user` to the keyring of this process, which ends with it (add_key(2)).
///
/// # Errors
/// `ENOSYS` where the kernel has no keyrings, `EDQUOT` over the quota, `EPERM` where a filter refuses.
pub(crate) fn add_process_key(description: &std::ffi::CStr, payload: &[u8]) -> Result<(), Errno> {
    let (kind, text) = (c"user".as_ptr(), description.as_ptr());
    let (bytes, length) = (payload.as_ptr(), payload.len());
    // SAFETY: the two strings are terminated, and the payload is live and as long as it is said to be.
    let key = unsafe { libc::syscall(libc::SYS_add_key, kind, text, bytes, length, libc::KEY_SPEC_PROCESS_KEYRING) };
    Errno::result(key).map(drop)
}
