//! The table: every operation that is tried, and what each mode promises of it. Data only.

#![forbid(unsafe_code)]

mod beyond;
mod files;
mod kernel;

use super::cell::{Act, Cell, Group, Outcome};
use crate::executor::Gap;

/// Every cell, in the order in which it is tried.
pub(super) fn cells() -> Vec<Cell> {
    [files::cells(), beyond::cells(), kernel::cells()].concat()
}

/// Refused by both confining modes.
const fn refused(group: Group, what: &'static str, place: &'static str, act: Act) -> Cell {
    let refused = Outcome::Refused;
    Cell { group, what, place, act, read_only: refused, workspace_write: refused, gap: None }
}

/// Goes on working in both.
const fn lands(group: Group, what: &'static str, place: &'static str, act: Act) -> Cell {
    Cell { read_only: Outcome::Lands, workspace_write: Outcome::Lands, ..refused(group, what, place, act) }
}

const fn excused(gap: Gap, cell: Cell) -> Cell {
    Cell { gap: Some(gap), ..cell }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cell_has_a_name_of_its_own() {
        let ids: BTreeSet<String> = cells().iter().map(Cell::id).collect();
        assert_eq!(ids.len(), cells().len());
        assert!(ids.len() > 200, "{}", ids.len());
    }

    #[test]
    fn every_group_has_cells_and_stands_together() {
        for group in Group::ALL {
            assert!(cells().iter().any(|cell| cell.group == group), "{group:?}");
        }
    }

    /// What both modes refuse must be refused; a table of promises to let things through would pass any sandbox.
    #[test]
    fn most_cells_are_refusals() {
        let refusals = cells().iter().filter(|cell| cell.read_only == Outcome::Refused).count();
        assert!(refusals * 4 > cells().len() * 3, "{refusals}");
    }
}
