//! What this kernel and container offer, as plain data.
//!
//! Detection is in two steps. What can be asked for nothing (the Landlock ABI, the kernel's version, the credentials) is
//! asked once. What only an attempt can tell (namespaces, mounts, a fresh `/proc`) is found out by building the sandbox
//! itself: when a step of building is refused before the command starts, [`HostSupport::without`] says what the host
//! lacks, and the planner is asked again. So a first call costs no trial sandbox, and what a result reports was seen.

mod cgroup;
mod sockets;
mod support;

pub use cgroup::{CgroupError, Leaf, LeafHits, leaf_place};
pub use sockets::socket_names;
pub use support::{HostError, HostSupport, NamespaceRoute};
