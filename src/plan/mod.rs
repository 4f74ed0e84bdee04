//! From a policy and a host to a plan: what will be built, what it enforces, and which promises it cannot keep.
//!
//! Everything here is a pure function of its input. Nothing is started, opened or probed.

#![forbid(unsafe_code)]

mod data;
mod error;
mod gaps;
mod landlock;
mod mounts;
mod planner;
mod seccomp;
mod standing;
mod world;

pub(crate) use crate::policy::path_text;
pub use data::{
    Backend, Fault, IdMap, Instruction, LandlockGrant, LandlockPlan, LandlockRule, MountKind, MountOp, MountPlan,
    Namespaces, PrivateSource, Rlimit, SandboxPlan, Shape,
};
pub use error::PlanError;
pub use planner::{BackendChoice, PlanInput, Planned, plan, wants_cgroup};
pub(crate) use seccomp::to_program;
pub use seccomp::{RuleSet, SeccompError, compile, shipped_rules};
pub(crate) use standing::Standing;
pub use world::{HostWorld, PathKind, World};
