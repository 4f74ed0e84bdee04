//! Whole lots of command lines whose answers were written before the first run. The form is explained in the lots.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stockade::denial::Denial;
use stockade::executor::RunResult;

use crate::score::Score;
use crate::user::{Programs, User, scratch};

/// One expected denial.
struct Row<'a> {
    optional: bool,
    only: Vec<&'a str>,
    kinds: Vec<&'a str>,
    targets: Vec<String>,
    errno: &'a str,
    blocking: Option<bool>,
    widen: &'a str,
}

struct Line<'a> {
    name: &'a str,
    modes: &'a str,
    users: &'a str,
    backends: &'a str,
    setup: Option<&'a str>,
    command: String,
    rows: Vec<Row<'a>>,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("## ") {
            let (name, spec) = head.split_once(" : ").unwrap();
            let [modes, users, backends] = spec.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let (command, rows) = (String::new(), Vec::new());
            lines.push(Line { name, modes, users, backends, setup: None, command, rows });
            continue;
        }
        let Some(current) = lines.last_mut() else { continue };
        if let Some(setup) = line.strip_prefix("# setup: ") {
            current.setup = Some(setup);
        } else if let Some(row) = line.strip_prefix("= ") {
            current.rows.push(row_of(row, false));
        } else if let Some(row) = line.strip_prefix("~ ") {
            current.rows.push(row_of(row, true));
        } else {
            current.command.push_str(line);
            current.command.push('\n');
        }
    }
    lines
}

fn row_of(text: &str, optional: bool) -> Row<'_> {
    let (only, rest) = match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((only, rest)) => (only.split(',').collect(), rest),
        None => (Vec::new(), text),
    };
    let mut words = rest.split(' ');
    let kinds = words.next().unwrap().split('|').collect();
    let targets = words.next().unwrap().split("||").map(|target| target.replace('␠', " ")).collect();
    let errno = words.next().unwrap_or("*");
    let blocking = match words.next().unwrap_or("*") {
        "B" => Some(true),
        "N" => Some(false),
        _ => None,
    };
    Row { optional, only, kinds, targets, errno, blocking, widen: words.next().unwrap_or("*") }
}

/// The text matches a pattern in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(tail) = text.strip_prefix(head) else { return false };
    tail.char_indices().map(|(at, _)| at).chain([tail.len()]).any(|at| matches(rest, &tail[at..]))
}

fn target(denial: &Denial) -> String {
    match (&denial.path, &denial.host, denial.port) {
        (Some(path), ..) => path.display().to_string(),
        (None, Some(host), Some(port)) => format!("{host}:{port}"),
        (None, Some(host), None) => host.clone(),
        (None, None, _) => String::new(),
    }
}

/// What a lot's commands find: one scene for each user, of which every run gets a copy.
struct Stage {
    user: User,
    dir: tempfile::TempDir,
    port: u16,
    outsider: Child,
    _tcp: TcpListener,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.outsider.kill().unwrap();
        self.outsider.wait().unwrap();
    }
}

impl Stage {
    fn build(user: User) -> Self {
        let dir = scratch();
        let root = dir.path();
        user.own(root);
        let mut script = user.command("bash");
        script.args(["-ec", include_str!("../data/facts/lots.sh")]).current_dir(root).env("HOME", root);
        let made = script.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        for (name, mode, uid, file) in
            [("priv", 0o700, 1600, "s.txt"), ("rootdir", 0o755, 0, "r.txt"), ("sticky", 0o1777, 0, "theirs")]
        {
            let (directory, owner) = (root.join(name), if name == "rootdir" { 0 } else { 1600 });
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join(file), "s\n").unwrap();
            chown(directory.join(file), Some(owner), Some(owner)).unwrap();
            chown(&directory, Some(uid), Some(uid)).unwrap();
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let outsider = user.command("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        Self { user, dir, port, outsider, _tcp: tcp }
    }

    fn copy(&self) -> tempfile::TempDir {
        let copy = scratch();
        let status = Command::new("cp").args(["-a", "--", "."]).arg(copy.path()).current_dir(self.dir.path()).status();
        assert!(status.unwrap().success());
        copy
    }

    /// Fills in `@W` and its like.
    fn fill(&self, text: &str, root: &Path) -> String {
        let root = root.display().to_string();
        let names =
            [("W", "/work"), ("O", "/out"), ("H", "/home"), ("X", "/priv"), ("R", "/rootdir"), ("T", "/sticky")];
        let mut values: Vec<(&str, String)> = names.map(|(name, below)| (name, format!("{root}{below}"))).into();
        values.extend([("B", root.clone()), ("P", self.port.to_string()), ("S", format!("{root}/out/host.sock"))]);
        values.push(("K", self.outsider.id().to_string()));
        let mut pieces = text.split('@');
        let mut filled = pieces.next().unwrap_or("").to_owned();
        for piece in pieces {
            let is_name = |name: &str| {
                piece.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            };
            match values.iter().find(|(name, _)| is_name(name)) {
                Some((name, value)) => filled.extend([value, &piece[name.len()..]]),
                None => filled.extend(["@", piece]),
            }
        }
        filled
    }
}

/// One line in one setting.
struct Run<'a> {
    line: &'a Line<'a>,
    mode: &'a str,
    backend: &'a str,
    stage: &'a Stage,
}

impl Run<'_> {
    fn judge(&self, programs: &Programs, score: &mut Score) {
        let copy = self.stage.copy();
        let root = copy.path();
        let socket = UnixListener::bind(root.join("out/host.sock")).unwrap();
        std::fs::set_permissions(root.join("out/host.sock"), std::fs::Permissions::from_mode(0o777)).unwrap();
        let prepared = |command: &mut Command| {
            command.current_dir(root.join("work")).env("HOME", root.join("home")).env("LANG", "C.UTF-8");
            command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
            for name in ["TMPDIR", "LC_ALL", "LANGUAGE", "PYTHONDONTWRITEBYTECODE"] {
                command.env_remove(name);
            }
            command.stdin(Stdio::null()).output().unwrap()
        };
        if let Some(setup) = self.line.setup {
            let done = prepared(self.stage.user.command("bash").args(["-c", &self.stage.fill(setup, root)]));
            assert!(done.status.success(), "{setup}: {done:?}");
        }
        let mode = if self.mode == "ro" { "read-only" } else { "workspace-write" };
        let backend = if self.backend == "ns" { "namespaces" } else { "landlock" };
        let command = self.stage.fill(self.line.command.trim_end(), root);
        let options = ["run", "--json", "--timeout-ms", "120000", "--mode", mode, "--backend", backend, "-c", &command];
        let output = prepared(self.stage.user.command(&programs.stockade).args(options));
        drop(socket);
        let name = format!("{} {mode} {} {backend}", self.line.name, self.stage.user.name());
        let result: RunResult =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {output:?}"));
        self.add(&name, &result, root, score);
    }

    fn holds(&self, row: &Row<'_>) -> bool {
        let user = if self.stage.user.is_root() { "root" } else { "user" };
        row.only.iter().all(|only| [self.mode, self.backend, user].contains(only))
    }

    fn add(&self, name: &str, result: &RunResult, root: &Path, score: &mut Score) {
        let report = result.sandbox.as_ref().unwrap();
        let mut found: Vec<&Denial> = report.denials.iter().collect();
        let kind_fits = |row: &Row<'_>, denial: &Denial| row.kinds.contains(&denial.kind.as_str());
        let fits = |row: &Row<'_>, denial: &Denial| {
            let named = target(denial);
            kind_fits(row, denial) && row.targets.iter().any(|text| matches(&self.stage.fill(text, root), &named))
        };
        let (optional, expected): (Vec<_>, Vec<_>) =
            self.line.rows.iter().filter(|row| self.holds(row)).partition(|row| row.optional);
        let (mut wrong, mut missing) = (Vec::new(), Vec::new());
        for &row in &expected {
            match found.iter().position(|denial| fits(row, denial)) {
                Some(at) => self.compare(row, found.remove(at), score, &mut wrong),
                None => missing.push(row),
            }
        }
        found.retain(|denial| !optional.iter().any(|row| fits(row, denial)));
        for row in missing {
            score.missed += 1;
            score.misplaced += u32::from(found.iter().any(|denial| kind_fits(row, denial)));
            wrong.push(format!("missed {:?} {:?}", row.kinds, row.targets));
        }
        score.runs += 1;
        score.invented += u32::try_from(found.len()).unwrap();
        wrong.extend(found.iter().map(|denial| format!("invented {denial:?}")));
        let denied = expected.iter().any(|row| row.blocking == Some(true));
        if denied != report.denied && expected.iter().all(|row| row.blocking.is_some()) {
            score.wrong_denied += 1;
            wrong.push(format!("denied {}", report.denied));
        }
        if !wrong.is_empty() {
            let shown: String = result.stderr.text.chars().take(600).collect();
            score.wrong.push(format!("{name}\n   exit {:?}: {shown}\n   {}", result.exit_code, wrong.join("\n   ")));
        }
    }

    fn compare(&self, row: &Row<'_>, denial: &Denial, score: &mut Score, wrong: &mut Vec<String>) {
        score.right += 1;
        if row.blocking.is_some_and(|blocking| blocking != denial.blocking) {
            score.wrong_blocking += 1;
            wrong.push(format!("blocking {}: {denial:?}", denial.blocking));
        }
        let widen = denial.widen_to.map_or("null", |mode| mode.as_str());
        let as_written = |word: &str| match word {
            "ww" => "workspace-write",
            "danger" => "danger-full-access",
            _ => "null",
        };
        if row.widen != "*" && !row.widen.split('/').any(|word| as_written(word) == widen) {
            score.wrong_cure += 1;
            wrong.push(format!("cure {widen}, not {}: {denial:?}", row.widen));
        }
        if denial.widen_to.is_none() && denial.grant.is_some() {
            score.wrong_cure += 1;
            wrong.push(format!("a grant without a cure: {denial:?}"));
        }
        let errno = match row.errno {
            "std" if self.backend == "ns" => "EROFS",
            "std" => "EACCES",
            other => other,
        };
        let answered = denial.errno.as_deref().unwrap_or("");
        if errno != "*" && !errno.split('/').any(|one| one == answered) {
            score.wrong_errno += 1;
            wrong.push(format!("errno {answered}, not {errno}: {denial:?}"));
        }
    }
}

/// Tries a lot: every line with one backend or the other as either user, with all of both where
/// `STOCKADE_TEST_ALL_FACTS` is set.
fn tried(text: &str) -> Score {
    let lines = lines(text);
    let all = std::env::var_os("STOCKADE_TEST_ALL_FACTS").is_some();
    // The other users' directories of the scene take root.
    assert!(User::current().is_root(), "the lots are tried as root, who tries them as an ordinary user too");
    let stages: Vec<Stage> = User::all().into_iter().map(Stage::build).collect();
    let mut runs = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let either = |word: &str, one: &str| word == one || word == "both";
        for (at, (mode, backend)) in [("ro", "ns"), ("ro", "ll"), ("ww", "ns"), ("ww", "ll")].into_iter().enumerate() {
            for (who, stage) in stages.iter().enumerate() {
                let user = if stage.user.is_root() { "root" } else { "user" };
                let means = either(line.modes, mode) && either(line.backends, backend) && either(line.users, user);
                let only_one = line.users != "both" || line.backends != "both";
                if means && (all || only_one || (number + at + who).is_multiple_of(2)) {
                    runs.push(Run { line, mode, backend, stage });
                }
            }
        }
    }
    let programs = Programs::get();
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Score::default()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut score = Score::default();
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run.judge(&programs, &mut score);
                }
                total.lock().unwrap().merge(score);
            });
        }
    });
    let total = total.into_inner().unwrap();
    println!("{}", total.summary());
    println!("{}", total.wrong.join("\n"));
    total
}

fn assert_good(total: &Score, fewest: u32) {
    total.assert_good(fewest);
    assert!(total.wrong_denied * 50 <= total.runs && total.wrong_errno * 50 <= total.runs, "{}", total.summary());
}

#[test]
fn the_second_lot() {
    assert_good(&tried(include_str!("../data/facts/lot2.txt")), 280);
}

#[test]
fn the_third_lot() {
    assert_good(&tried(include_str!("../data/facts/lot3.txt")), 190);
}
