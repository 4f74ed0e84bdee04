//! The recorded and hand-written messages against their right answers.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use stockade::denial::{Denial, DenialKind};
use stockade::policy::SandboxMode;

use crate::world::{PROJECT, Run};

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
    fn cure(&self, command: &str) -> Option<SandboxMode> {
        match self.widen.as_deref() {
            Some("none") => None,
            Some(mode) => Some(mode.parse().unwrap()),
            // Only root gives files away.
            None if command.starts_with("chown ") => None,
            None if self.path.as_deref().is_some_and(|path| path.starts_with(PROJECT)) => {
                Some(SandboxMode::WorkspaceWrite)
            }
            None => Some(SandboxMode::DangerFullAccess),
        }
    }
}

fn cases(file: &str) -> Vec<(String, Case)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/denials/{file}.toml"));
    let cases: File = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    cases.case.into_iter().enumerate().map(|(at, case)| (format!("{file}[{at}] {}", case.command), case)).collect()
}

/// How the reader did on a set of cases.
#[derive(Debug, Default)]
struct Score {
    cases: usize,
    right: u32,
    missed: Vec<String>,
    invented: Vec<String>,
    /// Found, but with a wrong kind, `blocking` or cure.
    detail: Vec<String>,
    /// Languages of cases that this host's catalogues cannot check.
    unchecked: BTreeSet<String>,
}

impl Score {
    fn of(files: &[&str]) -> Self {
        let mut score = Self::default();
        for (name, case) in files.iter().flat_map(|file| cases(file)) {
            score.add(&name, &case);
        }
        println!(
            "{} cases: {} right, {} missed, {} invented, {} wrong in detail; languages not checked here: {:?}",
            score.cases,
            score.right,
            score.missed.len(),
            score.invented.len(),
            score.detail.len(),
            score.unchecked
        );
        score
    }

    fn add(&mut self, name: &str, case: &Case) {
        self.cases += 1;
        if let Some(language) = &case.needs_catalogue
            && !Path::new(&format!("/usr/share/locale/{language}/LC_MESSAGES/libc.mo")).exists()
        {
            self.unchecked.insert(language.clone());
            return;
        }
        let mode = case.mode.unwrap_or(SandboxMode::ReadOnly);
        let mut run = Run::new(mode, &case.command, case.exit, &case.stderr);
        run.stdout = case.stdout.as_bytes();
        let (mut found, _) = run.classify();
        for answer in &case.denials {
            let Some(at) = found.iter().position(|denial| answer.names(denial)) else {
                self.missed.push(format!("{name}\n   missed {answer:?}\n   found {found:?}"));
                continue;
            };
            let denial = found.remove(at);
            self.right += 1;
            // Under workspace-write only the cures that are written down are checked.
            let unsaid = mode == SandboxMode::WorkspaceWrite && answer.widen.is_none();
            let cure = if unsaid { denial.widen_to } else { answer.cure(&case.command) };
            if denial.kind != answer.kind || denial.blocking != answer.blocking || denial.widen_to != cure {
                self.detail.push(format!("{name}\n   found {denial:?}\n   right {answer:?}"));
            }
        }
        self.invented.extend(found.iter().map(|denial| format!("{name}\n   invented {denial:?}")));
    }

    fn all_wrong(&self) -> String {
        [&self.missed[..], &self.invented[..], &self.detail[..]].concat().join("\n")
    }
}

#[test]
fn precision_and_recall_over_the_corpus() {
    let score = Score::of(&["erofs", "eacces", "network", "foreign"]);
    let (right, missed) = (f64::from(score.right), score.missed.len() as f64);
    assert!(score.cases >= 150 && right + missed >= 150.0, "the corpus shrank: {score:?}");
    let (precision, recall) = (right / (right + score.invented.len() as f64), right / (right + missed));
    assert!(precision >= 0.99 && recall >= 0.99, "precision {precision:.3}, recall {recall:.3}\n{}", score.all_wrong());
    assert!(score.detail.is_empty(), "kind, blocking or cure wrong:\n{}", score.detail.join("\n"));
}

#[test]
fn what_works_goes_on_working() {
    let score = Score::of(&["more"]);
    assert!(score.cases >= 200, "the corpus shrank");
    assert!(score.all_wrong().is_empty(), "{}", score.all_wrong());
}
