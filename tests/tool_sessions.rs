//! Sessions on disk: permissions, locking, torn and damaged logs, and the fold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use stockade::policy::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};
use stockade::session::{
    Answer, CallOutcome, DeniedRun, Escalation, Session, SessionError, SessionEvent, SessionId, SessionState,
    SessionStore, effective_sandbox_mode, set_sandbox_mode,
};

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn mode_of(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn logs_are_private_and_have_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("deep/log")).unwrap();
    let session = store.create(id("a"), dir.path()).unwrap();
    let path = session.path().unwrap().to_owned();
    assert_eq!((mode_of(&path), mode_of(path.parent().unwrap())), (0o600, 0o700));
    assert!(matches!(store.create(id("a"), dir.path()), Err(SessionError::Exists { .. })));
    assert!(matches!(store.resume(&id("a")), Err(SessionError::Busy { .. })), "two writers would interleave");
    drop(session);
    assert!(store.resume(&id("a")).is_ok());
    assert!(matches!(store.resume(&id("b")), Err(SessionError::NotFound { .. })));
    assert_eq!(store.list().unwrap(), [id("a")]);

    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(matches!(store.resume(&id("a")), Err(SessionError::Exposed { .. })));
    std::fs::set_permissions(path.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    assert!(matches!(SessionStore::at(path.parent().unwrap()), Err(SessionError::Exposed { .. })));
    // A link in a log's place is not followed.
    let target = dir.path().join("target");
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, path.with_file_name("l.jsonl")).unwrap();
    assert!(store.resume(&id("l")).is_err() && store.create(id("l"), dir.path()).is_err());
    assert_eq!(target.metadata().unwrap().len(), 0);
}

#[test]
fn the_directory_is_canonical_and_must_stay_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let store = SessionStore::at(root.join("log")).unwrap();
    std::fs::create_dir(root.join("w")).unwrap();
    std::os::unix::fs::symlink(root.join("w"), root.join("link")).unwrap();
    let session = store.create(id("a"), root.join("link")).unwrap();
    assert_eq!(session.cwd(), root.join("w"));
    drop(session);
    assert!(store.open(id("a"), root.join("w/.")).is_ok());
    assert!(matches!(store.open(id("a"), &root), Err(SessionError::CwdMoved { .. })));
    // The workspace is swapped for a link to somewhere else: the session does not follow.
    std::fs::rename(root.join("w"), root.join("old")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("w")).unwrap();
    assert!(matches!(store.resume(&id("a")), Err(SessionError::CwdMoved { .. })));
    assert!(matches!(Session::in_memory(id("b"), root.join("none")), Err(SessionError::Cwd { .. })));
}

#[test]
fn a_log_cut_anywhere_is_recovered_and_the_cut_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create(id("a"), dir.path()).unwrap();
    let path = session.path().unwrap().to_owned();
    set_sandbox_mode(&session, WorkspaceWrite).unwrap();
    let acknowledged = path.metadata().unwrap().len();
    set_sandbox_mode(&session, DangerFullAccess).unwrap();
    drop(session);
    let whole = std::fs::read(&path).unwrap();
    for cut in usize::try_from(acknowledged).unwrap()..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let torn = cut as u64 - acknowledged;
        let session = store.resume(&id("a")).unwrap();
        if cut == whole.len() {
            assert_eq!((session.sandbox_mode(), session.recovered()), (Some(DangerFullAccess), None));
            continue;
        }
        assert_eq!(session.sandbox_mode(), Some(WorkspaceWrite), "cut at {cut}");
        assert_eq!(session.recovered().map(|cut| cut.dropped), (torn > 0).then_some(torn));
        let events = session.events().unwrap();
        assert_eq!(
            matches!(events.last().unwrap().event, SessionEvent::Recovered { dropped } if dropped == torn),
            torn > 0
        );
        // What is appended next stands on a line of its own.
        set_sandbox_mode(&session, ReadOnly).unwrap();
        drop(session);
        assert_eq!(store.resume(&id("a")).unwrap().sandbox_mode(), Some(ReadOnly));
    }
}

#[test]
fn damage_before_the_last_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create(id("a"), dir.path()).unwrap();
    let path = session.path().unwrap().to_owned();
    set_sandbox_mode(&session, DangerFullAccess).unwrap();
    set_sandbox_mode(&session, ReadOnly).unwrap();
    drop(session);
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let damaged = |text: String| {
        std::fs::write(&path, text).unwrap();
        matches!(store.resume(&id("a")), Err(SessionError::Damaged { .. }))
    };
    // The narrowing event altered, dropped with another after it, or moved: the session must not come back wider.
    assert!(damaged(format!("{}\n{}\nnot json\n", lines[0], lines[1])));
    assert!(damaged(format!("{}\n{}\n{}\n", lines[0], lines[1], lines[2].replace("read-only", "wide-open"))));
    assert!(damaged(format!("{}\n{}\n", lines[0], lines[2])));
    assert!(damaged(format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1])));
    assert!(damaged(format!("{}\n", lines[1])));
    assert!(damaged(String::new()));
    // Controls: as it was, and with an event of a newer version in it.
    assert!(!damaged(whole.clone()));
    assert!(!damaged(format!("{whole}{{\"seq\":4,\"at\":1,\"type\":\"novel/event\",\"more\":[1]}}\n")));
    let session = store.resume(&id("a")).unwrap();
    assert_eq!(session.sandbox_mode(), Some(ReadOnly));
    assert_eq!(session.events().unwrap().last().unwrap().event, SessionEvent::Unknown);
}

#[test]
fn a_full_disk_changes_nothing_and_leaves_no_half_line() {
    // A file size limit stands in for the full disk; it holds for this process only, so it runs in a child.
    if std::env::var_os("STOCKADE_TEST_FULL").is_none() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_full_disk_changes_nothing_and_leaves_no_half_line", "--test-threads=1"])
            .env("STOCKADE_TEST_FULL", "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create(id("a"), dir.path()).unwrap();
    set_sandbox_mode(&session, ReadOnly).unwrap();
    let len = session.path().unwrap().metadata().unwrap().len();
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE).unwrap();
    let limit = |bytes| nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE, bytes, hard).unwrap();
    let ignore = nix::sys::signal::SigSet::from(nix::sys::signal::Signal::SIGXFSZ);
    ignore.thread_block().unwrap();
    limit(len + 10);
    let failed = set_sandbox_mode(&session, DangerFullAccess);
    limit(hard);
    assert!(failed.is_err());
    assert_eq!(session.sandbox_mode(), Some(ReadOnly), "what is not in the log did not happen");
    assert_eq!(session.path().unwrap().metadata().unwrap().len(), len);
    set_sandbox_mode(&session, WorkspaceWrite).unwrap();
    drop(session);
    assert_eq!(store.resume(&id("a")).unwrap().sandbox_mode(), Some(WorkspaceWrite));
}

#[test]
fn garbage_appended_without_a_newline_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::at(dir.path().join("log")).unwrap();
    let session = store.create(id("a"), dir.path()).unwrap();
    let path = session.path().unwrap().to_owned();
    drop(session);
    // What some file systems leave behind after a power cut.
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[0; 5000]).unwrap();
    assert_eq!(store.resume(&id("a")).unwrap().recovered().unwrap().dropped, 5000);
}

fn any_event() -> impl Strategy<Value = SessionEvent> {
    let mode = || prop_oneof![Just(ReadOnly), Just(WorkspaceWrite), Just(DangerFullAccess)];
    let answer = prop_oneof![
        Just(Answer::AllowedOnce),
        Just(Answer::Rejected),
        Just(Answer::Cancelled),
        Just(Answer::Unavailable)
    ];
    let escalation = |to: SandboxMode, command: &str| Escalation {
        call: 1,
        command: command.to_owned(),
        workdir: None,
        from: ReadOnly,
        to: Some(to),
        extra: stockade::denial::Grant::default(),
        justification: "why".to_owned(),
    };
    let number = prop_oneof![0u64..4, Just(u64::MAX)];
    prop_oneof![
        mode().prop_map(|mode| SessionEvent::SandboxMode { mode }),
        (number.clone(), mode())
            .prop_map(move |(ask, to)| SessionEvent::ApprovalAsked { ask, escalation: escalation(to, "c") }),
        (number.clone(), answer).prop_map(|(ask, answer)| SessionEvent::ApprovalAnswered { ask, answer }),
        Just(SessionEvent::RefusalsLifted),
        Just(SessionEvent::Unknown),
        number.clone().prop_map(|dropped| SessionEvent::Recovered { dropped }),
        number.clone().prop_map(|call| SessionEvent::ToolCall {
            call,
            tool: "bash".to_owned(),
            args: serde_json::Value::Null
        }),
        (number, mode(), "(bash-)?[0-9]{0,25}").prop_map(|(call, mode, task)| SessionEvent::ToolResult {
            call,
            outcome: CallOutcome {
                task: Some(task),
                denied: Some(DeniedRun { command: "c".to_owned(), mode, denials: Vec::new() }),
                ..CallOutcome::default()
            },
        }),
    ]
}

proptest! {
    /// Whatever the order, the fold does not panic, and the mode is that of the last mode event: no approval, result or
    /// unknown event widens it.
    #[test]
    fn the_fold_never_panics_and_never_widens(events in prop::collection::vec(any_event(), 0..40)) {
        let modes: Vec<SandboxMode> = events
            .iter()
            .filter_map(|event| if let SessionEvent::SandboxMode { mode } = event { Some(*mode) } else { None })
            .collect();
        let state = SessionState::fold(&events);
        prop_assert_eq!(effective_sandbox_mode(&events), modes.last().copied());
        prop_assert_eq!(state.mode(), modes.last().copied());
        prop_assert!(state.denied_runs().count() <= 64);
        // Taking every other kind of event out changes nothing.
        let only: Vec<_> = events.iter().filter(|event| matches!(event, SessionEvent::SandboxMode { .. })).collect();
        prop_assert_eq!(effective_sandbox_mode(only), modes.last().copied());
        // And each survives its way through the log.
        for event in events {
            let line = serde_json::to_string(&event).unwrap();
            prop_assert_eq!(serde_json::from_str::<SessionEvent>(&line).unwrap(), event);
        }
    }
}
