//! The whole of it: the host, the control, each mode, the verdicts.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::cell::{Act, Cell, FileAct};
use super::facts::SECRET_VARIABLE;
use super::judge::{Setting, Status, judge};
use super::options::{Options, Progress, VerifyError};
use super::report::{CellReport, CellResult, Counts, Evidence, ModeReport, NamedGap, PolicyReport, Report, meaning};
use super::run::{Answers, confined, unconfined};
use super::scene::{Scene, Seen};
use super::table::cells;
use crate::denial::Denial;
use crate::doctor;
use crate::executor::{ExecError, Gap, SandboxReport};
use crate::host::NamespaceRoute;
use crate::plan::BackendChoice;
use crate::policy::{
    EffectivePolicy, ExplainedRule, Limits, NetworkMode, PathAccess, SandboxMode, explain_path, explain_rules,
};
use crate::sandboxed::{SandboxedConfig, SandboxedExecutor};

/// Version of the form of [`Report`].
const SCHEMA: u32 = 1;

/// Tries every cell without a sandbox and under each mode, and says what it comes to. `progress` is told how far it is.
///
/// # Errors
/// When nothing could be tried at all. A mode that cannot run here is no error: the report says so.
pub async fn verify(options: &Options, mut progress: impl FnMut(Progress)) -> Result<Report, VerifyError> {
    let clock = Instant::now();
    let began = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let table = cells();
    let modes: Vec<SandboxMode> = options.modes.iter().copied().filter(|mode| mode.confines()).collect();
    let total = table.len() * (modes.len() + 1);
    progress(Progress { what: "the host", done: 0, total });
    let host = doctor::examine(&options.launcher).await?;
    let verifier = Verifier { options, place: place(options)?, program: program(options)? };
    let control = verifier.control(|done| progress(Progress { what: "without a sandbox", done, total })).await?;
    let mut tried = Vec::new();
    for (number, mode) in modes.into_iter().enumerate() {
        let before = table.len() * (number + 1);
        let heard = |done| progress(Progress { what: mode.as_str(), done: before + done, total });
        tried.push(verifier.mode(mode, &control, heard).await?);
    }
    progress(Progress { what: "done", done: total, total });
    let kept = tried.iter().all(|tried| tried.report.refused.is_none() && tried.report.counts.broken == 0);
    let cells = table.iter().zip(control).enumerate().map(|(number, (cell, seen))| CellReport {
        id: cell.id(),
        group: cell.group,
        operation: cell.what,
        place: cell.place,
        control: evidence(seen),
        results: tried.iter().filter_map(|tried| tried.results.get(number).cloned()).collect(),
    });
    Ok(Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        began,
        duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
        kept,
        host,
        cells: cells.collect(),
        modes: tried.into_iter().map(|tried| tried.report).collect(),
    })
}

fn evidence(seen: Seen) -> Evidence {
    Evidence { outcome: seen.outcome, inside: seen.inside, host: seen.host }
}

fn program(options: &Options) -> Result<PathBuf, VerifyError> {
    match &options.program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().map_err(VerifyError::Control),
    }
}

/// Where the targets are made: not where a sandbox has its own directory, or they would be out of sight.
fn place(options: &Options) -> Result<PathBuf, VerifyError> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let usual = [Some(PathBuf::from("/var/tmp")), home, std::env::current_dir().ok()];
    let candidates: Vec<PathBuf> = match &options.beneath {
        Some(directory) => vec![directory.clone()],
        None => usual.into_iter().flatten().collect(),
    };
    let mut tried = Vec::new();
    for directory in candidates {
        match usable(&directory) {
            Ok(directory) => return Ok(directory),
            Err(error) => tried.push(format!("{}: {error}", directory.display())),
        }
    }
    Err(VerifyError::NoPlace { tried: tried.join(", ") })
}

fn usable(directory: &Path) -> io::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    let private = ["/tmp", "/dev", "/run", "/proc", "/sys"].iter().find(|root| directory.starts_with(root));
    if let Some(private) = private {
        return Err(io::Error::other(format!("a sandbox has a {private} of its own")));
    }
    tempfile::tempdir_in(&directory)?;
    Ok(directory)
}

/// What one mode came to.
struct Tried {
    report: ModeReport,
    results: Vec<CellResult>,
}

struct Verifier<'a> {
    options: &'a Options,
    place: PathBuf,
    program: PathBuf,
}

impl Verifier<'_> {
    fn scene(&self, unconfined: bool) -> Result<Scene, VerifyError> {
        Scene::build(&self.place, &self.program, unconfined).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> VerifyError {
        VerifyError::Scene { place: self.place.clone(), source }
    }

    /// The same operations with nothing around them.
    async fn control(&self, heard: impl FnMut(usize)) -> Result<Vec<Seen>, VerifyError> {
        let mut scene = self.scene(true)?;
        // As many processes as the shipped policies allow, and no size that is too large.
        let limits = Limits { processes: Some(1024), tmp_size: Some(0), ..Limits::default() };
        scene.publish(&limits).map_err(|source| self.failed(source))?;
        let answers = unconfined(&self.program, scene.root(), &scene.facts.token, heard).await;
        Ok(scene.look(&answers.map_err(VerifyError::Control)?.said))
    }

    async fn mode(
        &self,
        mode: SandboxMode,
        control: &[Seen],
        mut heard: impl FnMut(usize),
    ) -> Result<Tried, VerifyError> {
        let (mut scene, policy, executor) = self.prepare(mode)?;
        let ran = match confined(&executor, &self.program, scene.root(), &mut heard).await {
            // It may lie where no sandbox sees it.
            Err(ExecError::NotFound { .. } | ExecError::NotExecutable { .. }) => match scene.place_program() {
                Ok(copy) => confined(&executor, &copy, scene.root(), &mut heard).await,
                Err(error) => Err(ExecError::io("placing a copy of this program", error)),
            },
            ran => ran,
        };
        let landlock_alone = self.options.backend == BackendChoice::Landlock
            || executor.host_support().namespaces == NamespaceRoute::Refused;
        crate::executor::BashExecutor::dispose(&executor).await;
        let backend = if landlock_alone { "landlock" } else { "namespaces" };
        let outcome = Ran { mode, backend, landlock_alone, policy: &policy, control };
        Ok(match ran {
            Ok((answers, result)) => outcome.judged(&mut scene, &answers, result.sandbox.as_ref()),
            Err(error) => outcome.refused(&scene, error.to_string()),
        })
    }

    /// A scene whose facts know the policy, and the policy whose paths are the scene's.
    fn prepare(&self, mode: SandboxMode) -> Result<(Scene, EffectivePolicy, SandboxedExecutor), VerifyError> {
        let mut scene = self.scene(false)?;
        let policies = (self.options.policy)(mode, scene.workspace(), scene.home())?;
        let policy = policies.effective(&policies.standing())?;
        scene.publish(&policy.limits).map_err(|source| self.failed(source))?;
        let mut config = SandboxedConfig::new(policies);
        config.backend = self.options.backend;
        config.require_full = self.options.require_full;
        config.trace = self.options.trace;
        config.audit = self.options.audit;
        config.environment = self.options.environment.clone();
        config.launcher = self.options.launcher.clone();
        let mut inherited: crate::environment::Variables = std::env::vars_os().collect();
        inherited.insert(SECRET_VARIABLE.into(), scene.facts.token.clone().into());
        inherited.insert("HOME".into(), scene.home().into());
        inherited.remove(std::ffi::OsStr::new("TMPDIR"));
        config.inherited = Some(inherited);
        Ok((scene, policy, SandboxedExecutor::new(config)?))
    }
}

/// How a mode ran.
struct Ran<'a> {
    mode: SandboxMode,
    backend: &'static str,
    landlock_alone: bool,
    policy: &'a EffectivePolicy,
    control: &'a [Seen],
}

impl Ran<'_> {
    fn judged(&self, scene: &mut Scene, answers: &Answers, sandbox: Option<&SandboxReport>) -> Tried {
        let gaps = sandbox.map(|sandbox| sandbox.gaps.clone()).unwrap_or_default();
        let denials = sandbox.map(|sandbox| sandbox.denials.as_slice()).unwrap_or_default();
        let seen = scene.look(&answers.said);
        let mut counts = Counts::default();
        let mut results = Vec::new();
        for ((cell, control), seen) in cells().iter().zip(self.control).zip(seen) {
            let result = self.result(scene, cell, (control, seen), &gaps, denials);
            counts.add(result.status);
            results.push(result);
        }
        let report = ModeReport {
            mode: self.mode,
            backend: self.backend,
            enforcement: sandbox.map(|sandbox| sandbox.enforcement),
            gaps: gaps.into_iter().map(|name| NamedGap { name, meaning: meaning(name) }).collect(),
            refused: None,
            counts,
            policy: self.policy_report(scene),
        };
        Tried { report, results }
    }

    fn refused(&self, scene: &Scene, why: String) -> Tried {
        let report = ModeReport {
            mode: self.mode,
            backend: "none",
            enforcement: None,
            gaps: Vec::new(),
            refused: Some(why),
            counts: Counts::default(),
            policy: self.policy_report(scene),
        };
        Tried { report, results: Vec::new() }
    }

    fn result(
        &self,
        scene: &Scene,
        cell: &Cell,
        (control, seen): (&Seen, Seen),
        gaps: &[Gap],
        denials: &[Denial],
    ) -> CellResult {
        let unlimited = match cell.act {
            Act::ManyProcesses => scene.facts.processes.is_none(),
            Act::LargeTmp => scene.facts.tmp_size.is_none(),
            _ => false,
        };
        let (mode, network) = (self.mode, self.policy.network.mode);
        let setting = Setting { mode, landlock_alone: self.landlock_alone, gaps, network, unlimited };
        let status = judge(cell, &setting, control.outcome, seen.outcome);
        let gap = (status == Status::Gap).then_some(cell.gap).flatten();
        let rule = (status == Status::Broken).then(|| self.rule(scene, cell)).flatten();
        let denials = denials_of(scene, cell, denials);
        CellResult { mode, expected: cell.expected(mode), status, evidence: evidence(seen), gap, denials, rule }
    }

    /// The rule that allows what the mode by itself would not.
    fn rule(&self, scene: &Scene, cell: &Cell) -> Option<String> {
        let target = scene.facts.target(cell)?;
        let explained = explain_path(self.policy, &target);
        let rule = if matches!(cell.act, Act::File(FileAct::Read | FileAct::Execute, _)) {
            explained.rule.filter(|_| explained.read)
        } else {
            let rules = explain_rules(self.policy).into_iter().filter(|_| explained.write);
            let above = rules.filter(|rule| rule.access == PathAccess::Write && target.starts_with(&rule.path));
            above.max_by_key(|rule| rule.path.components().count())
        };
        rule.map(|rule| self.shortened(scene, rule).to_string())
    }

    fn policy_report(&self, scene: &Scene) -> PolicyReport {
        let network = &self.policy.network;
        // Those of the throw-away home are copies of the user's own.
        let rules = explain_rules(self.policy).into_iter().filter(|rule| !rule.path.starts_with(scene.home()));
        PolicyReport {
            rules: rules.map(|rule| self.shortened(scene, rule)).collect(),
            network: network.mode,
            hosts: if network.mode == NetworkMode::Allowlist { network.allow.clone() } else { Vec::new() },
            limits: self.policy.limits.clone(),
        }
    }

    /// Throw-away directories by the names that stand for them.
    fn shortened(&self, scene: &Scene, mut rule: ExplainedRule) -> ExplainedRule {
        for (directory, name) in [(&self.policy.workspace, "${WORKSPACE}"), (&scene.home(), "~")] {
            if let Ok(rest) = rule.path.strip_prefix(directory) {
                rule.path = if rest.as_os_str().is_empty() { name.into() } else { Path::new(name).join(rest) };
            }
        }
        rule
    }
}

/// Denials about a cell's target or call.
fn denials_of(scene: &Scene, cell: &Cell, denials: &[Denial]) -> Vec<String> {
    // A link is reported by its new name.
    let paths = [scene.facts.target(cell), scene.facts.second(cell)];
    let about = |denial: &&Denial| match cell.act {
        Act::Reach(name) => denial.syscall.as_deref() == name.split(' ').next() && denial.path.is_none(),
        _ => denial.path.is_some() && paths.contains(&denial.path),
    };
    let mut said: Vec<String> = denials.iter().filter(about).map(seen_by).collect();
    said.dedup();
    said.truncate(1);
    said
}

fn seen_by(denial: &Denial) -> String {
    let witnesses = serde_json::to_value(&denial.sources).unwrap_or_default();
    let names: Vec<&str> = witnesses.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    format!("{}, seen by {}", denial.kind, names.join(" and "))
}
