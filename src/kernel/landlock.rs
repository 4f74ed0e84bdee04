//! The one Landlock question that the `landlock` crate keeps to itself.

use nix::errno::Errno;

/// The Landlock ABI of the running kernel; 0 where there is none (landlock_create_ruleset(2), `..._VERSION`).
///
/// # Errors
/// Anything but `ENOSYS` (not built in) and `EOPNOTSUPP` (not enabled at boot).
pub(crate) fn landlock_abi() -> Result<i32, Errno> {
    const VERSION: libc::c_uint = 1;
    let no_attributes = std::ptr::null::<libc::c_void>();
    // SAFETY: asking for the version passes no memory.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_attributes, 0_usize, VERSION) };
    match Errno::result(result) {
        Ok(abi) => i32::try_from(abi).map_err(|_| Errno::ERANGE),
        Err(Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(0),
        Err(errno) => Err(errno),
    }
}
