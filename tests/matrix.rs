//! Every operation, under every mode, as every user, with every backend; the host is looked at afterwards.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

#[path = "support/kernel.rs"]
mod kernel;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/matrix_probe.rs"]
mod probe;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/matrix_table.rs"]
mod table;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/matrix_world.rs"]
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use stockade::executor::{Enforcement, Gap, RunResult, SandboxReport};
use stockade::policy::SandboxMode;

use table::{Act, Answer, MATRIX, Row, Why};
use user::User;
use world::Scene;

const MODES: [SandboxMode; 3] = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess];

/// Every user under every mode, watched and unwatched: that calls are traced must change no answer.
fn cells() -> impl Iterator<Item = (User, SandboxMode, &'static str)> {
    let users = User::all().into_iter();
    users.flat_map(|user| MODES.into_iter().flat_map(move |mode| ["off", "auto"].map(|trace| (user, mode, trace))))
}

/// What the command itself says of each row.
type Said = BTreeMap<usize, Result<String, String>>;

/// Without stockade everything lands that the kernel allows: no row is refused for a reason of its own.
#[test]
fn the_controls_land() {
    for user in User::all() {
        let mut scene = Scene::build(user);
        let mut command = user.command(&scene.programs.own);
        inside(&mut command, &scene);
        let output = command.output().unwrap();
        let said = parse(&String::from_utf8_lossy(&output.stdout));
        let expected = |row: &Row| row.unconfined(user.is_root());
        check(&format!("unconfined, {}", user.name()), &mut scene, &said, expected);
    }
}

#[test]
fn namespaces_keep_every_cell() {
    if !kernel::has_all_mount_calls() {
        return nothing_runs("namespaces", "Linux has had all the mount calls since 5.12");
    }
    for (user, mode, trace) in cells() {
        let mut scene = Scene::build(user);
        let (said, report) = confined(&scene, user, mode, "namespaces", trace);
        let title = format!("namespaces, {mode}, {}, trace {trace}", user.name());
        let expected = if mode.confines() { kernel::gaps_with_namespaces(user.is_root()) } else { Vec::new() };
        assert_eq!(report.gaps, expected, "{title}");
        let full = match (mode.confines(), expected.is_empty()) {
            (true, true) => Enforcement::Full,
            (true, false) => Enforcement::Partial,
            (false, _) => Enforcement::None,
        };
        assert_eq!(report.enforcement, full, "{title}");
        check(&title, &mut scene, &said, |row| row.expected(mode, false, user.is_root()).0);
    }
}

#[test]
fn landlock_alone_keeps_every_cell_but_what_its_gaps_name() {
    if kernel::host().landlock_abi == 0 {
        return nothing_runs("landlock", "Landlock");
    }
    for (user, mode, trace) in cells() {
        let mut scene = Scene::build(user);
        let (said, report) = confined(&scene, user, mode, "landlock", trace);
        let title = format!("landlock, {mode}, {}, trace {trace}", user.name());
        let expected = |row: &Row| {
            let (answer, why) = row.expected(mode, true, user.is_root());
            match why {
                Some(Why::Reported(gap)) if !report.gaps.contains(&gap) => row.expected(mode, false, user.is_root()).0,
                Some(Why::Before(abi, _, gap)) if kernel::host().landlock_abi >= abi || !report.gaps.contains(&gap) => {
                    row.expected(mode, false, user.is_root()).0
                }
                _ => answer,
            }
        };
        check(&title, &mut scene, &said, expected);
        // No gap is reported for nothing. A limit of processes is shown by no row, nor are requests to devices (ABI 5).
        let shown: Vec<Gap> = MATRIX
            .iter()
            .filter_map(|row| match row.expected(mode, true, user.is_root()).1 {
                Some(Why::Reported(gap) | Why::Before(_, _, gap)) => Some(gap),
                _ => None,
            })
            .chain([Gap::Limits, Gap::Ioctl])
            .collect();
        let unshown: Vec<&Gap> = report.gaps.iter().filter(|gap| !shown.contains(gap)).collect();
        assert!(unshown.is_empty(), "{title}: reported, and shown by no row: {unshown:?}");
    }
}

/// On a kernel without what a backend needs: every confining mode refuses, says so, and the command does not run; what
/// promises nothing runs, the control.
fn nothing_runs(backend: &str, why: &str) {
    for (user, mode, trace) in cells() {
        let scene = Scene::build(user);
        let marker = scene.root().join("work/it-ran");
        let output = command(&scene, user, mode, backend, trace).arg("touch").arg(&marker).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let title = format!("{backend}, {mode}, {}, trace {trace}: {stderr}", user.name());
        if mode.confines() {
            assert_eq!(output.status.code(), Some(125), "{title}");
            assert!(stderr.contains(why) && !marker.exists(), "{title}");
        } else {
            assert!(output.status.success() && marker.exists(), "{title}");
        }
    }
}

#[test]
fn the_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/matrix.md");
    if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(page.parent().unwrap()).unwrap();
        std::fs::write(&page, table::render()).unwrap();
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == table::render(), "docs/matrix.md is not what the table says: STOCKADE_WRITE_DOCS=1 writes it");
}

/// Runs the inside of the matrix confined, all rows in one sandbox.
fn confined(scene: &Scene, user: User, mode: SandboxMode, backend: &str, trace: &str) -> (Said, SandboxReport) {
    let mut command = command(scene, user, mode, backend, trace);
    command.arg(&scene.programs.own);
    inside(&mut command, scene);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let result: RunResult = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(result.exit_code, Some(0), "{}{}", result.stdout.text, result.stderr.text);
    (parse(&result.stdout.text), result.sandbox.unwrap())
}

/// `stockade run`, to which the program and its arguments have to be added.
fn command(scene: &Scene, user: User, mode: SandboxMode, backend: &str, trace: &str) -> Command {
    let mut command = user.command(&scene.programs.stockade);
    command.args(["run", "--json", "--trace", trace, "--mode", mode.as_str(), "--backend", backend, "--workspace"]);
    command.arg(scene.root().join("work")).arg("--env").arg(format!("MATRIX_ROOT={}", scene.root().display()));
    command.arg("--");
    command
}

fn inside(command: &mut Command, scene: &Scene) {
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "probe_inside"]);
    command.env("MATRIX_ROOT", scene.root()).env("HOME", scene.root().join("home"));
    command.env_remove("TMPDIR").current_dir(scene.root().join("work"));
}

fn parse(text: &str) -> Said {
    let lines = text.lines().filter_map(|line| line.split_once("row ").map(|(_, rest)| rest));
    let rows = lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let number = words.next().unwrap().parse().unwrap();
        let went_well = words.next() == Some("ok");
        let detail = words.next().unwrap_or_default().to_owned();
        (number, if went_well { Ok(detail) } else { Err(detail) })
    });
    rows.collect()
}

/// Compares every row's answer with what was expected, and reports all that differ.
fn check(title: &str, scene: &mut Scene, said: &Said, expected: impl Fn(&Row) -> Answer) {
    assert_eq!(said.len(), MATRIX.len(), "{title}: not every row was tried: {said:?}");
    let mut wrong = String::new();
    for (number, row) in MATRIX.iter().enumerate() {
        let said = &said[&number];
        let detail = said.as_deref().unwrap_or_default();
        let landed = scene.landed(number, detail, said.is_ok());
        let answer = match (said, landed, scene.changed(number)) {
            (Ok(_), true, _) => Some(Answer::Lands),
            (Ok(_), false, false) if row.act == Act::Create => Some(Answer::Private),
            (Err(_), false, false) => Some(Answer::Refused),
            // It claims what the host does not show, or the other way round.
            _ => None,
        };
        if answer != Some(expected(row)) {
            let found = answer.map_or("neither one nor the other", Answer::text);
            let what = format!("{} {}", row.act.text(), row.place.text());
            wrong.push_str(&format!("\n  {what}: {found}, not {} ({said:?})", expected(row).text()));
        }
    }
    assert!(wrong.is_empty(), "{title}:{wrong}");
}

/// Not a test of its own: what the others run in the sandbox.
#[test]
#[ignore = "run by the other tests, confined"]
fn probe_inside() {
    probe::run(Path::new(&std::env::var_os("MATRIX_ROOT").expect("run by the other tests")));
}

/// Not a test of its own: a process of the host that the commands try to reach.
#[test]
#[ignore = "run by the other tests"]
fn victim() {
    world::victim();
}
