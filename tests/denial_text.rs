//! Messages of real programs against their right answers, and hostile text against the reader.
//!
//! The cases are in `tests/data/denials/*.toml`: what a command printed under a refusal (or an ordinary failure that looks
//! like one) and the denials that are true of it. The host is made up, so the answers do not depend on this machine.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::Deserialize;
use stockade::denial::{
    AccessWord, Aftermath, Denial, DenialKind, DeniedProcess, FileState, HostAccess, HostView, MAX_DENIALS,
    Observation, PolicyViews, RunEvidence, Target, TraceCoverage, Witness, classify,
};
use stockade::policy::{
    EffectivePolicy, Limits, NetworkMode, NetworkPolicy, Origin, PathAccess, PathRule, SandboxMode,
};

const PROJECT: &str = "/home/dev/project";

/// A host with one user, `dev`, who owns `/home/dev` and nothing else.
struct World {
    states: BTreeMap<PathBuf, FileState>,
}

impl World {
    fn new() -> Self {
        let mut world = Self { states: BTreeMap::new() };
        for directory in [
            "d",
            "e",
            "out",
            "repo/.git/hooks",
            "repo/.git/refs/heads",
            "repo/.git/refs/tags",
            "../other",
            "../.cache/pip",
        ] {
            world.add(&Path::new(PROJECT).join(directory), FileState::Directory);
        }
        for file in [
            "f",
            "d/g",
            "a.c",
            "bad.c",
            "package.json",
            "run.sh",
            "noexec.sh",
            "w.py",
            "A.java",
            "old.log",
            "db.sqlite",
            "repo/Makefile",
            "repo/junk",
            "repo/.git/config",
            "../loose",
            "../.ssh/id_rsa",
        ] {
            world.add(&Path::new(PROJECT).join(file), FileState::File);
        }
        for directory in ["/tmp", "/mnt", "/root", "/nosuchparent", "/usr/lib/python3/dist-packages", "/dev"] {
            world.add(Path::new(directory), FileState::Directory);
        }
        for file in ["/etc/passwd", "/etc/shadow", "/etc/hostname"] {
            world.add(Path::new(file), FileState::File);
        }
        for socket in ["/run/docker.sock", "/run/dbus/system_bus_socket"] {
            world.add(Path::new(socket), FileState::Socket);
        }
        world
    }

    fn add(&mut self, path: &Path, state: FileState) {
        let mut clean = PathBuf::new();
        for part in path.components() {
            if part == std::path::Component::ParentDir {
                clean.pop();
            } else {
                clean.push(part)
            }
        }
        for parent in clean.ancestors().skip(1) {
            self.states.entry(parent.to_path_buf()).or_insert(FileState::Directory);
        }
        self.states.insert(clean, state);
    }
}

impl HostView for World {
    fn state(&self, path: &Path) -> FileState {
        if let Some(state) = self.states.get(path) {
            return *state;
        }
        match path.parent() {
            Some(parent) if parent.starts_with("/root") => FileState::Unknown,
            Some(parent) if self.states.get(parent) == Some(&FileState::Directory) => FileState::Missing,
            _ => FileState::NoParent,
        }
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        path.strip_prefix("/var/run").map_or_else(|_| path.to_path_buf(), |rest| Path::new("/run").join(rest))
    }

    fn permits(&self, access: HostAccess, path: &Path) -> bool {
        let mine = path.starts_with("/home/dev");
        match access {
            HostAccess::Read => !path.starts_with("/root") && path != Path::new("/etc/shadow"),
            HostAccess::Execute => path.ends_with("run.sh"),
            HostAccess::Write => mine || self.state(path) == FileState::Socket,
            HostAccess::Create => mine && self.state(path) == FileState::Missing,
            HostAccess::Remove | HostAccess::Metadata => mine && self.state(path).exists(),
            HostAccess::Owner => false,
        }
    }

    fn target(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    fn listens(&self, address: IpAddr, port: u16) -> bool {
        address == IpAddr::from([127, 0, 0, 1]) && port == 5432
    }

    fn is_privileged(&self) -> bool {
        false
    }

    fn no_new_privs(&self) -> bool {
        false
    }

    fn may_trace(&self) -> bool {
        true
    }
}

fn policy(mode: SandboxMode) -> EffectivePolicy {
    let rule = |path: &str, access| PathRule {
        path: PathBuf::from(path),
        written: None,
        access,
        optional: false,
        missing: false,
        origin: Origin::Default { line: 1 },
        reason: None,
    };
    let mut rules = vec![
        rule("/dev/null", PathAccess::Write),
        rule("/home/dev/.ssh", PathAccess::DenyRead),
        rule("/tmp", PathAccess::Private),
    ];
    if mode == SandboxMode::WorkspaceWrite {
        rules.push(rule(PROJECT, PathAccess::Write));
        rules.push(rule("/home/dev/project/repo/.git/config", PathAccess::DenyWrite));
        rules.push(rule("/home/dev/project/repo/.git/hooks", PathAccess::DenyWrite));
    }
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    let network = if mode.confines() { NetworkMode::Off } else { NetworkMode::Full };
    EffectivePolicy {
        mode,
        workspace: PathBuf::from(PROJECT),
        workspace_written: None,
        rules,
        network: NetworkPolicy { mode: network, ..NetworkPolicy::default() },
        limits: Limits::default(),
        seccomp: Vec::new(),
        notes: Vec::new(),
    }
}

struct Run<'a> {
    mode: SandboxMode,
    command: &'a str,
    exit: i32,
    stderr: &'a [u8],
    stdout: &'a [u8],
    observations: Vec<Observation>,
    coverage: TraceCoverage,
}

impl<'a> Run<'a> {
    fn new(mode: SandboxMode, command: &'a str, exit: i32, stderr: &'a str) -> Self {
        let stderr = stderr.as_bytes();
        Self { mode, command, exit, stderr, stdout: b"", observations: Vec::new(), coverage: TraceCoverage::None }
    }

    fn traced(mut self, observations: Vec<Observation>) -> Self {
        (self.observations, self.coverage) = (observations, TraceCoverage::Complete);
        self
    }

    fn classify(self) -> (Vec<Denial>, u64) {
        let world = World::new();
        let effective = policy(self.mode);
        let wider = |mode| Some(policy(mode));
        let views = PolicyViews { effective: &effective, wider: &wider, host: &world };
        let evidence = RunEvidence {
            observations: self.observations,
            coverage: self.coverage,
            lost: 0,
            stderr: self.stderr,
            stdout: self.stdout,
            exit_code: (self.exit < 128 || self.exit >= 160).then_some(self.exit),
            signal: None,
            timed_out: false,
            command: self.command,
            workdir: Path::new(PROJECT),
            home: Some(Path::new("/home/dev")),
        };
        classify(&evidence, &views)
    }
}

// ---------------------------------------------------------------- the corpus

#[derive(Debug, Deserialize)]
struct File {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    mode: Option<SandboxMode>,
    command: String,
    exit: i32,
    #[serde(default)]
    stdout: String,
    stderr: String,
    denials: Vec<Answer>,
    #[serde(default)]
    needs_catalogue: Option<String>,
    #[serde(default, rename = "note")]
    _note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    kind: DenialKind,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    port: Option<u16>,
    blocking: bool,
    #[serde(default)]
    widen: Option<String>,
}

impl Answer {
    fn names(&self, denial: &Denial) -> bool {
        let path = match (&self.path, &denial.path) {
            (None, None) => true,
            (Some(expected), Some(found)) => match expected.split_once('*') {
                Some((head, _)) => found.to_str().unwrap().starts_with(head),
                None => Path::new(expected) == found,
            },
            _ => false,
        };
        path && self.host == denial.host && self.port == denial.port
    }

    /// The cure that is true in the made-up world, where the answer does not say it: the workspace's own files are cured
    /// by the mode that may write there, the network only by the mode without confinement.
    fn cure(&self, command: &str) -> Option<SandboxMode> {
        match self.widen.as_deref() {
            Some("none") => None,
            Some(mode) => Some(mode.parse().unwrap()),
            // Only root gives files away.
            None if command.starts_with("chown ") => None,
            None if self.path.as_deref().is_some_and(|path| path.starts_with(PROJECT)) => {
                Some(SandboxMode::WorkspaceWrite)
            }
            None => Some(SandboxMode::DangerFullAccess),
        }
    }
}

fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for name in ["erofs", "eacces", "network", "foreign"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/denials/{name}.toml"));
        let file: File = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        cases.extend(
            file.case.into_iter().enumerate().map(|(at, case)| (format!("{name}[{at}] {}", case.command), case)),
        );
    }
    cases
}

#[test]
fn the_corpus_is_classified_right() {
    let (mut right, mut invented, mut missed, mut answers) = (0_u32, 0_u32, 0_u32, 0_u32);
    let mut wrong = Vec::new();
    let cases = cases();
    let mut without_catalogue = BTreeSet::new();
    for (name, case) in &cases {
        if let Some(language) = &case.needs_catalogue
            && !Path::new(&format!("/usr/share/locale/{language}/LC_MESSAGES/libc.mo")).exists()
        {
            without_catalogue.insert(language.clone());
            continue;
        }
        let mode = case.mode.unwrap_or(SandboxMode::ReadOnly);
        let mut run = Run::new(mode, &case.command, case.exit, &case.stderr);
        run.stdout = case.stdout.as_bytes();
        let (mut found, _) = run.classify();
        for answer in &case.denials {
            answers += 1;
            let Some(at) = found.iter().position(|denial| answer.names(denial)) else {
                missed += 1;
                wrong.push(format!("{name}\n   missed {answer:?}\n   found {found:?}"));
                continue;
            };
            let denial = found.remove(at);
            right += 1;
            let protected = mode == SandboxMode::WorkspaceWrite;
            let cure = if protected && answer.widen.is_none() { denial.widen_to } else { answer.cure(&case.command) };
            if denial.kind != answer.kind || denial.blocking != answer.blocking || denial.widen_to != cure {
                wrong.push(format!("{name}\n   wrong in detail: {denial:?}\n   right: {answer:?}"));
            }
        }
        for denial in found {
            invented += 1;
            wrong.push(format!("{name}\n   invented {denial:?}"));
        }
    }
    println!(
        "{} cases, {answers} denials: {right} right, {missed} missed, {invented} invented; \
         languages without a catalogue here: {without_catalogue:?}",
        cases.len()
    );
    assert!(cases.len() >= 150 && answers >= 150, "the corpus shrank");
    let (precision, recall) =
        (f64::from(right) / f64::from(right + invented), f64::from(right) / f64::from(right + missed));
    assert!(precision >= 0.99 && recall >= 0.99, "precision {precision:.3}, recall {recall:.3}\n{}", wrong.join("\n"));
    let details: Vec<_> = wrong.iter().filter(|text| text.contains("wrong in detail")).cloned().collect();
    assert!(details.is_empty(), "kind, blocking or cure wrong:\n{}", details.join("\n"));
    for text in &wrong {
        println!("{text}");
    }
}

// ---------------------------------------------------------------- witnesses together

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

// ---------------------------------------------------------------- hostile text

/// Pieces of real messages in any order, which come nearer to the reader's branches than random bytes do.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "touch: ",
            "cannot touch ",
            "'new'",
            "'",
            "\"",
            "‘",
            "’",
            "«",
            "$'\\n'",
            "Read-only file system",
            "Permission denied",
            "[Errno 30] ",
            ": ",
            " -> ",
            "EROFS: ",
            "read-only file system, open ",
            " @ rb_sysopen - ",
            " (os error 30)",
            " at path ",
            "bash: line 1: ",
            "/etc/x",
            "../",
            "\u{1b}[31m",
            "\r",
            "\n",
            "lookup ",
            "dial tcp ",
            "Could not resolve host: ",
            "[::1]:80",
            "connect ECONNREFUSED ",
            "(",
            ")",
            "host='",
            "unix://",
            "\0",
            "mount: ",
            "Traceback (most recent call last):",
            "  os.mkdir(x)",
            "java.nio.file.AccessDeniedException: ",
            " while a on ",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Every part of a denial's path that is not the directory it is relative to stands in the text or the command.
fn path_is_named(denial: &Denial, text: &str) -> bool {
    let Some(path) = &denial.path else { return true };
    if denial.kind == DenialKind::UnixConnect {
        return text.contains("docker.sock") || text.contains("bus");
    }
    if Path::new(PROJECT).starts_with(path) {
        return text.contains('.');
    }
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(".lock").unwrap_or(&name);
    // Escapes are undone in the name, so it is looked for letter by letter where it holds any.
    text.contains(name) || name.chars().filter(|c| c.is_alphanumeric()).all(|c| text.contains(c))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..2048), exit in 0..3_i32) {
        let mut run = Run::new(SandboxMode::ReadOnly, "cmd 2>&1", exit, "");
        (run.stderr, run.stdout) = (&bytes, &bytes);
        for denial in run.classify().0 {
            prop_assert!(path_is_named(&denial, &String::from_utf8_lossy(&bytes)), "{denial:?}");
        }
    }

    #[test]
    fn broken_messages_are_read_without_harm(text in fragments(), exit in 0..3_i32) {
        for denial in Run::new(SandboxMode::ReadOnly, "cd d && cmd", exit, &text).classify().0 {
            prop_assert!(path_is_named(&denial, &text), "{denial:?} from {text:?}");
        }
    }
}

#[test]
fn a_mebibyte_of_anything_is_read_in_linear_time() {
    let unit: Vec<(&str, Box<dyn Fn(usize) -> String>)> = vec![
        ("noise", Box::new(|at| format!("compiling unit {at} of many, all is well so far and on it goes\n"))),
        ("messages", Box::new(|at| format!("touch: cannot touch 'n{at}': Read-only file system\n"))),
        ("open quotes", Box::new(|_| format!("{}: Permission denied\n", "„(«'".repeat(300)))),
        ("colons", Box::new(|at| format!("{}{at}: Permission denied\n", "a: ".repeat(1300)))),
        ("one line", Box::new(|_| "x: 'y' Permission denied ".repeat(40))),
        ("escapes", Box::new(|_| "\u{1b}[1;31m\u{1b}[".repeat(80) + ": Permission denied\n")),
        ("hosts", Box::new(|at| format!("curl: (6) Could not resolve host: h{at}.example\n"))),
    ];
    for (name, make) in &unit {
        let mut text = String::new();
        let mut at = 0;
        while text.len() < 1 << 20 {
            text.push_str(&make(at));
            at += 1;
        }
        let start = Instant::now();
        let (denials, _) = Run::new(SandboxMode::ReadOnly, "x", 1, &text).classify();
        let took = start.elapsed();
        println!("{name}: {took:?}, {} denials", denials.len());
        assert!(denials.len() <= MAX_DENIALS);
        // Generous: an unoptimised build on a busy machine; quadratic reading of a mebibyte would take minutes.
        assert!(took < Duration::from_secs(20), "{name} took {took:?}");
    }
}
