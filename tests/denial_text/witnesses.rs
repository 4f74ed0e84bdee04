//! Witnesses joined, and what is blocking.

use std::path::Path;
use std::time::Duration;

use stockade::denial::{
    AccessWord, Aftermath, Denial, DenialKind, DeniedProcess, MAX_DENIALS, Observation, Remedy, Target, Witness,
};
use stockade::policy::SandboxMode;

use crate::world::{PROJECT, Run};

fn traced(kind: DenialKind, path: &str, pid: u32, comm: &str, aftermath: Aftermath) -> Observation {
    Observation {
        kind,
        target: Target::Path(Path::new(PROJECT).join(path)),
        access: vec![AccessWord::Write],
        syscall: Some("openat".to_owned()),
        errno: None,
        process: Some(DeniedProcess { pid: Some(pid), comm: comm.to_owned() }),
        witness: Witness::Trace,
        at: Some(Duration::from_millis(u64::from(pid))),
        seq: u64::from(pid),
        aftermath,
        remedy: Remedy::Ask,
    }
}

fn run<'a>(command: &'a str, exit: i32, stderr: &'a str, seen: Vec<Observation>) -> Vec<Denial> {
    Run::new(SandboxMode::ReadOnly, command, exit, stderr).traced(seen).classify().0
}

fn only(denials: &[Denial]) -> &Denial {
    assert_eq!(denials.len(), 1, "{denials:?}");
    &denials[0]
}

const EXITED: Aftermath = Aftermath::ProcessExited { code: 1 };

#[test]
fn trace_and_message_are_one_denial() {
    let seen = vec![traced(DenialKind::FsCreate, "new", 3, "touch", EXITED)];
    let denials = run("touch new", 1, "touch: cannot touch 'new': Read-only file system\n", seen);
    let denial = only(&denials);
    assert_eq!(denial.sources, [Witness::Trace, Witness::Stderr]);
    assert_eq!(denial.process.as_ref().unwrap().pid, Some(3));
    assert_eq!(denial.errno.as_deref(), Some("EROFS"));
    assert!(denial.blocking);
    assert_eq!(denial.grant.as_ref().unwrap().write, [Path::new(PROJECT).join("new")]);
}

#[test]
fn a_name_relative_to_an_unknown_directory_finds_its_trace() {
    let seen = vec![traced(DenialKind::FsCreate, "d/new", 3, "touch", EXITED)];
    let denials = run("./build.sh", 1, "touch: cannot touch 'new': Read-only file system\n", seen);
    assert_eq!(only(&denials).sources, [Witness::Trace, Witness::Stderr]);
}

#[test]
fn two_attempts_of_one_process_are_one_denial() {
    let touch = vec![
        traced(DenialKind::FsWrite, "f", 3, "touch", Aftermath::Continued),
        traced(DenialKind::FsMetadata, "f", 3, "touch", EXITED),
    ];
    let denials = run("touch f", 1, "touch: cannot touch 'f': Read-only file system\n", touch);
    assert_eq!(only(&denials).kind, DenialKind::FsWrite);

    let moved = vec![
        traced(DenialKind::FsRename, "d/new", 3, "mv", Aftermath::Continued),
        traced(DenialKind::FsCreate, "d/new", 3, "mv", EXITED),
    ];
    let text = "mv: cannot create regular file 'd/new': Read-only file system\n";
    let denials = run("mv /tmp/x d/new", 1, text, moved);
    assert_eq!(only(&denials).kind, DenialKind::FsCreate);
    assert!(only(&denials).blocking);

    // Two processes, two accesses of different kinds.
    let apart =
        vec![traced(DenialKind::FsWrite, "f", 3, "sh", EXITED), traced(DenialKind::FsRemove, "f", 4, "rm", EXITED)];
    assert_eq!(run("x", 1, "", apart).len(), 2);
}

#[test]
fn refusals_in_passing_do_not_block() {
    let passing = |comm, path, aftermath| vec![traced(DenialKind::FsCreate, path, 3, comm, aftermath)];
    for (command, exit, stderr, seen) in [
        ("python3 a.py", 0, "", passing("python3", "d/__pycache__", Aftermath::Continued)),
        (
            "python3 a.py",
            1,
            "Traceback (most recent call last):\nAssertionError\n",
            passing("python3", "d/__pycache__", EXITED),
        ),
        ("git status", 0, "", passing("git", "repo/.git/index.lock", Aftermath::Continued)),
        ("touch new 2>/dev/null || true", 0, "", passing("touch", "new", EXITED)),
        ("echo x > new 2>/dev/null; exit 3", 3, "", passing("bash", "new", Aftermath::ProcessExited { code: 3 })),
        ("touch new 2>/dev/null; exit 3", 3, "", passing("touch", "new", EXITED)),
        ("python3 probe.py", 0, "", passing("python3", "probe1", Aftermath::Continued)),
        ("python3 t.py", 1, "AssertionError: 1 != 2\n", passing("python3", "probe1", Aftermath::Continued)),
        (
            "make test",
            2,
            "FAIL: sums\nmake: *** [Makefile:2: test] Error 1\n",
            passing("cc", "new", Aftermath::Continued),
        ),
        ("a; b", 0, "warning: 'new' could not be written, going on\n", passing("a", "new", Aftermath::Continued)),
    ] {
        let denials = run(command, exit, stderr, seen);
        assert!(!only(&denials).blocking, "{command}: {denials:?}");
    }
}

#[test]
fn refusals_that_explain_the_failure_block() {
    let seen = |comm, path, aftermath| vec![traced(DenialKind::FsCreate, path, 3, comm, aftermath)];
    for (command, exit, stderr, seen) in [
        ("touch new 2>/dev/null", 1, "", seen("touch", "new", EXITED)),
        ("touch new 2>/dev/null || exit 3", 3, "", seen("touch", "new", EXITED)),
        ("curl -so new file:///etc/hostname", 23, "", seen("curl", "new", Aftermath::ProcessExited { code: 23 })),
        ("echo x | tee new | head -1", 0, "tee: new: Read-only file system\n", seen("tee", "new", EXITED)),
        ("./prog", 1, "prog: could not save your work\n", seen("prog", "new", EXITED)),
        ("./prog", 1, "OSError: [Errno 30] Read-only file system\n", seen("prog", "new", EXITED)),
        ("./prog", 0, "prog: error opening /home/dev/project/new\n", seen("prog", "new", EXITED)),
    ] {
        let denials = run(command, exit, stderr, seen);
        assert!(only(&denials).blocking, "{command}: {denials:?}");
    }
}

#[test]
fn a_missing_name_beneath_a_refused_directory_shows_that_refusal() {
    let seen = vec![traced(DenialKind::FsCreate, "a", 3, "node", EXITED)];
    let text = "Error: ENOENT: no such file or directory, mkdir 'a/b'\n";
    assert!(only(&run("node -e 'fs.mkdirSync(\"a/b\",{recursive:true})'", 1, text, seen)).blocking);
    // Without the refusal the same message is an ordinary failure.
    assert_eq!(run("node x.js", 1, text, Vec::new()), []);
}

#[test]
fn only_the_shown_refusal_blocks() {
    let seen = vec![
        traced(DenialKind::FsCreate, "d/__pycache__", 3, "python3", Aftermath::Continued),
        traced(DenialKind::FsCreate, "new", 4, "python3", EXITED),
    ];
    let text = "OSError: [Errno 30] Read-only file system: 'new'\n";
    let denials = run("python3 a.py", 1, text, seen);
    assert_eq!(denials.iter().map(|denial| denial.blocking).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn with_a_complete_trace_text_about_writes_proves_nothing() {
    let text = "touch: cannot touch '/home/dev/project/new': Read-only file system\n";
    assert_eq!(run("./forge", 1, text, Vec::new()), []);
    // The same text without a trace is all there is.
    assert_eq!(Run::new(SandboxMode::ReadOnly, "./touch", 1, text).classify().0.len(), 1);
    // Reads are not traced, so a mask still needs the text.
    let masked = "cat: /home/dev/.ssh/id_rsa: No such file or directory\n";
    assert_eq!(only(&run("cat ~/.ssh/id_rsa", 1, masked, Vec::new())).kind, DenialKind::FsRead);
}

#[test]
fn what_would_have_failed_anyway_is_no_denial() {
    let mut mkdir = traced(DenialKind::FsCreate, "d", 3, "mkdir", EXITED);
    mkdir.syscall = Some("mkdirat".to_owned());
    for seen in [
        traced(DenialKind::FsCreate, "nosuch/new", 3, "touch", EXITED),
        traced(DenialKind::FsRemove, "nosuch", 3, "rm", Aftermath::ProcessExited { code: 0 }),
        traced(DenialKind::FsWrite, "d", 3, "bash", EXITED),
        mkdir,
    ] {
        assert_eq!(run("x", 1, "", vec![seen.clone()]), [], "{seen:?}");
    }
}

#[test]
fn a_datagram_to_a_name_server_is_the_look_up_it_was_for() {
    let mut seen = traced(DenialKind::NetConnect, "", 3, "curl", Aftermath::ProcessExited { code: 6 });
    seen.target = Target::Net { host: "10.0.0.2".to_owned(), port: Some(53) };
    seen.access.clear();
    let denials = run("curl -sS https://example.com", 6, "curl: (6) Could not resolve host: example.com\n", vec![seen]);
    let denial = only(&denials);
    assert_eq!((denial.kind, denial.host.as_deref(), denial.port), (DenialKind::NetResolve, Some("example.com"), None));
    assert_eq!(denial.sources, [Witness::Trace, Witness::Stderr]);
    assert_eq!(denial.grant.as_ref().unwrap().network, ["example.com"]);
}

#[test]
fn look_ups_of_one_name_are_one_denial() {
    let ask = |host: &str, at: u32| {
        let mut seen = traced(DenialKind::NetResolve, "", at, "curl", Aftermath::ProcessExited { code: 6 });
        seen.target = Target::Net { host: host.to_owned(), port: None };
        seen
    };
    let seen = vec![ask("example.com", 3), ask("example.com.lan", 4), ask("10.0.0.2", 5), ask("10.0.0.3", 6)];
    let denials = run("curl -s https://example.com", 6, "", seen);
    assert_eq!((only(&denials).host.as_deref(), only(&denials).blocking), (Some("example.com"), true));
    // The server alone: the name is the only one in the command.
    let denials = run("curl -s https://example.com", 6, "", vec![ask("10.0.0.2", 5)]);
    assert_eq!(only(&denials).host.as_deref(), Some("example.com"));
}

#[test]
fn operations_are_joined_by_their_kind() {
    let call = |kind, name: &str, at: u32| {
        let mut seen = traced(kind, "", 7, "mount", Aftermath::ProcessExited { code: 32 });
        (seen.target, seen.syscall, seen.at) =
            (Target::Syscall, Some(name.to_owned()), Some(Duration::from_millis(u64::from(at))));
        seen
    };
    let seen = vec![call(DenialKind::Mount, "fsopen", 1), call(DenialKind::Mount, "mount", 2)];
    let denials = run("mount -t tmpfs none /mnt", 32, "mount: /mnt: permission denied.\n", seen);
    assert_eq!((only(&denials).kind, only(&denials).blocking), (DenialKind::Mount, true));
    let mut signal = call(DenialKind::Signal, "kill", 1);
    (signal.target, signal.process) = (Target::None, Some(DeniedProcess { pid: Some(2), comm: "bash".to_owned() }));
    let denials = run("kill 1", 1, "bash: line 1: kill: (1) - Operation not permitted\n", vec![signal]);
    assert!(only(&denials).blocking);
}

#[test]
fn many_refusals_are_bounded_and_the_blocking_one_is_kept() {
    let mut seen: Vec<_> = (0..300)
        .map(|at| traced(DenialKind::FsCreate, &format!("d/n{at}"), at, "python3", Aftermath::Continued))
        .collect();
    seen.push(traced(DenialKind::FsCreate, "last", 999, "touch", EXITED));
    let text = "touch: cannot touch 'last': Read-only file system\n";
    let (denials, omitted) = Run::new(SandboxMode::ReadOnly, "x", 1, text).traced(seen).classify();
    assert_eq!((denials.len(), omitted), (MAX_DENIALS, 101));
    assert!(denials.last().unwrap().blocking && denials.last().unwrap().path.as_ref().unwrap().ends_with("last"));
    assert!(denials[..MAX_DENIALS - 1].iter().all(|denial| !denial.blocking));
}

#[test]
fn a_random_name_is_cured_by_its_directory() {
    let text = "sed: couldn't open temporary file ./sedAbCdEf: Read-only file system\n";
    let denials = Run::new(SandboxMode::ReadOnly, "sed -i s/a/b/ f", 4, text).classify().0;
    assert_eq!(only(&denials).grant.as_ref().unwrap().write, [Path::new(PROJECT)]);
}

#[test]
fn without_confinement_there_is_no_denial() {
    let seen = vec![traced(DenialKind::FsCreate, "new", 3, "touch", EXITED)];
    let text = "touch: cannot touch 'new': Read-only file system\n";
    assert_eq!(Run::new(SandboxMode::DangerFullAccess, "touch new", 1, text).traced(seen).classify(), (vec![], 0));
}
