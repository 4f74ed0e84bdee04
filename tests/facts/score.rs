//! Answers found against answers expected.

use stockade::denial::Denial;
use stockade::executor::RunResult;

use crate::answer::{Answer, Mark};

/// The sums over a set of runs.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) runs: u32,
    /// Kind and object right.
    pub(crate) right: u32,
    pub(crate) missed: u32,
    pub(crate) invented: u32,
    /// The kind is right and the object is not; counted as missed and invented as well.
    pub(crate) misplaced: u32,
    pub(crate) wrong_cure: u32,
    pub(crate) wrong_blocking: u32,
    pub(crate) wrong_denied: u32,
    pub(crate) wrong_errno: u32,
    /// Everything wrong, to be read.
    pub(crate) wrong: Vec<String>,
}

impl Score {
    pub(crate) fn add(&mut self, name: &str, result: &RunResult, expected: &[Answer], traced: bool) {
        self.runs += 1;
        let report = result.sandbox.as_ref().unwrap();
        let mut found: Vec<&Denial> = report.denials.iter().collect();
        let mut missing: Vec<&Answer> = Vec::new();
        let mut wrong = Vec::new();
        for answer in expected {
            let at = found.iter().position(|denial| answer.kind_fits(denial) && answer.object_fits(denial));
            let Some(at) = at else {
                // A refusal in passing leaves no text.
                if answer.mark == Mark::Blocking || answer.mark == Mark::Passing && traced {
                    missing.push(answer);
                }
                continue;
            };
            let denial = found.remove(at);
            if answer.mark == Mark::Optional {
                continue;
            }
            self.right += 1;
            if denial.widen_to != answer.cure {
                self.wrong_cure += 1;
                wrong.push(format!("cure {:?}, not {:?}: {answer:?}", denial.widen_to, answer.cure));
            }
            if denial.blocking != (answer.mark == Mark::Blocking) {
                self.wrong_blocking += 1;
                wrong.push(format!("blocking {}: {denial:?}", denial.blocking));
            }
        }
        for answer in missing {
            self.missed += 1;
            self.misplaced += u32::from(found.iter().any(|denial| answer.kind_fits(denial)));
            wrong.push(format!("missed {answer:?}"));
        }
        self.invented += u32::try_from(found.len()).unwrap();
        wrong.extend(found.iter().map(|denial| format!("invented {denial:?}")));
        let denied = expected.iter().any(|answer| answer.mark == Mark::Blocking);
        let undecided = expected.iter().any(|answer| answer.mark == Mark::Optional);
        if report.denied != denied && !undecided {
            self.wrong_denied += 1;
            wrong.push(format!("denied {}", report.denied));
        }
        if !wrong.is_empty() {
            let shown: String = result.stderr.text.chars().take(600).collect();
            self.wrong.push(format!("{name}\n   exit {:?}: {shown}\n   {}", result.exit_code, wrong.join("\n   ")));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.right += other.right;
        self.missed += other.missed;
        self.invented += other.invented;
        self.misplaced += other.misplaced;
        self.wrong_cure += other.wrong_cure;
        self.wrong_blocking += other.wrong_blocking;
        self.wrong_denied += other.wrong_denied;
        self.wrong_errno += other.wrong_errno;
        self.wrong.extend(other.wrong);
    }

    pub(crate) fn precision(&self) -> f64 {
        f64::from(self.right) / f64::from(self.right + self.invented)
    }

    pub(crate) fn recall(&self) -> f64 {
        f64::from(self.right) / f64::from(self.right + self.missed)
    }

    /// Of the denials of a right kind, those with the right object.
    pub(crate) fn placed(&self) -> f64 {
        f64::from(self.right) / f64::from(self.right + self.misplaced)
    }

    pub(crate) fn cured(&self) -> f64 {
        1.0 - f64::from(self.wrong_cure) / f64::from(self.right)
    }

    pub(crate) fn blocking(&self) -> f64 {
        1.0 - f64::from(self.wrong_blocking) / f64::from(self.right)
    }

    /// What every corpus has to reach; `fewest` denials are to be in it.
    pub(crate) fn assert_good(&self, fewest: u32) {
        assert!(self.right >= fewest, "only {} denials were looked for", self.right);
        assert!(self.precision() >= 0.99 && self.recall() >= 0.99, "{}", self.summary());
        assert!(self.placed() >= 0.97 && self.cured() >= 0.97 && self.blocking() >= 0.97, "{}", self.summary());
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} runs, {} denials right: precision {:.4}, recall {:.4}, object {:.4}, cure {:.4}, blocking {:.4}, \
             `denied` wrong in {}",
            self.runs,
            self.right,
            self.precision(),
            self.recall(),
            self.placed(),
            self.cured(),
            self.blocking(),
            self.wrong_denied
        )
    }
}
