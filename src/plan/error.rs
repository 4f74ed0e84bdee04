//! Why no plan can be made.

use nix::errno::Errno;

use crate::executor::Gap;
use crate::launcher::SetupFailure;

use super::SeccompError;

/// Nothing will run; the reason and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The kernel has no seccomp filters, which every confining mode needs.
    #[error(
        "this kernel has no seccomp filters, without which no mode but danger-full-access can be kept; \
         use a kernel built with CONFIG_SECCOMP_FILTER"
    )]
    NoSeccomp,
    /// Neither namespaces nor Landlock.
    #[error(
        "this host offers neither namespaces nor Landlock, so nothing can be confined{}; use Linux 5.13 or later with \
         Landlock enabled (lsm=...,landlock), or allow user namespaces (sysctl user.max_user_namespaces, \
         kernel.apparmor_restrict_unprivileged_userns=0)", list(.refusals)
    )]
    NothingConfines {
        /// What was refused on the way.
        refusals: Vec<SetupFailure>,
    },
    /// The backend that was demanded is not to be had here.
    #[error("the {wanted} backend was asked for and this host cannot provide it{}{}", list(.refusals), remedy(.wanted))]
    BackendUnavailable {
        /// The backend's name.
        wanted: &'static str,
        /// What was refused on the way.
        refusals: Vec<SetupFailure>,
    },
    /// `--require full` and something is missing.
    #[error(
        "full enforcement was required and this host leaves gaps: {}{}; `stockade doctor` tells how to close them, \
         `--require partial` runs with them", names(.gaps), list(.refusals)
    )]
    RequireFull {
        /// The gaps.
        gaps: Vec<Gap>,
        /// What was refused on the way.
        refusals: Vec<SetupFailure>,
    },
    /// The allowlist needs a network namespace, where its proxy is the only way out.
    #[error(
        "an allowlisted network needs a network namespace, and there is none without the namespaces backend{}; allow \
         namespaces here (`stockade doctor` tells how), or run with --network off or full", list(.refusals)
    )]
    AllowlistNeedsNamespace {
        /// What was refused on the way.
        refusals: Vec<SetupFailure>,
    },
    /// What stands beneath `/` is granted by name, and cannot be listed.
    #[error("the root directory cannot be listed, so Landlock cannot grant what stands in it: {0}; make / readable")]
    Root(#[source] std::io::Error),
    /// The filters could not be made.
    #[error(transparent)]
    Seccomp(#[from] SeccompError),
}

fn remedy(wanted: &str) -> &'static str {
    match wanted {
        "landlock" => "; use Linux 5.13 or later with Landlock enabled (lsm=...,landlock)",
        _ => "; `stockade doctor` tells what it lacks",
    }
}

fn list(refusals: &[SetupFailure]) -> String {
    let missing = |refusal: &SetupFailure| match Errno::from_raw(refusal.errno) {
        Errno::ENOSYS => {
            "; Linux has had all the mount calls since 5.12, and a container's seccomp profile may hide them"
        }
        _ => "",
    };
    refusals.last().map(|refusal| format!(" ({refusal}{})", missing(refusal))).unwrap_or_default()
}

fn names(gaps: &[Gap]) -> String {
    gaps.iter().map(|gap| gap.as_str()).collect::<Vec<_>>().join(", ")
}
