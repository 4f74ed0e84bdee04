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
        }
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
    fn cure(&self) -> Option<SandboxMode> {
        match self.widen.as_deref() {
            Some("none") => None,
            Some(mode) => Some(mode.parse().unwrap()),
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
            let cure = if protected && answer.widen.is_none() { denial.widen_to } else { answer.cure() };
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
