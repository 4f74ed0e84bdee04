//! A made-up host, its policies, and a run on it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use stockade::denial::{
    Denial, FileBackend, FileState, HostAccess, HostView, NetBackend, Observation, PolicyViews, RunEvidence,
    TraceCoverage, classify,
};
use stockade::policy::{
    EffectivePolicy, Limits, NetworkMode, NetworkPolicy, Origin, PathAccess, PathRule, SandboxMode,
};

pub(crate) const PROJECT: &str = "/home/dev/project";

/// A host with one user, `dev`, who owns `/home/dev` and nothing else.
pub(crate) struct World {
    states: BTreeMap<PathBuf, FileState>,
}

impl World {
    pub(crate) fn new() -> Self {
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

    fn on_one_file_system(&self, _: &Path, _: &Path) -> bool {
        true
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

    fn makes_user_namespaces(&self) -> bool {
        false
    }

    fn may_trace(&self) -> bool {
        true
    }
}

pub(crate) fn policy(mode: SandboxMode) -> EffectivePolicy {
    let rule = |path: &str, access| PathRule {
        path: PathBuf::from(path),
        written: None,
        access,
        optional: false,
        missing: false,
        origin: Origin::Default { policy: mode.to_string(), line: 1 },
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
        aliases: BTreeMap::new(),
        pinned: Vec::new(),
        watched: Vec::new(),
        scan: stockade::policy::ScanBounds::default(),
        network: NetworkPolicy { mode: network, ..NetworkPolicy::default() },
        limits: Limits::default(),
        seccomp: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) struct Run<'a> {
    pub(crate) mode: SandboxMode,
    pub(crate) command: &'a str,
    pub(crate) exit: i32,
    pub(crate) stderr: &'a [u8],
    pub(crate) stdout: &'a [u8],
    pub(crate) observations: Vec<Observation>,
    pub(crate) coverage: TraceCoverage,
}

impl<'a> Run<'a> {
    pub(crate) fn new(mode: SandboxMode, command: &'a str, exit: i32, stderr: &'a str) -> Self {
        let stderr = stderr.as_bytes();
        Self { mode, command, exit, stderr, stdout: b"", observations: Vec::new(), coverage: TraceCoverage::None }
    }

    pub(crate) fn traced(mut self, observations: Vec<Observation>) -> Self {
        (self.observations, self.coverage) = (observations, TraceCoverage::Complete);
        self
    }

    pub(crate) fn classify(self) -> (Vec<Denial>, u64) {
        let world = World::new();
        let effective = policy(self.mode);
        let wider = |mode| Some(policy(mode));
        let views = PolicyViews {
            effective: &effective,
            wider: &wider,
            host: &world,
            files: FileBackend::Mounts { landlock: true },
            network: NetBackend::Namespace,
        };
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
