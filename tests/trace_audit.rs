//! The audit witness against a real Landlock domain, where this host lets its log be read.

#![allow(clippy::unwrap_used)] // a test that cannot set its scene has failed

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/auditing.rs"]
mod auditing;
mod trace_support;

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};
use stockade::denial::audit::{AuditReader, AuditState, AuditSwitch};
use stockade::denial::{DenialKind, Target, Witness};
use trace_support::again_as_user;

const INNER: &str = "TRACE_AUDIT_CONFINED";

/// The confined side: may read everything and write nothing, and tries to.
fn confined(file: &str) {
    let rules = path_beneath_rules(["/"], AccessFs::from_read(ABI::V5));
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5)).unwrap().create().unwrap();
    ruleset.add_rules(rules).unwrap().restrict_self().unwrap();
    let refused = std::fs::OpenOptions::new().write(true).open(file).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(nix::errno::Errno::EACCES as i32));
    assert!(std::fs::File::open(file).is_ok());
}

#[test]
fn a_refusal_of_a_domain_is_read_and_given_to_its_run() {
    if let Ok(file) = std::env::var(INNER) {
        confined(&file);
        return;
    }
    let _turn = auditing::Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("with blank");
    std::fs::write(&file, "x").unwrap();
    let state = AuditState::detect();
    eprintln!("audit here: {state:?}");
    let mut reader = match (state, AuditReader::open()) {
        (AuditState::Readable | AuditState::Disabled, reader) => reader.unwrap(),
        (AuditState::NoPermission | AuditState::NotCompiled, reader) => {
            assert!(reader.is_err() && AuditSwitch::on().is_err());
            return;
        }
    };
    // Where it is off it is turned on for this test, and off again.
    let switch = AuditSwitch::on().unwrap();
    assert_eq!(AuditState::detect(), AuditState::Readable);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_refusal_of_a_domain_is_read_and_given_to_its_run"])
        .env(INNER, &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    reader.enter(1);
    reader.enter(pid);
    assert!(child.wait().unwrap().success());
    // The kernel's own thread sends what is recorded.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let other = reader.take(1).unwrap();
    assert_eq!(other.observations, [], "another run's");
    let record = reader.take(pid).unwrap();
    drop(switch);
    assert_eq!(AuditState::detect(), state);
    assert_eq!(record.observations.len(), 1, "{record:?}");
    let seen = &record.observations[0];
    assert_eq!((seen.kind, seen.witness), (DenialKind::FsWrite, Witness::Audit));
    assert_eq!(seen.target, Target::Path(file));
    assert_eq!(reader.take(pid).unwrap().observations, [], "given out twice");
}

#[test]
fn an_ordinary_user_is_told_that_it_may_not() {
    if !again_as_user("an_ordinary_user_is_told_that_it_may_not") {
        assert!(matches!(AuditState::detect(), AuditState::NoPermission | AuditState::NotCompiled));
    } else {
        assert_ne!(AuditState::detect(), AuditState::NoPermission);
    }
}
