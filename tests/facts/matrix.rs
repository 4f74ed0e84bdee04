//! Every cell of the matrix: what is said, and what has become of the world.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stockade::denial::Denial;
use stockade::executor::RunResult;
use stockade::policy::SandboxMode;

use crate::run::{Setting, shell};
use crate::table::{Cell, Row, markdown, rows};
use crate::user::{Programs, User, scratch};

/// Directories of one user with an object for every cell.
struct Place {
    dir: tempfile::TempDir,
    port: u16,
    _listener: TcpListener,
}

impl Place {
    fn build(user: User) -> Self {
        let dir = scratch();
        for name in ["work/.git", "out", "home/.ssh", "tmp", "foreign"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let git = Command::new("git").args(["init", "-q"]).arg(dir.path().join("work")).status();
        assert!(git.unwrap().success());
        fs::create_dir_all(dir.path().join("work/.git/hooks")).unwrap();
        user.own(dir.path());
        User::current().own(&dir.path().join("foreign"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { port: listener.local_addr().unwrap().port(), dir, _listener: listener }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The object of one cell; for operations on what exists, made there.
    fn object(&self, row: &Row, name: &str, user: User) -> PathBuf {
        let root = self.root();
        let directory = match row.place {
            "workspace" => root.join("work"),
            "outside" => root.join("out"),
            "foreign" => root.join("foreign"),
            "protected" => root.join("work/.git/hooks"),
            "masked" => root.join("home/.ssh"),
            _ => PathBuf::from("/tmp"),
        };
        let path = directory.join(format!("{name}-{}", root.file_name().unwrap().to_str().unwrap()));
        let exists = ["append", "truncate", "remove", "rename", "chmod", "setid", "times", "xattr", "read"];
        let made = if exists.contains(&row.operation) { Some(path.clone()) } else { None };
        let source = (row.operation == "link").then(|| with_end(&path, ".src"));
        for file in made.into_iter().chain(source) {
            fs::write(&file, "old\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            if row.place != "foreign" {
                user.own(&file);
            }
        }
        path
    }

    fn command(&self, row: &Row, path: &Path) -> String {
        let p = path.display();
        match (row.operation, row.place) {
            ("create", _) => format!("touch {p}"),
            ("append", _) => format!("echo x >> {p}"),
            ("truncate", _) => format!("truncate -s 0 {p}"),
            ("remove", _) => format!("rm -f {p}"),
            ("rename", _) => format!("mv {p} {p}.new"),
            ("mkdir", _) => format!("mkdir {p}"),
            ("symlink", _) => format!("ln -s nowhere {p}"),
            ("link", _) => format!("ln {p}.src {p}"),
            ("fifo", _) => format!("mkfifo {p}"),
            ("chmod", _) => format!("chmod 600 {p}"),
            ("setid", _) => format!("chmod u+s {p}"),
            ("times", _) => format!("touch -h -d 2001-02-03 {p}"),
            ("xattr", _) => format!("setfattr -n user.stockade -v x {p}"),
            ("read", _) => format!("cat {p}"),
            ("connect", "loopback") => format!("echo > /dev/tcp/127.0.0.1/{}", self.port),
            ("connect", _) => "echo > /dev/tcp/192.0.2.1/80".to_owned(),
            ("resolve", _) => "curl -sS http://name.invalid/".to_owned(),
            ("namespace", "user") => "unshare -U true".to_owned(),
            ("namespace", _) => "unshare -m true".to_owned(),
            ("ptrace", _) => "strace -o /dev/null true".to_owned(),
            other => panic!("no command for {other:?}"),
        }
    }

    fn named(&self, row: &Row, path: &Path, denial: &Denial) -> bool {
        let net = |host: &str, port| denial.host.as_deref() == Some(host) && denial.port == port;
        match (row.operation, row.place) {
            ("connect", "loopback") => net("127.0.0.1", Some(self.port)),
            ("connect", _) => net("192.0.2.1", Some(80)),
            ("resolve", _) => net("name.invalid", None),
            ("namespace" | "ptrace", _) => denial.path.is_none() && denial.host.is_none(),
            _ => denial.path.as_deref() == Some(path),
        }
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

/// What stands at a path, as far as any of the operations could change it.
fn state(path: &Path) -> String {
    let Ok(meta) = fs::symlink_metadata(path) else { return "nothing".to_owned() };
    let mut value = [0; 8];
    let tagged = rustix::fs::lgetxattr(path, "user.stockade", &mut value).is_ok();
    format!("{:o} {} bytes, {} links, time {}, tagged {tagged}", meta.mode(), meta.len(), meta.nlink(), meta.mtime())
}

/// Takes away what a cell has left.
fn clear(path: &Path) {
    for left in [path.to_path_buf(), with_end(path, ".new"), with_end(path, ".src")] {
        // A directory is removed by the other call; what is not there needs no removing.
        if left.symlink_metadata().is_ok() {
            fs::remove_file(&left).or_else(|_| fs::remove_dir(&left)).unwrap();
        }
    }
}

struct Trial<'a> {
    row: &'a Row,
    mode: SandboxMode,
    setting: Setting,
}

impl Trial<'_> {
    fn is_about_a_file(&self) -> bool {
        self.row.kind.starts_with("fs.") && self.row.operation != "read"
    }

    fn name(&self) -> String {
        let (row, mode) = (self.row, self.mode);
        format!("{} {} under {mode} ({})", row.operation, row.place, self.setting.name())
    }

    /// Everything that is wrong in this cell.
    fn wrong(&self, number: usize, place: &Place, programs: &Programs) -> Vec<String> {
        let path = place.object(self.row, &format!("cell{number}"), self.setting.user);
        let line = place.command(self.row, &path);
        let run_with = |mode: SandboxMode, args: &[String]| {
            shell(self.setting, programs, place.root(), mode.as_str(), args, &line)
        };
        let run = |mode: SandboxMode| run_with(mode, &[]);
        let before = state(&path);
        let result = run(self.mode);
        let after = state(&path);
        let cell = self.row.cell(self.mode, self.setting.landlock, self.setting.user.is_root());
        let mut wrong = self.wrong_words(cell, &result, place, &path);
        // What happens in a private /tmp stays there.
        let lands = cell == Cell::Allowed && self.is_about_a_file() && self.row.place != "tmp";
        if (before != after) != lands {
            wrong.push(format!("the world: {before} became {after}"));
        }
        if let (Cell::Denied { cure, .. }, true, true) = (cell, self.setting.traced, self.is_about_a_file()) {
            let grant =
                result.sandbox.iter().flat_map(|report| &report.denials).find_map(|denial| denial.grant.clone());
            wrong.extend(self.wrong_cure(cure, &path, &run));
            if let Some(grant) = grant {
                clear(&path);
                let path = place.object(self.row, &format!("cell{number}"), self.setting.user);
                // The executor makes an approved file that is missing; `--write` is for what is there.
                let made: Vec<_> = grant.write.iter().filter(|path| !path.exists()).collect();
                for missing in &made {
                    // Old, so that touching it is seen.
                    let file = std::fs::File::create(missing).unwrap();
                    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
                    self.setting.user.own(missing);
                }
                let before = state(&path);
                // `touch` sets the times of a file that is there, which Landlock alone refuses by call in read-only.
                let only_times = !made.is_empty() && self.setting.landlock && self.mode == SandboxMode::ReadOnly;
                let args: Vec<String> =
                    grant.write.iter().flat_map(|path| ["--write".to_owned(), path.display().to_string()]).collect();
                let result = run_with(self.mode, &args);
                if !only_times && state(&path) == before {
                    wrong.push(format!("the grant {grant:?} does not cure it: {:?}", result.stderr.text));
                }
            }
        }
        clear(&path);
        wrong
    }

    fn wrong_words(&self, cell: Cell, result: &RunResult, place: &Place, path: &Path) -> Vec<String> {
        let report = result.sandbox.as_ref().unwrap();
        let denials = &report.denials;
        let Cell::Denied { errno, cure } = cell else {
            let succeeded = result.exit_code == Some(0);
            let right = denials.is_empty() && !report.denied && succeeded == (cell == Cell::Allowed);
            return if right { Vec::new() } else { vec![format!("exit {:?}, {report:?}", result.exit_code)] };
        };
        let [denial] = &denials[..] else {
            return vec![format!("not one denial: {denials:?}; {}", result.stderr.text)];
        };
        let sources: Vec<String> =
            denial.sources.iter().map(|s| serde_json::to_value(s).unwrap().as_str().unwrap().to_owned()).collect();
        let checks = [
            ("denied", report.denied && result.exit_code != Some(0)),
            ("kind", denial.kind.as_str() == self.row.kind),
            ("object", place.named(self.row, path, denial)),
            ("errno", errno.is_none_or(|errno| denial.errno.as_deref() == Some(errno))),
            ("witnesses", sources == self.row.witnesses(self.setting.landlock, self.setting.traced)),
            ("blocking", denial.blocking),
            ("cure", denial.widen_to == cure),
        ];
        checks.iter().filter(|(_, right)| !right).map(|(what, _)| format!("{what}: {denial:?}")).collect()
    }

    /// The cure cures, and nothing narrower does.
    fn wrong_cure(
        &self,
        cure: Option<SandboxMode>,
        path: &Path,
        run: &dyn Fn(SandboxMode) -> RunResult,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let before = state(path);
        for mode in self.mode.wider().filter(|mode| cure.is_none_or(|cure| *mode != cure)) {
            if cure.is_some_and(|cure| cure == SandboxMode::WorkspaceWrite) {
                continue;
            }
            let result = run(mode);
            if state(path) != before {
                wrong.push(format!("{mode} lets it through: {:?}", result.stderr.text));
            }
        }
        if let Some(mode) = cure {
            let result = run(mode);
            if state(path) == before {
                wrong.push(format!("{mode} does not cure it: {:?}", result.stderr.text));
            }
        }
        wrong
    }
}

#[test]
fn every_cell_of_the_matrix() {
    let (rows, programs) = (rows(), Programs::get());
    assert!(rows.len() >= 50, "the table shrank");
    let mut wrong = Vec::new();
    let mut tried = 0;
    for user in User::all() {
        let place = Place::build(user);
        let modes = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite];
        let trials: Vec<Trial<'_>> = rows
            .iter()
            .flat_map(|row| modes.map(|mode| (row, mode)))
            .flat_map(|(row, mode)| Setting::all_of(user).into_iter().map(move |setting| Trial { row, mode, setting }))
            .collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(trial) = trials.get(number) else { break };
                        for what in trial.wrong(number, &place, &programs) {
                            found.lock().unwrap().push(format!("{}: {what}", trial.name()));
                        }
                    }
                });
            }
        });
        tried += trials.len();
        wrong.extend(found.into_inner().unwrap());
    }
    println!("{tried} cells");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/denials.md");
    if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
        fs::write(&page, markdown()).unwrap();
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        written == markdown(),
        "docs/denials.md is out of date: STOCKADE_WRITE_DOCS=1 cargo test --test facts page"
    );
}
