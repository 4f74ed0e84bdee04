//! What a command looked up in a network of its own, where every look-up is refused.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::denial::trace::dns;
use crate::denial::{Aftermath, DenialKind, Observation, Remedy, Target, Witness};

/// The names, in the order in which they were first asked for, and when that was. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lookups {
    began: Instant,
    names: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Lookups {
    /// For a run that the other witnesses time from `began` as well.
    pub(super) fn since(began: Instant) -> Self {
        Self { began, names: Arc::default() }
    }

    /// Takes a question as the sandbox's name server got it, which may hold anything.
    pub(super) fn note(&self, question: &[u8]) {
        if let Some(name) = dns::question(question) {
            self.names.lock().unwrap_or_else(PoisonError::into_inner).push((name, self.began.elapsed()));
        }
    }

    /// Each as evidence. Which process asked, the name server does not know.
    pub(super) fn observations(&self) -> Vec<Observation> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |((name, at), seq): (&(String, Duration), u64)| Observation {
            kind: DenialKind::NetResolve,
            target: Target::Net { host: name.clone(), port: None },
            access: Vec::new(),
            syscall: None,
            errno: None,
            process: None,
            witness: Witness::Proxy,
            at: Some(*at),
            seq,
            aftermath: Aftermath::Unknown,
            remedy: Remedy::Ask,
        };
        names.iter().zip(0..).map(seen).collect()
    }
}
