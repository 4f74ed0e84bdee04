//! The host's audit switch, taken by one test at a time: other test programs, and other checkouts, may want it too.

use std::fs::File;

use nix::fcntl::{Flock, FlockArg};
use stockade::denial::audit::{AuditState, AuditSwitch};

/// Auditing is on while this is held.
pub(crate) struct Auditing {
    _switch: AuditSwitch,
    _turn: Turn,
}

/// Nobody else of us touches the switch while this is held.
pub(crate) struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    pub(crate) fn wait() -> Self {
        // Anything that everybody can open will do; a lock on it is in nobody's way.
        let root = File::open("/").unwrap();
        Self { _lock: Flock::lock(root, FlockArg::LockExclusive).map_err(|(_, errno)| errno).unwrap() }
    }
}

/// Whether this host lets its audit be used by this process; said aloud where it does not.
pub(crate) fn usable() -> bool {
    let state = AuditState::detect();
    let usable = matches!(state, AuditState::Readable | AuditState::Disabled);
    if !usable {
        eprintln!("audit is not tested here: {state}");
    }
    usable
}

impl Auditing {
    pub(crate) fn on() -> Self {
        let turn = Turn::wait();
        Self { _switch: AuditSwitch::on().unwrap(), _turn: turn }
    }
}
