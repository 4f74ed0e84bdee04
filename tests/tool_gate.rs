//! The gate: nothing gets wider without a yes, whatever a model, an approver or the clock come up with.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use stockade::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver};
use stockade::policy::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};
use stockade::session::{Session, set_sandbox_mode};
use stockade::tool::{
    AdditionalPermissions, GateError, PermissionError, ProtectedList, ToolHost, Wanted, canonical_grant, examine,
};
use support::FakeExecutor;
use support::approver::{Scripted, rejected};
use tokio_util::sync::CancellationToken;

fn extra(write: &[&str], read: &[&str], network: &[&str]) -> AdditionalPermissions {
    let list = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect());
    AdditionalPermissions { write: list(write), read: list(read), network: list(network) }
}

#[test]
fn pairing_and_width() {
    let asks = extra(&["/x"], &[], &[]);
    let none = AdditionalPermissions::default();
    let wide = Some(WorkspaceWrite);
    assert_eq!(examine(None, None, None, ReadOnly), Ok(None));
    assert_eq!(examine(None, Some(&none), Some(" "), ReadOnly), Ok(None), "empty means none");
    assert_eq!(
        examine(wide, None, Some(" why "), ReadOnly),
        Ok(Some((Wanted::Mode(WorkspaceWrite), "why".to_owned())))
    );
    assert!(matches!(examine(None, Some(&asks), Some("why"), WorkspaceWrite), Ok(Some((Wanted::Extra(_), _)))));
    assert!(matches!(examine(wide, None, None, ReadOnly), Err(GateError::NoJustification { .. })));
    assert!(matches!(examine(wide, None, Some("\n"), ReadOnly), Err(GateError::NoJustification { .. })));
    assert!(matches!(examine(None, Some(&asks), None, ReadOnly), Err(GateError::NoJustification { .. })));
    assert_eq!(examine(None, None, Some("why"), ReadOnly), Err(GateError::NothingJustified));
    assert_eq!(examine(wide, Some(&asks), Some("why"), ReadOnly), Err(GateError::Both));
    assert!(matches!(examine(wide, None, Some("why"), WorkspaceWrite), Err(GateError::NotWider { .. })));
    assert!(matches!(examine(wide, None, Some("why"), DangerFullAccess), Err(GateError::NotWider { .. })));
    assert_eq!(examine(None, Some(&asks), Some("why"), DangerFullAccess), Err(GateError::NothingConfined));
}

#[test]
fn paths_are_resolved_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("w/.git/hooks")).unwrap();
    std::fs::write(root.join("file"), "").unwrap();
    std::os::unix::fs::symlink(root.join("w/.git"), root.join("innocent")).unwrap();
    std::os::unix::fs::symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    let guard = ProtectedList(vec![root.join("w/.git/hooks")]);
    let grant =
        |path: &str| canonical_grant(&extra(&[&path.replace('@', root.to_str().unwrap())], &[], &[]), &root, &guard);
    let written = |path: &str| grant(path).map(|(grant, protected)| (grant.write, protected));

    assert_eq!(written("@/w/new/deep").unwrap(), (vec![root.join("w/new/deep")], vec![]));
    assert_eq!(written("@/w/../file").unwrap(), (vec![root.join("file")], vec![]));
    // Named exactly, also through a link: shown as protected. Merely containing it: refused.
    for named in ["@/w/.git/hooks", "@/innocent/hooks", "@/w/.git/hooks/pre-commit"] {
        let (paths, protected) = written(named).unwrap();
        assert_eq!(paths, protected, "{named}");
        assert!(paths[0].starts_with(root.join("w/.git/hooks")));
    }
    for containing in ["@/w", "@/w/.git", "@/innocent", "@"] {
        assert!(matches!(written(containing), Err(PermissionError::Protected { .. })), "{containing}");
    }
    for bad in
        ["relative", "", "./x", "~/x", "@/dangling", "@/dangling/x", "@/file/below", "@/gone/../w", "@/a\0b", "/"]
    {
        assert!(matches!(written(bad), Err(PermissionError::Path { .. })), "{bad:?}");
    }
    let many = vec!["/x"; 17];
    assert!(matches!(canonical_grant(&extra(&many, &[], &[]), &root, &guard), Err(PermissionError::TooMany { .. })));
}

#[test]
fn hosts_are_exact_or_refused() {
    let guard = ProtectedList::default();
    let host = |entry: &str| {
        canonical_grant(&extra(&[], &[], &[entry]), Path::new("/"), &guard).map(|(grant, _)| grant.network)
    };
    for (given, want) in [
        ("crates.io", "crates.io"),
        ("CRATES.io.:443", "crates.io:443"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
        ("::1", "[::1]"),
        ("[2001:db8:0::1]:1", "[2001:db8::1]:1"),
    ] {
        assert_eq!(host(given).unwrap(), [want], "{given}");
    }
    for bad in [
        "",
        "*",
        "*.io",
        "http://a",
        "a/b",
        "a b",
        "a@b",
        "evil\0.crates.io",
        "a:0",
        "a:65536",
        "a:",
        "a:08",
        "a:+1",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]:80",
        "::ffff:1.2.3.4",
        "[fe80::1%eth0]",
        "-a.b",
        "a..b",
        "10.0.0.0/8",
    ] {
        assert!(host(bad).is_err(), "{bad:?} gave {:?}", host(bad));
    }
}

/// Says yes, after having switched the session to a mode and, if wanted, after the question was withdrawn.
struct Switching(Arc<Session>, SandboxMode, Option<CancellationToken>);

impl Approver for Switching {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest, _: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async {
            set_sandbox_mode(&self.0, self.1).unwrap();
            if let Some(cancel) = &self.2 {
                cancel.cancel();
            }
            ApprovalOutcome::AllowedOnce
        })
    }
}

#[tokio::test]
async fn a_yes_is_to_what_was_shown_and_a_late_one_to_nothing() {
    for (before, switched, late) in [
        (ReadOnly, DangerFullAccess, false),
        (WorkspaceWrite, ReadOnly, false),
        (WorkspaceWrite, WorkspaceWrite, false),
        (ReadOnly, ReadOnly, true),
    ] {
        let session = Arc::new(Session::in_memory("s".parse().unwrap(), "/").unwrap());
        set_sandbox_mode(&session, before).unwrap();
        let executor = FakeExecutor::confining(ReadOnly);
        let cancel = CancellationToken::new();
        let approver = Switching(Arc::clone(&session), switched, late.then(|| cancel.clone()));
        let guard = Arc::new(ProtectedList::default());
        let builder = ToolHost::builder(executor.clone()).home("/h").protected_paths(guard);
        let host = builder.approver(Arc::new(approver)).build().unwrap();
        let wish = json!({ "write": ["/nonexistent/a"] });
        let args =
            json!({ "command": "true", "description": "x", "additional_permissions": wish, "justification": "Why." });
        let result = host.call(Some(&session), "bash", args, &cancel).await;
        assert_eq!(result.is_error, late, "{}", result.text);
        let modes: Vec<_> = executor.ran().into_iter().map(|spec| spec.policy.unwrap().mode).collect();
        assert_eq!(modes, if late { vec![] } else { vec![before.min(switched)] });
    }
}

#[tokio::test]
async fn without_a_list_of_protected_paths_no_path_is_granted() {
    let session = Session::in_memory("s".parse().unwrap(), "/").unwrap();
    let executor = FakeExecutor::confining(ReadOnly);
    let approver = Scripted::answering([ApprovalOutcome::AllowedOnce]);
    let host = ToolHost::builder(executor.clone()).home("/h").approver(approver.clone()).build().unwrap();
    let with = |wish: Value| json!({ "command": "true", "description": "x", "additional_permissions": wish, "justification": "Why." });
    let cancel = CancellationToken::new();
    let refused = host.call(Some(&session), "bash", with(json!({ "read": ["/nonexistent/a"] })), &cancel).await;
    assert!(refused.is_error && approver.asked().is_empty() && executor.ran().is_empty(), "{}", refused.text);
    // Control: what is not a path is asked.
    let asked = host.call(Some(&session), "bash", with(json!({ "network": ["a.example:1"] })), &cancel).await;
    assert!(!asked.is_error, "{}", asked.text);
}

fn outcome() -> impl Strategy<Value = ApprovalOutcome> {
    prop_oneof![
        Just(ApprovalOutcome::AllowedOnce),
        Just(rejected()),
        Just(ApprovalOutcome::Cancelled),
        Just(ApprovalOutcome::Unavailable { reason: "gone".to_owned() }),
    ]
}

fn mode() -> impl Strategy<Value = SandboxMode> {
    prop_oneof![Just(ReadOnly), Just(WorkspaceWrite), Just(DangerFullAccess)]
}

/// Values a model may put into the escalation arguments, sensible and not.
fn wish() -> impl Strategy<Value = Value> {
    let permissions = prop_oneof![
        6 => Just(Value::Null),
        1 => Just(json!("workspace-write")),
        1 => Just(json!("danger-full-access")),
        1 => Just(json!("read-only")),
        1 => Just(json!("")),
        1 => Just(json!(["danger-full-access"])),
        1 => Just(json!(2)),
    ];
    let additional = prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!({})),
        1 => Just(json!({ "write": [] })),
        3 => Just(json!({ "write": ["/nonexistent/a"] })),
        1 => Just(json!({ "write": ["relative"] })),
        1 => Just(json!({ "read": ["/etc"], "network": ["a.example:1"] })),
        1 => Just(json!({ "write": "/" })),
        1 => Just(json!("danger-full-access")),
    ];
    let justification = prop_oneof![1 => Just(Value::Null), 1 => Just(json!("")), 6 => Just(json!("It is needed.")), 1 => Just(json!(true))];
    (permissions, additional, justification, any::<bool>(), any::<bool>(), 0..9).prop_map(
        |(permissions, additional, why, env, background, n)| {
            let mut args =
                json!({ "command": format!("echo {n}"), "description": "Say", "run_in_background": background });
            for (key, value) in
                [("sandbox_permissions", permissions), ("additional_permissions", additional), ("justification", why)]
            {
                if !value.is_null() || env {
                    args[key] = value;
                }
            }
            if env {
                args["policy"] = json!({ "mode": "danger-full-access" });
                args["sandboxMode"] = json!("danger-full-access");
            }
            args
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// No input yields a wider run without an allowed-once, and with one it yields what was shown and nothing else.
    #[test]
    fn nothing_is_wider_without_a_yes(
        wishes in prop::collection::vec((wish(), outcome(), prop::option::of(mode())), 1..6),
        default in mode(),
        mounted in any::<bool>(),
        in_session in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let session = Session::in_memory("s".parse().unwrap(), dir.path()).unwrap();
            let executor = FakeExecutor::confining(default);
            let mut effective = default;
            for (args, outcome, switch) in wishes {
                if let Some(mode) = switch {
                    set_sandbox_mode(&session, mode).unwrap();
                    effective = mode;
                }
                let approver = Scripted::answering([outcome.clone()]);
                let mut builder = ToolHost::builder(executor.clone()).home("/h");
                builder = builder.protected_paths(Arc::new(ProtectedList(vec![PathBuf::from("/etc/shadow")])));
                if mounted {
                    builder = builder.approver(approver.clone());
                }
                let host = builder.build().unwrap();
                let before = executor.ran().len();
                let result = host.call(in_session.then_some(&session), "bash", args.clone(), &CancellationToken::new()).await;
                let ran = executor.ran().split_off(before);
                let asked = approver.asked();
                let yes = asked.len() == 1 && outcome == ApprovalOutcome::AllowedOnce;
                prop_assert!(asked.len() <= 1 && ran.len() <= 1);
                if !asked.is_empty() && !yes {
                    prop_assert!(ran.is_empty() && result.is_error, "{args} {result:?}");
                }
                for spec in ran {
                    match (spec.policy, asked.first().map(|request| &request.asks)) {
                        (None, asks) => prop_assert!(!in_session && asks.is_none()),
                        (Some(policy), None) => {
                            prop_assert_eq!(policy.mode, effective);
                            prop_assert!(policy.extra.is_empty());
                        }
                        (Some(policy), Some(stockade::approval::Asks::Mode(mode))) => {
                            prop_assert!(yes && *mode > effective);
                            prop_assert_eq!(policy.mode, *mode);
                            prop_assert!(policy.extra.is_empty());
                        }
                        (Some(policy), Some(stockade::approval::Asks::Extra { grant, .. })) => {
                            prop_assert!(yes);
                            prop_assert_eq!(policy.mode, effective);
                            prop_assert_eq!(&policy.extra, grant);
                        }
                    }
                }
            }
            Ok(())
        })?;
    }
}
