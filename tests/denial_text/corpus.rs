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

fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for name in ["erofs", "eacces", "network", "foreign"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/denials/{name}.toml"));
        let file: File = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        cases.extend(
            file.case.into_iter().enumerate().map(|(at, case)| (format!("{name}[{at}] {}", case.command), case)),
        );
    }
    cases
}

#[test]
fn the_corpus_is_classified_right() {
    let (mut right, mut invented, mut missed, mut answers) = (0_u32, 0_u32, 0_u32, 0_u32);
    let mut wrong = Vec::new();
    let cases = cases();
    let mut without_catalogue = BTreeSet::new();
    for (name, case) in &cases {
        if let Some(language) = &case.needs_catalogue
            && !Path::new(&format!("/usr/share/locale/{language}/LC_MESSAGES/libc.mo")).exists()
        {
            without_catalogue.insert(language.clone());
            continue;
        }
        let mode = case.mode.unwrap_or(SandboxMode::ReadOnly);
        let mut run = Run::new(mode, &case.command, case.exit, &case.stderr);
        run.stdout = case.stdout.as_bytes();
        let (mut found, _) = run.classify();
        for answer in &case.denials {
            answers += 1;
            let Some(at) = found.iter().position(|denial| answer.names(denial)) else {
                missed += 1;
                wrong.push(format!("{name}\n   missed {answer:?}\n   found {found:?}"));
                continue;
            };
            let denial = found.remove(at);
            right += 1;
            let protected = mode == SandboxMode::WorkspaceWrite;
            let cure = if protected && answer.widen.is_none() { denial.widen_to } else { answer.cure(&case.command) };
            if denial.kind != answer.kind || denial.blocking != answer.blocking || denial.widen_to != cure {
                wrong.push(format!("{name}\n   wrong in detail: {denial:?}\n   right: {answer:?}"));
            }
        }
        for denial in found {
            invented += 1;
            wrong.push(format!("{name}\n   invented {denial:?}"));
        }
    }
    println!(
        "{} cases, {answers} denials: {right} right, {missed} missed, {invented} invented; \
         languages without a catalogue here: {without_catalogue:?}",
        cases.len()
    );
    assert!(cases.len() >= 150 && answers >= 150, "the corpus shrank");
    let (precision, recall) =
        (f64::from(right) / f64::from(right + invented), f64::from(right) / f64::from(right + missed));
    assert!(precision >= 0.99 && recall >= 0.99, "precision {precision:.3}, recall {recall:.3}\n{}", wrong.join("\n"));
    let details: Vec<_> = wrong.iter().filter(|text| text.contains("wrong in detail")).cloned().collect();
    assert!(details.is_empty(), "kind, blocking or cure wrong:\n{}", details.join("\n"));
    for text in &wrong {
        println!("{text}");
    }
}
