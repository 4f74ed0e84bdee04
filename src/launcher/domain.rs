//! Entering the Landlock domain that a plan describes.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::step::{At, StepError};
use crate::plan::{LandlockGrant, LandlockPlan, LandlockRule};

/// Builds the ruleset inside the final mount namespace and restricts this process. Every right is a hard requirement:
/// the plan was made for this kernel's ABI, so anything less than full enforcement is a failure.
pub(super) fn enter(plan: &LandlockPlan) -> Result<(), StepError> {
    let abi = ABI::from(plan.abi);
    let mut created = handled(plan, abi).map_err(refused)?;
    for rule in &plan.grants {
        created = grant(created, plan, rule, abi).at(&rule.path)?;
    }
    if plan.abi >= 7 && plan.audit {
        created = created.log_new_exec(true).map_err(refused)?;
    }
    let status = created.restrict_self().map_err(refused)?;
    if status.ruleset == RulesetStatus::FullyEnforced { Ok(()) } else { Err(Errno::EOPNOTSUPP.into()) }
}

fn handled(plan: &LandlockPlan, abi: ABI) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
    if plan.refuse_tcp {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    if plan.scope_signals {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    if plan.scope_abstract_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    ruleset.create()
}

fn grant(
    created: RulesetCreated,
    plan: &LandlockPlan,
    rule: &LandlockRule,
    abi: ABI,
) -> Result<RulesetCreated, StepError> {
    let path: OwnedFd = match open(&rule.path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) {
        Err(Errno::ENOENT) if rule.optional => return Ok(created),
        opened => opened?,
    };
    let mut rights = rights(rule.grant, abi);
    if plan.refuse_sockets {
        rights &= !AccessFs::ResolveUnix;
    }
    if !SFlag::from_bits_truncate(fstat(&path)?.st_mode).contains(SFlag::S_IFDIR) {
        rights &= AccessFs::from_file(abi);
    }
    created.add_rule(PathBeneath::new(path, rights)).map_err(refused)
}

fn rights(grant: LandlockGrant, abi: ABI) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(abi);
    let wanted = match grant {
        LandlockGrant::List => AccessFs::ReadDir.into(),
        LandlockGrant::Read => AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir,
        LandlockGrant::ReadWrite => all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev),
        LandlockGrant::Device => {
            AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
    };
    wanted & all
}

/// The crate's errors carry the kernel's as their innermost source.
fn refused(error: landlock::RulesetError) -> StepError {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = source {
        if let Some(code) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Errno::from_raw(code).into();
        }
        source = error.source();
    }
    Errno::EOPNOTSUPP.into()
}
