//! An approver that answers from a list and keeps what it was asked.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use stockade::approval::{ApprovalFuture, ApprovalOutcome, ApprovalRequest, Approver};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub struct Scripted {
    answers: Mutex<VecDeque<ApprovalOutcome>>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl Scripted {
    pub fn answering(answers: impl IntoIterator<Item = ApprovalOutcome>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() })
    }

    pub fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for Scripted {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest, _: &'a CancellationToken) -> ApprovalFuture<'a> {
        self.asked.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                // Out of answers: it hangs, as a person who has gone does.
                None => std::future::pending().await,
            }
        })
    }
}

pub fn rejected() -> ApprovalOutcome {
    ApprovalOutcome::Rejected { reason: None }
}
