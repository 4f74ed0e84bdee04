//! The attack suite: every row is first shown to work with nothing around it, then tried inside the sandbox, as root
//! and as an ordinary user, on both backends and in both confining modes, and each time the world is looked at from
//! outside. A row that the kernel of this host cannot show says why; it is tried inside all the same.
//!
//! `STOCKADE_ATTACK_BIN` names another binary to attack; `STOCKADE_ATTACK_ONLY` keeps rows whose name has the text.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test program: failures are panics and the summary is its output"
)]

#[path = "attacks/files.rs"]
mod files;
#[path = "attacks/layout.rs"]
mod layout;
#[path = "attacks/network.rs"]
mod network;
#[path = "support/probes.rs"]
mod probes;
#[path = "attacks/processes.rs"]
mod processes;
#[path = "attacks/repository.rs"]
mod repository;
#[path = "attacks/run.rs"]
mod run;
#[path = "attacks/scene.rs"]
mod scene;
#[path = "attacks/session.rs"]
mod session;
#[path = "attacks/system.rs"]
mod system;
#[path = "attacks/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use probes::{Actor, ROOT, USER};
use run::{Place, Seen, batches, escapes, observe, worked};
use session::Session;
use table::{Able, Around, Attack, Control};

fn attacks() -> Vec<Attack> {
    let only = std::env::var("STOCKADE_ATTACK_ONLY").unwrap_or_default();
    let mut all =
        [files::attacks(), system::attacks(), processes::attacks(), network::attacks(), repository::attacks()].concat();
    all.retain(|row| row.name.contains(&only) || row.family.contains(&only));
    all
}

fn control_rows() -> Vec<Control> {
    [files::CONTROLS, system::CONTROLS, processes::CONTROLS, network::CONTROLS, repository::CONTROLS].concat()
}

fn can(row: &Attack, actor: Actor) -> bool {
    let here = !matches!(row.around, Around::Mount) || actor == ROOT;
    here && match row.able {
        Able::Both => true,
        Able::Root => actor == ROOT,
        Able::Nobody(_) => false,
    }
}

/// What the unconfined runs showed.
struct Proof {
    worked: BTreeSet<String>,
    /// Rows that should have worked and did not, with what the probe said.
    failed: Vec<String>,
    able: usize,
    /// Devices, files and calls that this kernel does not have or that its container refuses to everybody.
    lacking: Vec<String>,
}

/// Families whose targets are the kernel's own and are not the same on every host.
const HOSTS_OWN: &[&str] = &["kernel-file", "kernel-call"];

fn prove(actor: Actor) -> Proof {
    let template = run::template(actor);
    let mut proof = Proof { worked: BTreeSet::new(), failed: Vec::new(), able: 0, lacking: Vec::new() };
    let mut session: Option<(String, Session)> = None;
    for row in attacks() {
        // The same call on the same kind of file in the workspace, which only read-only mode forbids, needs no proof
        // of its own.
        let twin = row.modes == table::Modes::ReadOnly && proof.worked.contains(&row.args.replace("{ws}", "{out}"));
        if twin || !can(&row, actor) {
            continue;
        }
        let seen = unconfined_run(&template, &mut session, &row);
        if worked(&row, &seen) {
            proof.able += 1;
            proof.worked.insert(row.args);
        } else if HOSTS_OWN.contains(&row.family) {
            proof.lacking.push(format!("{}: {} -> {}", row.family, row.name, said(&seen)));
        } else {
            proof.able += 1;
            proof.failed.push(format!("{}: {} -> {}", row.family, row.name, said(&seen)));
        }
    }
    proof
}

/// One row with nothing around it. What an earlier row did to the scene may stand in its way; then it gets a fresh one.
fn unconfined_run(template: &scene::Template, kept: &mut Option<(String, Session)>, row: &Attack) -> Seen {
    if row.alone {
        return observe(template, &Place::Unconfined, row, &[&row.args]);
    }
    let wanted = format!("{:?} {}", row.around, row.place());
    let mut session = match kept.take() {
        Some((is, session)) if is == wanted => session,
        _ => Session::start(template, &Place::Unconfined, row.around, row.place()),
    };
    let used = session.changed;
    let mut seen = session.attack(row);
    if row.effect == table::Effect::Survivor {
        seen.survivors = session.survivors();
        return seen;
    }
    if used && !worked(row, &seen) {
        drop(session);
        return unconfined_run(template, kept, row);
    }
    if !seen.spoilt() {
        *kept = Some((wanted, session));
    }
    seen
}

fn said(seen: &Seen) -> String {
    let first = seen.said.first().cloned().unwrap_or_default();
    format!("{:?} {} {}", first.code, first.text.trim(), seen.stderr.trim())
}

static PROOFS: [OnceLock<Proof>; 2] = [OnceLock::new(), OnceLock::new()];

fn index(actor: Actor) -> usize {
    usize::from(actor == USER)
}

/// The unconfined runs of an actor, once.
fn proof(actor: Actor) -> &'static Proof {
    PROOFS[index(actor)].get_or_init(|| prove(actor))
}

/// What is known of them while the tests run side by side.
fn proven(actor: Actor) -> String {
    PROOFS[index(actor)].get().map_or_else(
        || String::from("the unconfined runs are not over yet"),
        |proof| format!("{} shown to work unconfined", proof.worked.len()),
    )
}

/// True when this test cannot act as that actor, which it says.
fn out_of_reach(actor: Actor) -> bool {
    if !actor.available() {
        println!("not run: only root can act as {}", actor.name);
    }
    !actor.available()
}

fn unconfined(actor: Actor) {
    if out_of_reach(actor) {
        return;
    }
    let proof = proof(actor);
    let count = proof.able - proof.failed.len();
    println!("unconfined as {}: {count} of {} attacks worked", actor.name, proof.able);
    for failure in &proof.failed {
        println!("  did not work: {failure}");
    }
    for lacking in &proof.lacking {
        println!("  not possible on this host: {lacking}");
    }
    for row in attacks() {
        if let Able::Nobody(why) = row.able {
            println!("  not possible on this host: {}: {}: {why}", row.family, row.name);
        }
    }
    assert!(proof.able > 0 && count * 10 >= proof.able * 9, "{count} of {} attacks worked unconfined", proof.able);
}

/// What came of one row inside.
#[derive(Debug, Default)]
struct Tally {
    contained: usize,
    limits: BTreeMap<&'static str, Vec<String>>,
    excused: BTreeMap<String, Vec<String>>,
    reported: Vec<String>,
    escaped: Vec<String>,
}

impl Tally {
    fn findings(&self) -> usize {
        let count = |names: &[String]| names.len();
        self.limits.values().map(|names| count(names)).sum::<usize>()
            + self.excused.values().map(|names| count(names)).sum::<usize>()
            + count(&self.reported)
            + count(&self.escaped)
    }
}

fn judge(tally: &mut Tally, row: &Attack, seen: &Seen, gaps: &BTreeSet<String>) {
    let found = escapes(row, seen);
    let name = format!("{}: {}", row.family, row.name);
    if found.is_empty() {
        tally.contained += 1;
    } else if let Some(limit) = row.limit {
        tally.limits.entry(limit).or_default().push(name);
    } else if let Some(gap) = row.gaps.iter().find(|gap| gaps.contains(**gap)) {
        tally.excused.entry((*gap).to_owned()).or_default().push(name);
    } else if row.family == "planted" && names_what_changed(seen) {
        tally.reported.push(name);
    } else {
        tally.escaped.push(format!("{name}\n      {}\n      probe: {}", found.join("\n      "), said(seen)));
    }
}

/// A protected name that was not there may be made; then the result must say so.
fn names_what_changed(seen: &Seen) -> bool {
    let made = |line: &String| line.strip_prefix("+ ").and_then(|rest| rest.split(" mode=").next()).map(str::to_owned);
    let paths: Vec<_> = seen.changes.iter().filter_map(made).collect();
    !paths.is_empty() && paths.iter().any(|path| seen.report.contains(path.as_str()))
}

fn stockade() -> PathBuf {
    std::env::var_os("STOCKADE_ATTACK_BIN").map_or_else(|| env!("CARGO_BIN_EXE_stockade").into(), PathBuf::from)
}

fn contained(actor: Actor, backend: &'static str, mode: &'static str) {
    if out_of_reach(actor) {
        return;
    }
    let template = run::template(actor);
    let place = Place::Sandbox { backend, mode, stockade: stockade() };
    let plain = Attack::new("gaps", table::Effect::Claim, "sh:true");
    let idle = observe(&template, &place, &plain, &["sh:true"]);
    assert_eq!(idle.said[0].code, Some(0), "nothing runs inside: {}", idle.stderr);
    let quiet: Vec<_> = escapes(&table::Attack::new("quiet", table::Effect::World, "sh:true"), &idle);
    assert_eq!(quiet, Vec::<String>::new(), "a command that does nothing changes the world");
    let controls = run::controls(&template, &place, &control_rows());

    let rows: Vec<_> = attacks()
        .into_iter()
        .filter(|row| place.has(row.modes) && (!row.landlock_only || backend == "landlock"))
        .filter(|row| row.around != Around::Mount || actor == ROOT)
        .collect();
    let attacked = Attacked { template: &template, place: &place, gaps: &idle.gaps };
    let mut tally = Tally::default();
    for batch in batches(&rows, &idle.gaps) {
        attacked.settle(&mut tally, &batch);
    }
    for row in rows.iter().filter(|row| row.alone) {
        attacked.alone(&mut tally, row);
    }
    report(actor, backend, mode, &tally, rows.len(), &idle.gaps);
    assert!(controls.is_empty(), "ordinary operations fail inside:\n{}", controls.join("\n"));
    assert!(tally.escaped.is_empty(), "{} attacks escaped", tally.escaped.len());
}

/// The sandbox under attack.
struct Attacked<'a> {
    template: &'a scene::Template,
    place: &'a Place,
    gaps: &'a BTreeSet<String>,
}

impl Attacked<'_> {
    /// Rows in one run, as long as nothing outside changes but by a known gap; then in the next, in a fresh scene. What
    /// comes to light only
    /// when a run ends is laid at the door of the row that does it alone.
    fn settle(&self, tally: &mut Tally, batch: &[Attack]) {
        let mut rows = batch.iter().peekable();
        while let Some(first) = rows.peek() {
            let mut session = Session::start(self.template, self.place, first.around, first.place());
            let mut shared = Vec::new();
            let mut spoilt = false;
            while !spoilt && let Some(row) = rows.next() {
                let seen = session.attack(row);
                let excused = row.gaps.iter().any(|gap| self.gaps.contains(*gap));
                spoilt = seen.spoilt() || (!seen.changes.is_empty() && !excused);
                shared.push((row, seen));
            }
            let last = session.finish();
            if last.survivors > 0 || last.hung || last.leaked || (!spoilt && !last.changes.is_empty()) {
                self.one_by_one(tally, &shared, &last);
            } else {
                shared.iter().for_each(|(row, seen)| judge(tally, row, seen, self.gaps));
            }
        }
    }

    fn one_by_one(&self, tally: &mut Tally, shared: &[(&Attack, Seen)], last: &Seen) {
        let before = tally.findings();
        for (row, _) in shared {
            self.alone(tally, row);
        }
        if tally.findings() == before {
            let names: Vec<_> = shared.iter().map(|(row, _)| row.args.as_str()).collect();
            tally.escaped.push(format!("these together, and none alone: {}\n      {last:?}", names.join(", ")));
        }
    }

    fn alone(&self, tally: &mut Tally, row: &Attack) {
        let seen = observe(self.template, self.place, row, &[&row.args]);
        judge(tally, row, &seen, self.gaps);
    }
}

fn report(actor: Actor, backend: &str, mode: &str, tally: &Tally, rows: usize, gaps: &BTreeSet<String>) {
    let count = |map: &BTreeMap<String, Vec<String>>| map.values().map(Vec::len).sum::<usize>();
    let limits: usize = tally.limits.values().map(Vec::len).sum();
    println!(
        "{} {backend} {mode}: {rows} attacks, {} contained, {limits} known limits, {} excused by gaps, {} reported, \
         {} ESCAPED; gaps {gaps:?}; {}",
        actor.name,
        tally.contained,
        count(&tally.excused),
        tally.reported.len(),
        tally.escaped.len(),
        proven(actor),
    );
    for (limit, names) in &tally.limits {
        println!("  limit ({limit}): {}", names.join(", "));
    }
    for (gap, names) in &tally.excused {
        println!("  gap {gap}: {}", names.join(", "));
    }
    for name in &tally.reported {
        println!("  happened and was reported: {name}");
    }
    for escape in &tally.escaped {
        println!("  ESCAPE {escape}");
    }
}

#[test]
fn every_attack_works_unconfined_as_root() {
    unconfined(ROOT);
}

#[test]
fn every_attack_works_unconfined_as_a_user() {
    unconfined(USER);
}

#[test]
fn ordinary_operations_work_unconfined() {
    for actor in [ROOT, USER] {
        if !out_of_reach(actor) {
            let failed = run::controls(&run::template(actor), &Place::Unconfined, &control_rows());
            assert!(failed.is_empty(), "as {}: {}", actor.name, failed.join("\n"));
        }
    }
}

/// The observers themselves: around a command that does nothing they see nothing.
#[test]
fn a_quiet_command_changes_nothing() {
    for actor in [ROOT, USER].into_iter().filter(|actor| !out_of_reach(*actor)) {
        let template = run::template(actor);
        for around in [Around::Plain, Around::Group, Around::Terminal, Around::Descriptors] {
            let row = Attack::new("quiet", table::Effect::World, "sh:true").around(around);
            let seen = observe(&template, &Place::Unconfined, &row, &[&row.args]);
            assert_eq!(escapes(&row, &seen), Vec::<String>::new(), "as {} {around:?}", actor.name);
            assert_eq!(seen.said[0].code, Some(0));
        }
    }
}

/// 64 MiB of output end in a result line of bounded size that says how much there was.
#[test]
fn a_flood_of_output_is_bounded() {
    const MIB: u64 = 1 << 20;
    let scene = run::template(if ROOT.available() { ROOT } else { USER }).scene();
    let command = format!("{} flood 64", scene.probe());
    let words = [&stockade().display().to_string(), "run", "--json", "-c", &command].map(str::to_owned);
    let env =
        [("PATH", probes::PATH), ("HOME", "/nonexistent")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flood = probes::run(&words, &env, &scene.path("ws"), std::time::Duration::from_secs(60));
    let result: serde_json::Value = serde_json::from_str(&flood.stdout).unwrap();
    assert_eq!(result["exitCode"], 0, "{}", flood.stderr);
    assert_eq!(result["stdout"]["bytes"], 64 * MIB);
    assert_eq!(result["stdout"]["truncated"], true);
    assert!(flood.stdout.len() < 4 << 20, "{} bytes of result", flood.stdout.len());
}

macro_rules! containment {
    ($($name:ident: $actor:ident $backend:literal $mode:literal;)*) => {
        $(#[test] fn $name() { contained($actor, $backend, $mode); })*
    };
}

containment! {
    root_namespaces_read_only: ROOT "namespaces" "read-only";
    root_namespaces_workspace_write: ROOT "namespaces" "workspace-write";
    root_landlock_read_only: ROOT "landlock" "read-only";
    root_landlock_workspace_write: ROOT "landlock" "workspace-write";
    user_namespaces_read_only: USER "namespaces" "read-only";
    user_namespaces_workspace_write: USER "namespaces" "workspace-write";
    user_landlock_read_only: USER "landlock" "read-only";
    user_landlock_workspace_write: USER "landlock" "workspace-write";
}
