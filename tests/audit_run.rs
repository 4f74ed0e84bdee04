//! The audit witness of whole runs: what it adds, that it is nobody else's, and that the host is left as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/auditing.rs"]
mod auditing;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

use std::path::Path;
use std::time::{Duration, Instant};

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stockade::denial::audit::AuditState;
use stockade::denial::{DenialKind, Witness};
use stockade::executor::RunResult;

use auditing::{Auditing, Turn, usable};
use cli::{Prompt, outcome};
use user::{Programs, User};

const LANDLOCK: [&str; 4] = ["--json", "--backend", "landlock", "--mode"];

fn result(prompt: &Prompt, options: &[&str], line: &str) -> RunResult {
    let mut command = prompt.run(LANDLOCK.iter().chain(&["workspace-write"]).chain(options).chain(&["-c", line]));
    let (code, stdout, stderr) = outcome(&mut command);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn root() -> Option<Prompt> {
    let user = User::current();
    (user.is_root() && usable()).then(|| Prompt::of(user))
}

fn off() -> bool {
    AuditState::detect() == AuditState::Disabled
}

/// The option turns auditing on, the records are witnesses, and auditing is off again afterwards.
#[test]
fn asked_for_it_is_a_witness_and_the_switch_goes_back() {
    let Some(prompt) = root() else { return };
    let _turn = Turn::wait();
    let before = AuditState::detect();
    let outside = prompt.root().join("outside");
    std::fs::write(&outside, "as it was").unwrap();
    let line = format!("echo x >> {0}; touch {1}/new; mkdir {1}/nd", outside.display(), prompt.root().display());
    for trace in ["on", "off"] {
        let result = result(&prompt, &["--audit", "on", "--trace", trace], &line);
        assert_eq!(AuditState::detect(), before);
        let report = result.sandbox.unwrap();
        let seen: Vec<_> = report.denials.iter().map(|d| (d.kind, d.path.clone().unwrap(), d.errno.clone())).collect();
        let expected = [("outside", DenialKind::FsWrite), ("new", DenialKind::FsCreate), ("nd", DenialKind::FsCreate)];
        let expected: Vec<_> =
            expected.iter().map(|(name, kind)| (*kind, prompt.root().join(name), Some("EACCES".to_owned()))).collect();
        assert_eq!(seen, expected, "trace {trace}");
        for denial in &report.denials {
            assert!(denial.sources.contains(&Witness::Audit) && denial.blocking, "trace {trace}: {denial:?}");
            assert_eq!(denial.sources.contains(&Witness::Trace), trace == "on", "{denial:?}");
        }
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"as it was");
    assert!(!prompt.root().join("new").exists());
}

/// What neither trace nor text tells, audit does: a swallowed refusal without the trace.
#[test]
fn a_swallowed_refusal_is_seen_by_audit_alone() {
    let Some(prompt) = root() else { return };
    let _on = Auditing::on();
    let outside = prompt.root().join("outside");
    std::fs::write(&outside, "as it was").unwrap();
    let line = format!("(echo x >> {}) 2>/dev/null; true", outside.display());
    let denials = result(&prompt, &["--trace", "off"], &line).sandbox.unwrap().denials;
    assert_eq!(denials.len(), 1, "{denials:?}");
    assert_eq!((&denials[0].sources[..], denials[0].blocking), (&[Witness::Audit][..], false));
    assert_eq!(denials[0].path.as_deref(), Some(outside.as_path()));
    // The control: without the witness nothing is known of it.
    assert!(result(&prompt, &["--trace", "off", "--audit", "off"], &line).sandbox.unwrap().denials.is_empty());
}

/// A command can put itself into a domain of its own, whose refusals are recorded too: they are not the sandbox's.
#[test]
fn a_domain_of_the_commands_own_makes_no_denial() {
    let Some(prompt) = root() else { return };
    let _on = Auditing::on();
    let programs = Programs::get();
    let own = prompt.work().join("own");
    std::fs::write(&own, "").unwrap();
    let inside = "nested_domain";
    let line = format!("exec env AUDIT_NESTED={} {} --exact --ignored {inside}", own.display(), programs.own.display());
    let result = result(&prompt, &["--trace", "off"], &line);
    assert_eq!(result.exit_code, Some(0), "{}{}", result.stdout.text, result.stderr.text);
    let denials = result.sandbox.unwrap().denials;
    assert!(denials.is_empty(), "{denials:?}");
}

/// Not a test of its own: a domain that refuses what the sandbox allows.
#[test]
#[ignore = "run by another test, confined"]
fn nested_domain() {
    let file = std::env::var_os("AUDIT_NESTED").expect("run by another test");
    let rules = path_beneath_rules(["/"], AccessFs::from_read(ABI::V5));
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5)).unwrap().create().unwrap();
    std::fs::OpenOptions::new().write(true).open(&file).expect("the sandbox lets it be written");
    ruleset.add_rules(rules).unwrap().restrict_self().unwrap();
    let refused = std::fs::OpenOptions::new().write(true).open(&file).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(nix::errno::Errno::EACCES as i32));
}

/// However `stockade` ends, auditing is off again.
#[test]
fn killed_it_leaves_no_auditing_behind() {
    let Some(prompt) = root() else { return };
    let _turn = Turn::wait();
    if !off() {
        eprintln!("auditing is on here anyway: nothing to undo");
        return;
    }
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT] {
        let mut child = prompt.run(["--audit", "on", "--", "sleep", "60"]).spawn().unwrap();
        wait_for(|| !off(), "auditing was not turned on");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        child.wait().unwrap();
        wait_for(off, "auditing was left on");
    }
}

fn wait_for(mut what: impl FnMut() -> bool, otherwise: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Without the right to it nothing changes but that the option is refused.
#[test]
fn an_ordinary_user_goes_without() {
    let Some(user) = User::all().into_iter().find(|user| !user.is_root()) else { return };
    let prompt = Prompt::of(user);
    let report = result(&prompt, &[], "touch ../x").sandbox.unwrap();
    assert_eq!(report.denials.len(), 1);
    assert!(!report.denials[0].sources.contains(&Witness::Audit));
    assert!(!report.notes.iter().any(|note| note.contains("audit")), "{:?}", report.notes);
    let (code, stdout, stderr) = outcome(&mut prompt.run(["--audit", "on", "--", "touch", "made"]));
    assert_eq!(code, 125, "{stdout}{stderr}");
    assert!(stderr.contains("audit"), "{stderr}");
    assert!(!Path::new(&prompt.work().join("made")).exists());
}
