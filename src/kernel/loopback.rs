//! The loopback interface of a fresh network namespace starts down.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Brings `lo` up, which also gives it 127.0.0.1 and ::1 (netdevice(7), `SIOCSIFFLAGS`).
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN over the network namespace.
pub(crate) fn bring_loopback_up() -> Result<(), Errno> {
    let socket: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: UP_RUNNING },
    };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives on this stack for the whole call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    Errno::result(result).map(drop)
}

/// IFF_UP and IFF_RUNNING, which fit the field's 16 bits.
const UP_RUNNING: libc::c_short = 0x1 | 0x40;
