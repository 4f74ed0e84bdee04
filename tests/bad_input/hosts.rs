//! Kernels and containers that lack something, played by a seccomp filter around `stockade`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use crate::cli::{Prompt, outcome, seen};

/// What is missing, as a list of names.
const WITHOUT: &str = "STOCKADE_TEST_WITHOUT";
/// What to execute in its absence.
const PROGRAM: &str = "STOCKADE_TEST_PROGRAM";

/// Exit status, output and errors of `stockade run ARGS` on a host that lacks something. The script says that it ran.
fn run_without(prompt: &Prompt, missing: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = prompt.command(&crate::user::Programs::get().own);
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "hosts::without"]);
    command.env(WITHOUT, missing).env(PROGRAM, prompt.program().as_os_str()).env("RUST_BACKTRACE", "0");
    command.env("STOCKADE_TEST_ARGS", [&["run"], args, &["-c", "echo it ran; touch ran"]].concat().join("\u{1f}"));
    let (status, stdout, stderr) = seen(&command.output().unwrap());
    // What the test harness says before the program takes its place.
    let stdout = stdout.trim_start().trim_start_matches("running 1 test").trim_start().to_owned();
    (status, stdout.strip_prefix("test hosts::without ... ").unwrap_or(&stdout).to_owned(), stderr)
}

/// Nothing runs, and the message says what is missing.
fn refuses(prompt: &Prompt, missing: &str, args: &[&str], words: &[&str]) {
    let (status, stdout, stderr) = run_without(prompt, missing, args);
    let title = format!("without {missing}, {args:?}, as {}", prompt.user.name());
    assert_eq!(status, 125, "{title}: {stdout}{stderr}");
    assert!(stderr.contains("stockade: "), "{title}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{title}: {word:?} is not in: {stderr}");
    }
    assert!(!stdout.contains("it ran") && !prompt.work().join("ran").exists(), "{title}: it ran");
}

/// It runs confined, with these gaps at least.
fn runs_with(prompt: &Prompt, missing: &str, args: &[&str], gaps: &[&str]) {
    let title = format!("without {missing}, {args:?}, as {}", prompt.user.name());
    let (status, stdout, stderr) = run_without(prompt, missing, &[&["--json"], args].concat());
    assert_eq!(status, 0, "{title}: {stdout}{stderr}");
    let result: serde_json::Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{title}: {error}: {stdout}"));
    assert_eq!(result["stdout"]["text"], "it ran\n", "{title}");
    assert!(!prompt.work().join("ran").exists(), "{title}: read-only still holds");
    assert_eq!(result["sandbox"]["enforcement"], "partial", "{title}");
    let reported = result["sandbox"]["gaps"].as_array().unwrap();
    for gap in gaps {
        assert!(reported.contains(&(*gap).into()), "{title}: {gap} is not among {reported:?}");
    }
}

#[test]
fn nothing_missing() {
    for prompt in Prompt::all() {
        let (status, stdout, stderr) = run_without(&prompt, "", &["--mode", "workspace-write"]);
        assert_eq!((status, stdout.as_str()), (0, "it ran\n"), "{stderr}");
        assert!(prompt.work().join("ran").exists(), "the control");
    }
}

#[test]
fn no_landlock() {
    for prompt in Prompt::all() {
        for missing in ["landlock", "landlock-at-boot"] {
            runs_with(&prompt, missing, &[], &["ioctl"]);
            refuses(&prompt, missing, &["--require", "full"], &["ioctl"]);
            refuses(&prompt, missing, &["--backend", "landlock"], &["Landlock"]);
        }
    }
}

#[test]
fn no_namespaces() {
    for prompt in Prompt::all() {
        for missing in ["namespaces", "mounts"] {
            runs_with(&prompt, missing, &[], &["process-isolation", "network-isolation"]);
            refuses(&prompt, missing, &["--require", "full"], &["process-isolation"]);
            refuses(&prompt, missing, &["--backend", "namespaces"], &["namespaces"]);
            // An allowlist cannot be kept without a network of its own.
            refuses(&prompt, missing, &["--allow-host", "example.invalid"], &["network"]);
        }
    }
}

#[test]
fn neither_namespaces_nor_landlock() {
    for prompt in Prompt::all() {
        refuses(&prompt, "landlock,namespaces", &[], &["namespaces", "Landlock"]);
        refuses(&prompt, "landlock,namespaces", &["--mode", "workspace-write"], &["namespaces", "Landlock"]);
        // What promises nothing needs nothing.
        let (status, stdout, stderr) = run_without(&prompt, "landlock,namespaces", &["--mode", "danger-full-access"]);
        assert_eq!((status, stdout.as_str()), (0, "it ran\n"), "{stderr}");
    }
}

#[test]
fn no_seccomp() {
    for prompt in Prompt::all() {
        for backend in ["namespaces", "landlock", "auto"] {
            refuses(&prompt, "seccomp", &["--backend", backend], &["seccomp"]);
        }
        let (status, stdout, stderr) = run_without(&prompt, "seccomp", &["--mode", "danger-full-access"]);
        assert_eq!((status, stdout.as_str()), (0, "it ran\n"), "{stderr}");
    }
}

/// A refusal that no fallback can cure is told with its stage.
#[test]
fn other_refusals_are_named() {
    for prompt in Prompt::all() {
        refuses(&prompt, "landlock-rules", &[], &["stage landlock"]);
        refuses(&prompt, "landlock-self", &["--mode", "workspace-write"], &["stage landlock"]);
        refuses(&prompt, "capabilities", &[], &["stage capabilities"]);
        // The launcher itself cannot begin.
        refuses(&prompt, "setsid", &[], &["launcher"]);
        let missing_launcher = outcome(&mut prompt.run(["--backend", "nothing", "--", "true"]));
        assert_eq!(missing_launcher.0, 2);
    }
}

/// Not a test of its own: takes something away and becomes `stockade`.
#[test]
#[ignore = "run by the other tests"]
fn without() {
    let missing = std::env::var(WITHOUT).expect("run by the other tests");
    for name in missing.split(',').filter(|name| !name.is_empty()) {
        take_away(name);
    }
    let args = std::env::var("STOCKADE_TEST_ARGS").unwrap();
    let error = Command::new(std::env::var_os(PROGRAM).unwrap()).args(args.split('\u{1f}')).exec();
    panic!("{error}");
}

fn take_away(name: &str) {
    let any = Vec::new;
    let (errno, rules): (i32, Vec<(i64, Vec<SeccompRule>)>) = match name {
        "landlock" => (libc::ENOSYS, vec![(libc::SYS_landlock_create_ruleset, any())]),
        "landlock-at-boot" => (libc::EOPNOTSUPP, vec![(libc::SYS_landlock_create_ruleset, any())]),
        "landlock-rules" => (libc::ENOMEM, vec![(libc::SYS_landlock_add_rule, any())]),
        "seccomp" => (libc::ENOSYS, vec![(libc::SYS_seccomp, any())]),
        "landlock-self" => (libc::EPERM, vec![(libc::SYS_landlock_restrict_self, any())]),
        "capabilities" => (libc::EPERM, vec![(libc::SYS_capset, any())]),
        "setsid" => (libc::EPERM, vec![(libc::SYS_setsid, any())]),
        // As in the default profile of container engines.
        "namespaces" => {
            let with_flags: Vec<SeccompRule> =
                (0..32).filter(|bit| 0x7e02_0000_u32 & (1 << bit) != 0).map(|bit| flag(1 << bit)).collect();
            let calls = vec![(libc::SYS_clone, with_flags), (libc::SYS_unshare, any()), (libc::SYS_setns, any())];
            (libc::EPERM, calls)
        }
        "mounts" => {
            let calls =
                [libc::SYS_mount, libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_mount_setattr];
            (libc::EPERM, calls.map(|call| (call, any())).to_vec())
        }
        other => panic!("unknown: {other}"),
    };
    let rules: BTreeMap<i64, Vec<SeccompRule>> = rules.into_iter().collect();
    let errno = SeccompAction::Errno(errno.cast_unsigned());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, errno, std::env::consts::ARCH.try_into().unwrap()).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Matches when one flag is among those of the first argument.
fn flag(bit: u64) -> SeccompRule {
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit).unwrap();
    SeccompRule::new(vec![condition]).unwrap()
}
