//! Runs rows of the table, unconfined and confined, and says what the outside saw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::probes::{Actor, Finished, PATH, run};
use crate::scene::{BYSTANDER_GONE, Scene, Template};
use crate::table::{Around, Attack, Control, Effect, Modes};

/// Where a run takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Unconfined,
    Sandbox { backend: &'static str, mode: &'static str, stockade: PathBuf },
}

impl Place {
    pub(crate) fn read_only(&self) -> bool {
        matches!(self, Self::Sandbox { mode: "read-only", .. })
    }

    pub(crate) fn without_namespaces(&self) -> bool {
        matches!(self, Self::Sandbox { backend: "landlock", .. })
    }

    pub(crate) fn has(&self, modes: Modes) -> bool {
        match modes {
            Modes::Both => true,
            Modes::ReadOnly => self.read_only(),
            Modes::WorkspaceWrite => !self.read_only(),
        }
    }
}

/// What one command of a run did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

/// One finished run: what each command said, and everything that is different outside.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) said: Vec<Said>,
    pub(crate) changes: Vec<String>,
    pub(crate) leaked: bool,
    pub(crate) survivors: usize,
    pub(crate) hung: bool,
    pub(crate) gaps: BTreeSet<String>,
    pub(crate) enforcement: String,
    /// The whole result line, to look whether it names what changed.
    pub(crate) report: String,
    pub(crate) stderr: String,
    pub(crate) canary: String,
}

impl Seen {
    /// A run in which nothing has happened yet.
    pub(crate) fn of_nothing(scene: &Scene) -> Self {
        Self {
            said: Vec::new(),
            changes: Vec::new(),
            leaked: false,
            survivors: 0,
            hung: false,
            gaps: BTreeSet::new(),
            enforcement: String::new(),
            report: String::new(),
            stderr: String::new(),
            canary: scene.canary.clone(),
        }
    }

    /// Whether the scene or the run is of no use for another row.
    pub(crate) fn spoilt(&self) -> bool {
        let gone = |line: &String| line.ends_with(BYSTANDER_GONE);
        self.survivors > 0
            || self.hung
            || self.said.iter().any(|said| said.code.is_none())
            || self.changes.iter().any(gone)
    }
}

/// Protected names that stand in the scene's workspace.
const PROTECTED: &[&str] = &[
    "ws/.git/hooks",
    "ws/.git/config",
    "ws/.git/config.worktree",
    "ws/.git/info/attributes",
    "ws/.git/modules/sub/hooks",
    "ws/.git/modules/sub/config",
    "ws/.git/worktrees/tree/config.worktree",
    "ws/vendor/sub/.git/hooks",
    "ws/vendor/sub/.git/config",
    "ws/tree/.git",
    "ws/.vscode",
    "ws/.idea",
    "ws/.claude",
    "ws/.mcp.json",
    "ws/.envrc",
    "bare/.git",
    "bare/.claude",
    "bare/.vscode",
    "bare/.idea",
    "bare/.envrc",
    "bare/.mcp.json",
    "bare/h",
    "linked/.git/hooks",
    "linked/.claude",
    "linked/.vscode",
    "linked/.envrc",
];

/// What a run is started with, unconfined and confined.
pub(crate) fn environment(scene: &Scene) -> Vec<(String, String)> {
    [
        ("PATH", PATH.to_owned()),
        ("HOME", scene.path("home").display().to_string()),
        ("STOCKADE_CANARY", scene.canary.clone()),
        ("AWS_SECRET_ACCESS_KEY", scene.canary.clone()),
        ("GITHUB_TOKEN", scene.canary.clone()),
        ("LANG", "C.UTF-8".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Whole trees that a run in this place must leave as they were, and trees in which only special files are looked for.
pub(crate) fn watched(scene: &Scene, place: &Place) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut whole: Vec<_> = ["out", "home", "bin"].iter().map(|name| scene.path(name)).collect();
    let workspaces: Vec<_> = ["ws", "bare", "linked"].iter().map(|name| scene.path(name)).collect();
    match place {
        Place::Sandbox { mode: "workspace-write", .. } => {
            whole.extend(PROTECTED.iter().map(|name| scene.path(name)));
            (whole, workspaces)
        }
        Place::Unconfined | Place::Sandbox { .. } => {
            whole.extend(workspaces);
            (whole, Vec::new())
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Stands for the scratch directory until the shell fills it in, because in read-only mode only the sandbox knows it.
pub(crate) const SCRATCH: &str = "@@scratch@@";

/// One shell text that runs every command in turn, each between two marks.
fn script(scene: &Scene, place: &Place, commands: &[&str], workspace: &Path) -> String {
    let scratch = workspace.join("scratch");
    let mut text = if place.read_only() {
        String::from("scratch=${TMPDIR:-/tmp}\n")
    } else {
        format!("scratch={}\n", quoted(&scratch.display().to_string()))
    };
    for (number, command) in commands.iter().enumerate() {
        let filled = scene.fill(command, Path::new(SCRATCH));
        let words = match filled.strip_prefix("sh:") {
            Some(shell) => format!("bash -c {}", quoted(shell)),
            None => {
                let arguments: Vec<_> = filled.split(' ').map(quoted).collect();
                format!("{} {}", scene.probe(), arguments.join(" "))
            }
        };
        let words = words.replace(SCRATCH, "'\"$scratch\"'");
        let at = quoted(&workspace.display().to_string());
        text.push_str(&format!("echo '@@begin {number}'\n( cd {at} && {words} ) 2>&1\necho \"@@end {number} $?\"\n"));
    }
    text
}

/// The words of the whole command, from the outermost surrounding in, without the program that is run in the middle.
pub(crate) fn surroundings(scene: &Scene, place: &Place, around: Around, workspace: &str, json: bool) -> Vec<String> {
    let probe = scene.probe();
    let path = |name: &str| scene.path(name).display().to_string();
    let mut words: Vec<String> = Vec::new();
    if around == Around::Mount {
        words.extend([probe.clone(), "with-mount".into(), path("out/mounted"), path("ws/mnt"), "--".into()]);
    }
    if around == Around::Group {
        words.extend(["unshare", "-p", "-f", "--mount-proc", "--kill-child"].map(str::to_owned));
    }
    words.extend(scene.actor.prefix());
    match around {
        Around::Group => words.extend([probe.clone(), "with-group".into(), "--".into()]),
        Around::Terminal => words.extend([probe.clone(), "with-pty".into(), "--".into()]),
        Around::Descriptors => {
            words.extend([probe.clone(), "with-fd".into(), "8".into(), path("out/file"), path("out"), "--".into()]);
        }
        Around::Plain | Around::Mount => {}
    }
    words.extend([probe, "with-session".into(), scene.token.clone(), "--".into()]);
    if let Place::Sandbox { backend, mode, stockade } = place {
        words.extend([stockade.display().to_string(), "run".into()]);
        words.extend(json.then(|| String::from("--json")));
        words.extend(["--mode", mode, "--backend", backend, "--workspace", workspace, "--"].map(str::to_owned));
    }
    words
}

fn parse(text: &str, count: usize) -> Vec<Said> {
    let mut said = vec![Said::default(); count];
    let mut current: Option<usize> = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(number) = line.strip_prefix("@@begin ") {
            current = number.parse().ok();
        } else if let Some((number, code)) = line.strip_prefix("@@end ").and_then(|rest| rest.split_once(' ')) {
            if let Some(slot) = number.parse::<usize>().ok().and_then(|number| said.get_mut(number)) {
                slot.code = code.parse().ok();
            }
            current = None;
        } else if let Some(slot) = current.and_then(|number| said.get_mut(number)) {
            slot.text.push_str(line);
            slot.text.push('\n');
        }
    }
    said
}

/// Runs commands one after another in one place, in a fresh scene, and compares the outside before and after.
pub(crate) fn observe(template: &Template, place: &Place, row: &Attack, commands: &[&str]) -> Seen {
    let mut scene = template.scene();
    let (whole, special) = watched(&scene, place);
    let workspace = scene.path(row.place());
    let script = script(&scene, place, commands, &workspace);
    let json = row.around != Around::Terminal;
    let mut words = surroundings(&scene, place, row.around, &workspace.display().to_string(), json);
    words.extend([String::from("bash"), "-c".into(), script]);
    scene.watch(&whole, &special);
    let before = scene.world();
    let finished = run(&words, &environment(&scene), &workspace, Duration::from_secs(120));
    let unconfined = *place == Place::Unconfined;
    let survivors = if unconfined && row.effect != Effect::Survivor { 0 } else { lingering(&scene, !unconfined, 0) };
    let after = scene.world();
    describe(&scene, finished, commands.len(), survivors, changes(&before, &after), place, row.around)
}

/// How many processes of the run are left, but for one. Confined, there may be none when it has returned, give or take the
/// kernel's own tidying. Unconfined, one that jumps from process to process may escape many looks.
pub(crate) fn lingering(scene: &Scene, confined: bool, except: u32) -> usize {
    let patience = if confined { Duration::from_millis(500) } else { Duration::from_secs(10) };
    let started = Instant::now();
    loop {
        let left = scene.survivors().iter().filter(|pid| u32::try_from(pid.as_raw()) != Ok(except)).count();
        if (left == 0) == confined || started.elapsed() > patience {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn changes(before: &[String], after: &[String]) -> Vec<String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    gone.chain(new.difference(&old).map(|line| format!("+ {line}"))).collect()
}

fn describe(
    scene: &Scene,
    finished: Finished,
    count: usize,
    survivors: usize,
    changes: Vec<String>,
    place: &Place,
    around: Around,
) -> Seen {
    let mut seen = Seen { changes, survivors, hung: finished.hung, stderr: finished.stderr, ..Seen::of_nothing(scene) };
    let mut stdout = finished.stdout;
    if matches!(place, Place::Sandbox { .. }) && around != Around::Terminal {
        let line = stdout.lines().last().unwrap_or_default().to_owned();
        match serde_json::from_str::<serde_json::Value>(&line) {
            Ok(result) => {
                let sandbox = &result["sandbox"];
                seen.gaps = sandbox["gaps"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|gap| gap.as_str())
                    .map(str::to_owned)
                    .collect();
                seen.enforcement = sandbox["enforcement"].as_str().unwrap_or_default().to_owned();
                stdout = result["stdout"]["text"].as_str().unwrap_or_default().to_owned();
                seen.stderr.push_str(result["stderr"]["text"].as_str().unwrap_or_default());
                seen.report = sandbox.to_string();
            }
            Err(error) => seen.stderr.push_str(&format!("\nno result line ({error}): {line}")),
        }
    }
    seen.leaked = stdout.contains(&seen.canary) || seen.stderr.contains(&seen.canary);
    seen.said = parse(&stdout, count);
    seen
}

/// Whether the effect that the row is about was seen.
pub(crate) fn worked(row: &Attack, seen: &Seen) -> bool {
    match row.effect {
        Effect::World => !seen.changes.is_empty(),
        Effect::Leak => seen.leaked,
        Effect::Claim => seen.said.first().is_some_and(|said| said.code == Some(0)),
        Effect::Survivor => seen.survivors > 0,
        Effect::Group => seen.stderr.contains("GROUP signal"),
        Effect::Terminal => seen.stderr.contains("TERMINAL "),
    }
}

/// Everything in a run that must not be, in words; for one row.
pub(crate) fn escapes(row: &Attack, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    if !seen.changes.is_empty() {
        found.push(format!("the world changed: {}", seen.changes.join(" | ")));
    }
    if seen.leaked {
        found.push(String::from("the secret came out"));
    }
    if seen.survivors > 0 {
        found.push(format!("{} processes were left", seen.survivors));
    }
    for mark in ["GROUP signal", "TERMINAL "] {
        if seen.stderr.contains(mark) {
            let lines: Vec<_> = seen.stderr.lines().filter(|line| line.contains(mark)).collect();
            found.push(lines.join("; "));
        }
    }
    if row.effect == Effect::Claim && worked(row, seen) {
        let text = seen.said.first().map(|said| said.text.trim().to_owned()).unwrap_or_default();
        found.push(format!("the kernel let it through {text}"));
    }
    if seen.hung {
        found.push(String::from("the run did not end"));
    }
    found
}

/// Rows in runs: those that can share one do. What a gap excuses is not mixed with the rest, because it may alter the
/// scene for what comes after.
pub(crate) fn batches(rows: &[Attack], gaps: &BTreeSet<String>) -> Vec<Vec<Attack>> {
    let mut shared: BTreeMap<String, Vec<Attack>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.alone) {
        let excused = row.gaps.iter().any(|gap| gaps.contains(*gap));
        let key = format!("{:?} {} {} {excused}", row.around, row.place(), row.effect == Effect::Survivor);
        shared.entry(key).or_default().push(row.clone());
    }
    shared.into_values().flat_map(|rows| rows.chunks(150).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}

/// The controls of one place, in a run of their own; the names of those that failed.
pub(crate) fn controls(template: &Template, place: &Place, list: &[Control]) -> Vec<String> {
    let mut failed = Vec::new();
    for workspace in ["ws", "bare"] {
        let row = Attack::new("control", Effect::Claim, &format!("{{{workspace}}}"));
        let chosen: Vec<_> = list
            .iter()
            .filter(|control| !control.namespaces_only || !place.without_namespaces())
            .filter(|control| place.has(control.modes) || *place == Place::Unconfined)
            .filter(|control| control.args.contains("{bare}") == (workspace == "bare"))
            .collect();
        let commands: Vec<_> = chosen.iter().map(|control| control.args).collect();
        if commands.is_empty() {
            continue;
        }
        let seen = observe(template, place, &row, &commands);
        for (control, said) in chosen.iter().zip(&seen.said) {
            if said.code != Some(0) {
                let text = if said.code.is_none() { seen.stderr.trim() } else { said.text.trim() };
                failed.push(format!("{}: {} -> {:?} {text}", control.family, control.args, said.code));
            }
        }
    }
    failed
}

/// An actor's templates are made on demand.
pub(crate) fn template(actor: Actor) -> Template {
    Template::new(actor)
}
