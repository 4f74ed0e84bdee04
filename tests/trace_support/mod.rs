//! A confined child without the launcher: mounts by `unshare` and `mount`, the filter by a small C program.
#![allow(dead_code)] // each test binary uses a part of it

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use stockade::denial::trace::filter::{self, FilterOptions};
use stockade::denial::trace::{
    FileBackend, NetBackend, SignalBackend, Supervisor, TraceHandle, TraceRecord, Watch, receive_listener,
};
use stockade::policy::{
    EffectivePolicy, Limits, NetworkPolicy, Origin, PathAccess, PathRule, SandboxMode, SyscallRule,
};

/// Marks the one message that passes the filter: the handover of its listener. The children of these tests are not hostile.
const SECRET: u64 = 0x5EC2_E700_0000_0001;

/// A directory with the helper programs, a writable `ws` and a read-only `ro`.
pub(crate) struct Scene {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) base: PathBuf,
}

/// How a child is confined.
pub(crate) struct Confinement {
    /// Shell commands run inside the new namespaces, before the program.
    pub(crate) setup: String,
    /// Flags of `unshare`.
    pub(crate) namespaces: Vec<&'static str>,
    pub(crate) rules: Vec<SyscallRule>,
    pub(crate) policy: EffectivePolicy,
    pub(crate) also_writable: Vec<PathBuf>,
    pub(crate) files: FileBackend,
    pub(crate) network: NetBackend,
    pub(crate) signals: SignalBackend,
}

fn compile(source: &str, into: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_support").join(source);
    let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(into).arg(&source).status().expect("cc");
    assert!(status.success(), "{} does not compile", source.display());
}

pub(crate) fn rule(path: &Path, access: PathAccess) -> PathRule {
    PathRule {
        path: path.to_owned(),
        written: None,
        access,
        optional: false,
        missing: false,
        origin: Origin::Grant,
        reason: None,
    }
}

pub(crate) fn policy(workspace: &Path, mut rules: Vec<PathRule>) -> EffectivePolicy {
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    EffectivePolicy {
        mode: SandboxMode::WorkspaceWrite,
        workspace: workspace.to_owned(),
        workspace_written: None,
        aliases: std::collections::BTreeMap::new(),
        pinned: Vec::new(),
        watched: Vec::new(),
        scan: stockade::policy::ScanBounds::default(),
        rules,
        network: NetworkPolicy::default(),
        limits: Limits::default(),
        seccomp: Vec::new(),
        notes: Vec::new(),
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["ws", "ro", "bin"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        compile("tracee.c", &base.join("bin/tracee"));
        compile("probe.c", &base.join("bin/probe"));
        Self { dir, base }
    }

    /// Compiles one more helper program.
    pub(crate) fn compile(&self, source: &str, into: &str) {
        compile(source, &self.path(into));
    }

    pub(crate) fn path(&self, rest: &str) -> PathBuf {
        self.base.join(rest)
    }

    pub(crate) fn probe(&self) -> String {
        self.path("bin/probe").display().to_string()
    }

    /// `ro` read-only by a bind mount of the same file system, `ws` writable; every user.
    pub(crate) fn mounts(&self) -> Confinement {
        let root = nix::unistd::geteuid().is_root();
        let base = self.base.display();
        Confinement {
            setup: format!("mount --bind {base}/ro {base}/ro && mount -o remount,bind,ro {base}/ro"),
            namespaces: if root { vec!["-m"] } else { vec!["-U", "-r", "-m"] },
            rules: Vec::new(),
            policy: policy(&self.path("ws"), vec![rule(&self.path("ws"), PathAccess::Write)]),
            also_writable: vec!["/dev".into(), "/proc".into()],
            files: FileBackend::Mounts { landlock: false },
            network: NetBackend::None,
            signals: SignalBackend::None,
        }
    }

    /// Starts a command under the confinement and its trace.
    pub(crate) fn start(&self, supervisor: &Supervisor, how: &Confinement, command: &[String]) -> (Child, TraceHandle) {
        let program = filter::compile(&how.rules, FilterOptions { descriptor_metadata: true });
        assert!(program.unknown.is_empty());
        let bytes: Vec<u8> = program
            .instructions
            .iter()
            .flat_map(|i| {
                let mut b = i.code.to_ne_bytes().to_vec();
                b.extend([i.jt, i.jf]);
                b.extend(i.k.to_ne_bytes());
                b
            })
            .collect();
        let file = self.path(&format!("bin/filter-{}", rand_name()));
        std::fs::write(&file, bytes).unwrap();
        let (mine, theirs) = UnixStream::pair().unwrap();
        nix::fcntl::fcntl(&theirs, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        let script = format!(
            "{} && exec {} {} {} {SECRET} \"$@\"",
            how.setup,
            self.path("bin/tracee").display(),
            theirs.as_raw_fd(),
            file.display(),
        );
        let mut child = Command::new("unshare");
        child.args(&how.namespaces).args(["sh", "-c", &script, "sh"]).args(command);
        let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).current_dir(self.path("ws")).spawn().unwrap();
        drop(theirs);
        let listener = receive_listener(mine.as_fd()).expect("the child ended before it handed its listener over");
        let watch = Watch {
            policy: Arc::new(how.policy.clone()),
            rules: how.rules.clone().into(),
            also_writable: how.also_writable.clone(),
            files: how.files,
            network: how.network,
            open_ports: Vec::new(),
            signals: how.signals,
            started: Instant::now(),
        };
        let handle = supervisor.attach(listener, watch).unwrap();
        std::io::Write::write_all(&mut &mine, b"x").unwrap();
        (child, handle)
    }

    /// Runs a command to its end; its output and what the trace saw.
    pub(crate) fn run(&self, how: &Confinement, command: &[String]) -> (String, TraceRecord) {
        let supervisor = Supervisor::start().unwrap();
        let (child, handle) = self.start(&supervisor, how, command);
        let output = child.wait_with_output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), handle.finish().unwrap())
    }

    /// Runs operations of the probe in one process; what each returned and what the trace saw.
    pub(crate) fn probe_all(&self, how: &Confinement, operations: &[String]) -> (Vec<i32>, TraceRecord) {
        let mut command = vec![self.probe()];
        command.extend(operations.iter().cloned());
        let (output, record) = self.run(how, &command);
        let results: Vec<i32> = output.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(results.len(), operations.len(), "the probe did not finish: {output}");
        (results, record)
    }
}

fn rand_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs the named test of this binary again as an ordinary user, when called by root. `true` when it was run there.
pub(crate) fn again_as_user(test: &str) -> bool {
    if !nix::unistd::geteuid().is_root() {
        return false;
    }
    let copy = tempfile::tempdir().unwrap();
    let exe = copy.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    std::fs::set_permissions(copy.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=1500", "--regid=1500", "--clear-groups"])
        .arg(&exe)
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "as a user:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

pub(crate) fn errno(name: i32) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(name))
}
