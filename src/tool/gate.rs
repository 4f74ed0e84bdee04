//! The escalation gate's own judgement: what is asked, and whether it is asked properly. Pure; nobody is prompted here.

#![forbid(unsafe_code)]

use super::AdditionalPermissions;
use crate::policy::SandboxMode;

/// A well-formed wish for more than the effective mode gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A strictly wider mode.
    Mode(SandboxMode),
    /// Permissions on top of a confining mode.
    Extra(AdditionalPermissions),
}

/// Why a wish is not even put to an approver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No justification beside a wish.
    #[error(
        "invalid arguments: {with} needs justification: one sentence for the user, why this exact command needs it"
    )]
    NoJustification {
        /// The argument it is missing beside.
        with: &'static str,
    },
    /// A justification for nothing.
    #[error(
        "invalid arguments: justification goes with sandbox_permissions or additional_permissions, and neither was given"
    )]
    NothingJustified,
    /// Both ways at once.
    #[error(
        "invalid arguments: sandbox_permissions and additional_permissions exclude each other; ask for the narrower"
    )]
    Both,
    /// Not wider.
    #[error(
        "escalation refused: {asked} is not wider than {effective}, the mode this call runs under anyway; run the command without sandbox_permissions"
    )]
    NotWider {
        /// The mode asked for.
        asked: SandboxMode,
        /// The mode in force.
        effective: SandboxMode,
    },
    /// Nothing is confined.
    #[error(
        "escalation refused: this call runs under danger-full-access, where nothing is refused; run the command without additional_permissions"
    )]
    NothingConfined,
}

/// Judges the three escalation arguments against the mode in force. `None` means that nothing is asked for: the call
/// runs under that mode. Empty lists, like null, ask for nothing; a blank justification justifies nothing.
///
/// # Errors
/// When the arguments do not go together, or what they ask for is not wider.
pub fn examine(
    mode: Option<SandboxMode>,
    extra: Option<&AdditionalPermissions>,
    justification: Option<&str>,
    effective: SandboxMode,
) -> Result<Option<(Wanted, String)>, GateError> {
    let extra = extra.filter(|extra| !extra.is_empty());
    let justification = justification.map(str::trim).filter(|why| !why.is_empty());
    let (wanted, with) = match (mode, extra) {
        (None, None) if justification.is_some() => return Err(GateError::NothingJustified),
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(GateError::Both),
        (Some(mode), None) => (Wanted::Mode(mode), "sandbox_permissions"),
        (None, Some(extra)) => (Wanted::Extra(extra.clone()), "additional_permissions"),
    };
    let Some(why) = justification else { return Err(GateError::NoJustification { with }) };
    match wanted {
        Wanted::Mode(asked) if asked <= effective => Err(GateError::NotWider { asked, effective }),
        Wanted::Extra(_) if !effective.confines() => Err(GateError::NothingConfined),
        wanted => Ok(Some((wanted, why.to_owned()))),
    }
}
