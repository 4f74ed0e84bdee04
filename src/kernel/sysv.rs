//! System V message queues (msgget(2)), which no crate of ours wraps.

use nix::errno::Errno;

/// One message of fixed size, as the kernel wants it.
#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; MESSAGE_BYTES],
}

/// Size of a message, bytes.
pub(crate) const MESSAGE_BYTES: usize = 16;

/// Makes a queue that its own user may read and write.
///
/// # Errors
/// `ENOSYS` where the kernel has no System V objects, `ENOSPC` over its limit.
pub(crate) fn make_message_queue() -> Result<i32, Errno> {
    // SAFETY: msgget takes no memory.
    Errno::result(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) })
}

/// Puts one message on a queue, without waiting.
///
/// # Errors
/// `EINVAL` where there is no such queue, `EACCES`, `EAGAIN` when it is full.
pub(crate) fn send_message(queue: i32, text: [u8; MESSAGE_BYTES]) -> Result<(), Errno> {
    let message = Message { kind: 1, text };
    // SAFETY: the message is live and as long as it is said to be.
    let sent = unsafe { libc::msgsnd(queue, (&raw const message).cast(), MESSAGE_BYTES, libc::IPC_NOWAIT) };
    Errno::result(sent).map(drop)
}

/// Takes the next message from a queue, without waiting.
///
/// # Errors
/// `ENOMSG` when there is none.
pub(crate) fn take_message(queue: i32) -> Result<[u8; MESSAGE_BYTES], Errno> {
    let mut message = Message { kind: 0, text: [0; MESSAGE_BYTES] };
    // SAFETY: the message is live, writable and as long as it is said to be.
    let taken = unsafe { libc::msgrcv(queue, (&raw mut message).cast(), MESSAGE_BYTES, 0, libc::IPC_NOWAIT) };
    Errno::result(taken).map(|_| message.text)
}

/// Removes a queue.
///
/// # Errors
/// `EINVAL` where there is none.
pub(crate) fn remove_message_queue(queue: i32) -> Result<(), Errno> {
    // SAFETY: IPC_RMID reads no buffer.
    Errno::result(unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) }).map(drop)
}
