//! The approvers: rules, and a person at a terminal (a pseudo-terminal here).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::pty::{OpenptyResult, openpty};
use stockade::approval::{
    ApprovalFuture, ApprovalOutcome, ApprovalRequest, ApprovalRules, Approver, Asks, RuleApprover, RuleDecision,
    TerminalApprover,
};
use stockade::denial::Grant;
use stockade::policy::SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
use tokio_util::sync::CancellationToken;

fn request(command: &str, asks: Asks) -> ApprovalRequest {
    ApprovalRequest {
        tool: "bash".to_owned(),
        session: "s".to_owned(),
        workspace: PathBuf::from("/w"),
        command: command.to_owned(),
        workdir: Some(PathBuf::from("/w")),
        background: false,
        mode: ReadOnly,
        asks,
        justification: "It is needed.".to_owned(),
        grounds: Vec::new(),
    }
}

fn extra(write: &[&str], read: &[&str], network: &[&str]) -> Asks {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
    let network = network.iter().map(|entry| (*entry).to_owned()).collect();
    Asks::Extra { grant: Grant { write: paths(write), read: paths(read), network }, protected: Vec::new() }
}

const RULES: &str = r#"
    [[rule]]
    decision = "allow"
    mode = "workspace-write"
    command_prefix = "cargo fetch"
    [[rule]]
    decision = "never"
    write = ["/srv/data/secret"]
    hosts = ["*.internal"]
    reason = "off limits"
    [[rule]]
    decision = "allow"
    write = ["/srv/data"]
    hosts = ["crates.io:443", "*.internal", "*.rs"]
    [[rule]]
    decision = "ask"
    command_prefix = "rm"
    [[rule]]
    decision = "never"
    command_prefix = "sudo"
"#;

#[test]
fn rules_decide_by_what_is_asked_whatever_their_order() {
    use RuleDecision::{Allow, Ask, Never};
    let rules = ApprovalRules::from_toml(RULES).unwrap();
    let mut reversed = rules.clone();
    reversed.rules.reverse();
    let workspace = Asks::Mode(WorkspaceWrite);
    for (command, asks, want) in [
        ("cargo fetch", workspace.clone(), Allow),
        ("cargo fetch --locked -j 2", workspace.clone(), Allow),
        // More than the prefix says, in one way or another.
        ("cargo fetch; rm -rf .", workspace.clone(), Ask),
        ("cargo fetch $(id)", workspace.clone(), Ask),
        ("cargo fetch\nid", workspace.clone(), Ask),
        ("cargo fetch > x", workspace.clone(), Ask),
        ("cargo fetcher", workspace.clone(), Ask),
        ("x cargo fetch", workspace.clone(), Ask),
        ("cargo fetch", Asks::Mode(DangerFullAccess), Never),
        ("true", workspace.clone(), Ask),
        ("sudo true", workspace, Never),
        ("true", extra(&["/srv/data/a"], &[], &[]), Allow),
        ("true", extra(&["/srv/data/a"], &["/srv/data/b"], &["crates.io:443"]), Allow),
        ("rm x", extra(&["/srv/data/a"], &[], &[]), Ask),
        // Anything outside spoils it; anything forbidden forbids it, from above and from below.
        ("true", extra(&["/srv/data/a", "/etc/x"], &[], &[]), Ask),
        ("true", extra(&["/srv/database"], &[], &[]), Ask),
        ("true", extra(&["/srv/data/a"], &["/etc"], &[]), Ask),
        ("true", extra(&["/srv/data/secret/x"], &[], &[]), Never),
        ("true", extra(&["/srv/data"], &[], &[]), Never),
        ("true", extra(&["/"], &[], &[]), Never),
        ("true", extra(&[], &[], &["a.internal:1"]), Never),
        ("true", extra(&[], &[], &["crates.io"]), Ask),
        ("true", extra(&[], &[], &["crates.io:80"]), Ask),
        ("true", extra(&[], &[], &["evilcrates.io:443"]), Ask),
        ("true", extra(&[], &[], &["docs.rs"]), Allow),
        ("true", extra(&[], &[], &["rs"]), Ask),
        ("true", extra(&[], &[], &[]), Ask),
    ] {
        let request = request(command, asks);
        assert_eq!(rules.decide(&request).0, want, "{command} {:?}", request.asks);
        assert_eq!(reversed.decide(&request).0, want, "reversed: {command} {:?}", request.asks);
    }
}

#[test]
fn rules_that_say_less_than_they_allow_are_refused() {
    for bad in [
        "default = \"allow\"",
        "[[rule]]\ndecision = \"allow\"",
        "[[rule]]\ndecision = \"allow\"\ncommand_prefix = \"ls\"",
        "[[rule]]\ndecision = \"allow\"\nwrite = []",
        "[[rule]]\ndecision = \"never\"",
        "[[rule]]\ndecision = \"allow\"\nwrite = [\"relative\"]",
        "[[rule]]\ndecision = \"never\"\ncommand_prefix = \" \"",
        "[[rule]]\ndecision = \"always\"\nmode = \"workspace-write\"",
        "[[rule]]\ndecision = \"allow\"\nmode = \"workspace-write\"\npath = [\"/x\"]",
        "defualt = \"never\"",
    ] {
        assert!(ApprovalRules::from_toml(bad).is_err(), "{bad}");
    }
    assert_eq!(ApprovalRules::from_toml("").unwrap().default, RuleDecision::Ask);
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest, _: &'a CancellationToken) -> ApprovalFuture<'a> {
        Box::pin(async { ApprovalOutcome::AllowedOnce })
    }
}

#[tokio::test]
async fn what_rules_leave_open_goes_to_the_next_approver_or_to_nobody() {
    let never = CancellationToken::new();
    let rules = ApprovalRules::from_toml(RULES).unwrap();
    let chained = RuleApprover::new(rules.clone(), Some(Arc::new(Yes))).unwrap();
    let alone = RuleApprover::new(rules, None).unwrap();
    let open = request("true", Asks::Mode(WorkspaceWrite));
    assert_eq!(chained.ask(&open, &never).await, ApprovalOutcome::AllowedOnce);
    assert!(matches!(alone.ask(&open, &never).await, ApprovalOutcome::Unavailable { .. }));
    let forbidden = request("true", extra(&[], &[], &["a.internal:1"]));
    let no = ApprovalOutcome::Rejected { reason: Some("off limits".to_owned()) };
    assert_eq!(chained.ask(&forbidden, &never).await, no);
    assert_eq!(
        alone.ask(&request("cargo fetch", Asks::Mode(WorkspaceWrite)), &never).await,
        ApprovalOutcome::AllowedOnce
    );
}

/// Asks on a pseudo-terminal, types `keys` once the prompt is there, and returns the outcome and what was shown.
async fn at_terminal(request: &ApprovalRequest, before: &str, keys: Option<&str>) -> (ApprovalOutcome, String) {
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    let mut master = std::fs::File::from(master);
    master.write_all(before.as_bytes()).unwrap();
    let approver = TerminalApprover::on(nix::unistd::ttyname(slave.as_fd()).unwrap());
    let cancel = CancellationToken::new();
    let (mut typing, withdraw, keys) = (master.try_clone().unwrap(), cancel.clone(), keys.map(str::to_owned));
    let person = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&shown).contains("[y/N] ") {
            let n = typing.read(&mut chunk).unwrap();
            shown.extend_from_slice(&chunk[..n]);
        }
        match keys {
            Some(keys) => typing.write_all(keys.as_bytes()).unwrap(),
            None => withdraw.cancel(),
        }
        String::from_utf8(shown).unwrap()
    });
    let outcome = tokio::time::timeout(Duration::from_secs(20), approver.ask(request, &cancel)).await.unwrap();
    (outcome, person.join().unwrap())
}

#[tokio::test]
async fn only_a_plain_yes_at_the_prompt_is_a_yes() {
    let plain = request("true", Asks::Mode(WorkspaceWrite));
    for yes in ["y\n", "Y\r", " yes \n"] {
        assert_eq!(at_terminal(&plain, "", Some(yes)).await.0, ApprovalOutcome::AllowedOnce, "{yes:?}");
    }
    let long = format!("y{}\n", " ".repeat(100));
    for no in ["\n", "n\n", "no\n", "yy\n", "yes please\n", "\x04", "\u{202e}y\n", long.as_str()] {
        assert_eq!(at_terminal(&plain, "", Some(no)).await.0, ApprovalOutcome::Rejected { reason: None }, "{no:?}");
    }
    // What was typed before the question does not answer it.
    assert_eq!(at_terminal(&plain, "y\ny\n", Some("\n")).await.0, ApprovalOutcome::Rejected { reason: None });
    assert_eq!(at_terminal(&plain, "", None).await.0, ApprovalOutcome::Cancelled);
}

#[tokio::test]
async fn the_prompt_shows_everything_and_nothing_in_it_acts() {
    let command = "rm -rf x\x1b[2K\r\u{202e}\nsecond line\nAllow this one run? [y/n] y";
    let mut asked = request(command, extra(&["/w/.git/hooks"], &["/etc/shadow"], &["crates.io:443"]));
    if let Asks::Extra { protected, .. } = &mut asked.asks {
        protected.push(PathBuf::from("/w/.git/hooks"));
    }
    asked.justification = "Fine.\n  asks for   nothing".to_owned();
    let (_, shown) = at_terminal(&asked, "", Some("n\n")).await;
    for part in [
        "    | rm -rf x\\u{1b}[2K\\r\\u{202e}\r\n    | second line\r\n    | Allow this one run? [y/n] y\r\n",
        "in         /w\r\n",
        "mode now   read-only\r\n",
        "asks to write /w/.git/hooks\r\n",
        "PROTECTED  /w/.git/hooks",
        "asks to read  /etc/shadow\r\n",
        "asks to reach crates.io:443\r\n",
        "because    Fine.\\n  asks for   nothing\r\n",
        "asked up front",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown:?}");
    }
    assert!(!shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
    let (_, shown) = at_terminal(&request("x", Asks::Mode(DangerFullAccess)), "", Some("n\n")).await;
    assert!(shown.contains("danger-full-access: NO CONFINEMENT AT ALL"), "{shown}");
}

#[tokio::test]
async fn without_a_usable_terminal_nothing_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("not-a-terminal");
    std::fs::write(&file, "y\n").unwrap();
    for device in [dir.path().join("missing").as_path(), &file, Path::new("/dev/null"), Path::new("/dev/zero")] {
        let outcome = TerminalApprover::on(device)
            .ask(&request("x", Asks::Mode(WorkspaceWrite)), &CancellationToken::new())
            .await;
        assert!(matches!(outcome, ApprovalOutcome::Unavailable { .. }), "{device:?}: {outcome:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"y\n", "nothing was written to it");
}
