//! The command's environment: what is inherited, what is scrubbed, what is set.
//!
//! Knobs are in [`EnvironmentPolicy`]. Fails closed: a name that cannot be passed on as asked is an error, never dropped.

#![forbid(unsafe_code)]

mod name;
mod policy;

pub use name::{MANAGED_PREFIX, is_injection_name, is_managed_name, is_secret_name};
pub use policy::{EnvironmentError, EnvironmentPolicy, Variables, check_call};
