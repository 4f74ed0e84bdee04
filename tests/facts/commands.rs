//! Real command lines, their right answers, and what `stockade run --json` says.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use stockade::policy::SandboxMode;

use crate::answer::{Answer, Where};
use crate::run::{Setting, shell};
use crate::scene::{Scene, fingerprint};
use crate::score::Score;
use crate::user::{Programs, User};

#[derive(Debug, Deserialize)]
struct File {
    case: Vec<Case>,
}

/// A command line and its right answers; the words are explained in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    run: String,
    #[serde(default = "read_only")]
    mode: SandboxMode,
    #[serde(default)]
    args: Vec<String>,
    denials: Vec<String>,
    landlock: Option<Vec<String>>,
    user: Option<Vec<String>>,
    landlock_user: Option<Vec<String>>,
    #[serde(default)]
    silent: bool,
    #[serde(default = "yes")]
    off: bool,
    backend: Option<String>,
}

const fn read_only() -> SandboxMode {
    SandboxMode::ReadOnly
}

const fn yes() -> bool {
    true
}

impl Case {
    fn means_something(&self, number: usize, setting: Setting) -> bool {
        let backend = self.backend.as_ref().is_none_or(|only| only == setting.backend());
        backend && (setting.traced || self.off && !self.silent && in_the_sample(number))
    }

    fn answers(&self, setting: Setting, place: Where<'_>) -> Vec<Answer> {
        let user = self.user.as_ref().filter(|_| !setting.user.is_root());
        let landlock = self.landlock.as_ref().filter(|_| setting.landlock);
        let both = self.landlock_user.as_ref().filter(|_| setting.landlock && !setting.user.is_root());
        let written = both.or(landlock).or(user).unwrap_or(&self.denials);
        written.iter().map(|text| Answer::read(text, place)).collect()
    }

    fn may_change_the_scene(&self) -> bool {
        self.mode != SandboxMode::ReadOnly || !self.args.is_empty()
    }

    fn judge(&self, setting: Setting, programs: &Programs, scene: &Scene, score: &mut Score) {
        let copy = self.may_change_the_scene().then(|| scene.copy());
        let root = copy.as_ref().map_or(scene.root(), |copy| copy.path());
        let fill = |text: &str| {
            let path = |name: &str| root.join(name).display().to_string();
            let text = text.replace("{port}", &scene.port.to_string());
            text.replace("{work}", &path("work")).replace("{out}", &path("out")).replace("{home}", &path("home"))
        };
        let args: Vec<String> = self.args.iter().map(|arg| fill(arg)).collect();
        let result = shell(setting, programs, root, self.mode.as_str(), &args, &fill(&self.run));
        let place = Where { root, is_root: setting.user.is_root(), mode: self.mode, port: scene.port };
        let name = format!("{} {:?} ({}, {})", self.mode, self.run, setting.name(), self.args.join(" "));
        score.add(&name, &result, &self.answers(setting, place), setting.traced);
    }
}

fn cases(table: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/facts").join(table);
    toml::from_str::<File>(&std::fs::read_to_string(path).unwrap()).unwrap().case
}

/// Without the trace a third of the table is tried; all of it when `STOCKADE_TEST_ALL_FACTS` is set.
fn in_the_sample(number: usize) -> bool {
    number.is_multiple_of(3) || std::env::var_os("STOCKADE_TEST_ALL_FACTS").is_some()
}

/// Runs every case that means something in a setting, a few at a time.
fn score(cases: &[Case], setting: Setting, scene: &Scene) -> Score {
    let programs = Programs::get();
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Score::default()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut score = Score::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { break };
                    if case.means_something(number, setting) {
                        case.judge(setting, &programs, scene, &mut score);
                    }
                }
                total.lock().unwrap().merge(score);
            });
        }
    });
    total.into_inner().unwrap()
}

/// Tries a table as every user in every setting; nothing that was refused may have happened.
fn tried(table: &str) -> Score {
    let cases = cases(table);
    assert!(cases.len() >= 150, "the table shrank to {}", cases.len());
    let mut total = Score::default();
    for user in User::all() {
        let scene = Scene::build(user);
        let before = fingerprint(scene.root());
        for setting in Setting::all_of(user) {
            let score = score(&cases, setting, &scene);
            println!("{}: {}", setting.name(), score.summary());
            total.merge(score);
        }
        let changed: Vec<_> = fingerprint(scene.root()).into_iter().filter(|entry| !before.contains(entry)).collect();
        assert!(changed.is_empty(), "refused commands changed the scene: {changed:?}\n{}", total.wrong.join("\n"));
    }
    println!("all: {}", total.summary());
    println!("{}", total.wrong.join("\n"));
    total
}

fn assert_good(total: &Score, fewest: u32) {
    total.assert_good(fewest);
    assert!(total.wrong_denied * 100 <= total.runs, "{}", total.summary());
}

#[test]
fn real_command_lines() {
    assert_good(&tried("commands.toml"), 1000);
}

/// Lines that were written after the witnesses, and whose answers were written before the first run.
#[test]
fn command_lines_of_a_later_day() {
    let total = tried("heldout.toml");
    assert!(total.right >= 600, "only {} denials were looked for", total.right);
    // What the first run gave, before anything was changed for it.
    assert!(total.precision() >= 0.93 && total.recall() >= 0.97, "{}", total.summary());
    assert!(total.placed() >= 0.97 && total.cured() >= 0.97 && total.blocking() >= 0.94, "{}", total.summary());
}
