//! From what was promised and what was seen to a verdict. Pure.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::cell::{Cell, Outcome};
use crate::executor::Gap;
use crate::policy::{NetworkMode, SandboxMode};

/// What a cell comes to under one mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is as promised, or stricter.
    Kept,
    /// It is not, and the run's result names the gap.
    Gap,
    /// It is not, and nothing names it.
    Broken,
    /// The policy in force promises nothing of it.
    NotPromised,
    /// This host does not do it without stockade either.
    NotHere,
}

impl Status {
    /// The words used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Gap => "gap",
            Self::Broken => "NOT KEPT",
            Self::NotPromised => "not promised",
            Self::NotHere => "not on this host",
        }
    }
}

/// What is known of a run.
pub(super) struct Setting<'a> {
    pub(super) mode: SandboxMode,
    /// Landlock alone confines: what would be private may be refused instead.
    pub(super) landlock_alone: bool,
    pub(super) gaps: &'a [Gap],
    pub(super) network: NetworkMode,
    /// The policy sets no limit for what the cell is about.
    pub(super) unlimited: bool,
}

pub(super) fn judge(cell: &Cell, setting: &Setting<'_>, control: Outcome, found: Outcome) -> Status {
    let expected = cell.expected(setting.mode);
    let stricter = setting.landlock_alone && expected == Outcome::Private && found == Outcome::Refused;
    if setting.unlimited {
        return Status::NotPromised;
    }
    if found == expected || stricter {
        return Status::Kept;
    }
    let works_nowhere = expected != Outcome::Refused && control != Outcome::Lands && found == Outcome::Refused;
    if works_nowhere {
        return Status::NotHere;
    }
    if cell.act.needs_network() && setting.network == NetworkMode::Full {
        return Status::NotPromised;
    }
    // A gap explains what is let through or refused; it does not explain that nothing is known.
    match cell.gap {
        Some(gap) if setting.gaps.contains(&gap) && matches!(found, Outcome::Lands | Outcome::Refused) => Status::Gap,
        _ => Status::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::*;
    use super::*;
    use crate::verify::cell::{Act, Group};

    fn cell(promise: Outcome, gap: Option<Gap>, act: Act) -> Cell {
        Cell { group: Group::Network, what: "x", place: "", act, read_only: promise, workspace_write: Lands, gap }
    }

    fn setting(gaps: &[Gap]) -> Setting<'_> {
        Setting {
            mode: SandboxMode::ReadOnly,
            landlock_alone: false,
            gaps,
            network: NetworkMode::Off,
            unlimited: false,
        }
    }

    #[test]
    fn what_lands_in_spite_of_a_promise_is_broken_unless_a_gap_names_it() {
        let refused = cell(Refused, Some(Gap::Metadata), Act::See);
        assert_eq!(judge(&refused, &setting(&[]), Lands, Refused), Status::Kept);
        assert_eq!(judge(&refused, &setting(&[]), Lands, Lands), Status::Broken);
        assert_eq!(judge(&refused, &setting(&[Gap::Metadata]), Lands, Lands), Status::Gap);
        assert_eq!(judge(&refused, &setting(&[Gap::Ioctl]), Lands, Lands), Status::Broken);
        let nameless = cell(Refused, None, Act::See);
        assert_eq!(judge(&nameless, &setting(&[Gap::Metadata]), Lands, Lands), Status::Broken);
    }

    #[test]
    fn no_answer_and_no_agreement_are_never_kept() {
        let refused = cell(Refused, Some(Gap::Metadata), Act::See);
        for found in [NoAnswer, Unclear, Private] {
            for gaps in [&[][..], &[Gap::Metadata]] {
                assert_eq!(judge(&refused, &setting(gaps), Lands, found), Status::Broken, "{found:?}");
            }
        }
    }

    #[test]
    fn what_works_nowhere_is_no_fault_of_the_sandbox() {
        let lands = cell(Lands, None, Act::OwnLoopback);
        assert_eq!(judge(&lands, &setting(&[]), Lands, Refused), Status::Broken);
        assert_eq!(judge(&lands, &setting(&[]), Refused, Refused), Status::NotHere);
        assert_eq!(judge(&lands, &setting(&[]), Refused, NoAnswer), Status::Broken);
        // Nothing makes up for a refusal that did not happen.
        assert_eq!(judge(&cell(Refused, None, Act::See), &setting(&[]), Refused, Lands), Status::Broken);
    }

    #[test]
    fn refused_instead_of_private_is_stricter_without_namespaces_alone() {
        let private = cell(Private, None, Act::See);
        assert_eq!(judge(&private, &setting(&[]), Lands, Refused), Status::Broken);
        let alone = Setting { landlock_alone: true, ..setting(&[]) };
        assert_eq!(judge(&private, &alone, Lands, Refused), Status::Kept);
        assert_eq!(judge(&private, &alone, Lands, Lands), Status::Broken);
    }

    #[test]
    fn an_open_network_promises_nothing_of_itself_alone() {
        let open = Setting { network: NetworkMode::Full, ..setting(&[]) };
        assert_eq!(judge(&cell(Refused, None, Act::TcpConnect), &open, Lands, Lands), Status::NotPromised);
        assert_eq!(judge(&cell(Refused, None, Act::UnixAbstract), &open, Lands, Lands), Status::Broken);
    }
}
