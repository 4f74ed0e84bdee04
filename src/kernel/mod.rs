//! The only unsafe code of the crate: one function, one system call, one `SAFETY` sentence.

pub(crate) mod notify;
