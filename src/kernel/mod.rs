//! The only unsafe code of the crate: one function, one system call, one reason why it is sound.
//!
//! Calls that `nix`, `caps`, `landlock` or the standard library wrap safely are not wrapped again here.

#![allow(unsafe_code, reason = "this is the one module that may; each block says why it is sound")]

mod clone;
mod descriptor;
mod inert;
mod keyring;
mod landlock;
mod loopback;
mod mount;
pub(crate) mod notify;
mod process;
mod seccomp;
mod sysv;

pub(crate) use clone::{Cloned, clone_process, run_sharing_memory};
pub(crate) use descriptor::{adopt, close_all_but, close_on_exec_from, watch};
pub(crate) use inert::{ForeignTable, foreign_getpid, inert_call};
pub(crate) use keyring::{add_process_key, join_fresh_session_keyring};
pub(crate) use landlock::landlock_abi;
pub(crate) use loopback::bring_loopback_up;
pub(crate) use mount::{
    MountAttr, clone_tree, fs_context, move_mount_in, move_mount_onto, set_mount_attr, set_mount_attr_beneath,
};
pub(crate) use process::{default_signal_handling, exit_now, lower_limit, pidfd_kill, wipe_arguments_and_environment};
pub(crate) use seccomp::{
    chdir_past_filter, has_seccomp, install_filter, install_filter_with_listener, open_past_filter, send_descriptor,
};
pub(crate) use sysv::{MESSAGE_BYTES, make_message_queue, remove_message_queue, send_message, take_message};
