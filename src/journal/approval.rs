//! From a question and its answer to their records.

#![forbid(unsafe_code)]

use super::mask::Masker;
use super::record::{Answer, Approval, Command, Entry, Question};
use crate::approval::{ApprovalOutcome, ApprovalRequest};

impl Question {
    /// What is recorded of a request.
    #[must_use]
    pub fn of(request: &ApprovalRequest, masker: &Masker) -> Self {
        Self {
            command: Command::Shell(masker.text(&request.command)),
            mode: request.mode,
            // Plain data without maps of other keys than names: it has a JSON form.
            asks: serde_json::to_value(&request.asks).unwrap_or_else(|error| error.to_string().into()),
            justification: masker.text(&request.justification),
        }
    }

    /// The record of its answer; `asked` is the number of its own.
    #[must_use]
    pub fn answered(self, asked: Option<u64>, outcome: &ApprovalOutcome) -> Entry {
        Entry::Approval(Box::new(Approval { asked, question: self, answer: outcome.into() }))
    }
}

impl From<&ApprovalOutcome> for Answer {
    fn from(outcome: &ApprovalOutcome) -> Self {
        match outcome {
            ApprovalOutcome::AllowedOnce => Self::AllowedOnce,
            ApprovalOutcome::Rejected { reason } => Self::Rejected { reason: reason.clone() },
            ApprovalOutcome::Cancelled => Self::Cancelled,
            ApprovalOutcome::Unavailable { reason } => Self::Unavailable { reason: reason.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::Asks;
    use crate::policy::SandboxMode;

    #[test]
    fn a_question_is_recorded_with_its_answer_and_without_its_secrets() {
        let request = ApprovalRequest {
            tool: "bash".into(),
            session: "s".into(),
            workspace: "/w".into(),
            command: "A_TOKEN=hush x".into(),
            workdir: None,
            background: false,
            mode: SandboxMode::ReadOnly,
            asks: Asks::Mode(SandboxMode::WorkspaceWrite),
            justification: "password: hush".into(),
            grounds: Vec::new(),
        };
        let rejected = ApprovalOutcome::Rejected { reason: Some("no".into()) };
        let entry = Question::of(&request, &Masker::default()).answered(Some(6), &rejected);
        let text = serde_json::to_string(&entry).unwrap();
        assert!(!text.contains("hush"), "{text}");
        assert!(text.contains(r#""asks":{"mode":"workspace-write"}"#), "{text}");
        assert!(text.contains(r#""asked":6"#), "{text}");
        assert!(text.contains(r#""answer":{"word":"rejected","reason":"no"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
