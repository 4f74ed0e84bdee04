//! What the proxy refused: a bounded list without repetitions.

use std::sync::{Mutex, PoisonError};

use crate::denial::{Aftermath, Denial, DenialKind, Grant, Observation, Remedy, Target, Witness};
use crate::network::rules::{Destination, HostError, Refused};
use crate::policy::SandboxMode;

/// Different refusals that are kept; further ones are only counted.
const MAX_KEPT: usize = 200;
/// Characters kept of a target that could not be read.
const MAX_HOST: usize = 255;

/// Why the proxy refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RefusalReason {
    /// The rules refuse the destination or the address it leads to.
    #[error("{0}")]
    Rule(Refused),
    /// What the client named is not one host in one spelling.
    #[error("the host as written is refused: {0}")]
    Target(HostError),
    /// The request could be read in two ways or breaks its protocol.
    #[error("the request is refused: {0}")]
    Malformed(&'static str),
    /// The head of the request is longer than a proxy takes.
    #[error("the request is refused: its head is too large; send fewer or shorter headers")]
    TooLarge,
    /// The client gave no credentials.
    #[error("the client gave no credentials; use the proxy address from the environment, with its user and password")]
    NoCredentials,
    /// The client gave other credentials.
    #[error("the client's credentials are not those of this sandbox's proxy; use the address from the environment")]
    WrongCredentials,
    /// As many tunnels as there may be are open.
    #[error("too many connections at once through this proxy; close some first")]
    TooMany,
}

/// One refusal, however often it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRefusal {
    /// Host as asked for, in normal form where it has one. Empty when the client was refused before it named one.
    pub host: String,
    /// Port, where the client named one.
    pub port: Option<u16>,
    /// Why.
    pub reason: RefusalReason,
    /// The entry that would let it through; `None` when none would.
    pub grant: Option<String>,
    /// How often.
    pub count: u64,
}

/// All refusals of a proxy, in the order in which they first happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// At most 200 different ones.
    pub entries: Vec<ProxyRefusal>,
    /// How many further refusals found no place in the list.
    pub not_kept: u64,
}

impl ProxyRefusal {
    /// The kind of denial it is.
    #[must_use]
    pub fn kind(&self) -> DenialKind {
        match &self.reason {
            RefusalReason::Rule(Refused::SpecialAddress { address, .. } | Refused::AddressDenied { address, .. })
                if self.host != address.to_canonical().to_string() =>
            {
                DenialKind::NetResolve
            }
            RefusalReason::TooMany => DenialKind::Limit,
            _ => DenialKind::NetConnect,
        }
    }

    /// What a person or a model is told, as plain text.
    pub(super) fn explain(&self) -> String {
        let what = match self.host.as_str() {
            "" => self.kind().to_string(),
            _ => format!("{} {}", self.kind(), Denial::from(self).target()),
        };
        let cure = match &self.grant {
            Some(entry) => format!(
                "To ask for it: additional_permissions {{\"network\":[\"{entry}\"]}} with a justification, or run with \
                 --allow-host {entry}."
            ),
            None => "No single permission lets it through.".to_owned(),
        };
        format!("stockade: denied {what}: {}.\n{cure}\n", self.reason)
    }

    /// The entry that the rules reckon would do; otherwise only a refusal by rule is cured, and by no single entry.
    fn remedy(&self) -> Remedy {
        match (&self.grant, &self.reason) {
            (Some(entry), _) => Remedy::NetworkEntry(entry.clone()),
            (None, RefusalReason::Rule(_)) => Remedy::NoGrant,
            (None, _) => Remedy::Nothing,
        }
    }

    /// The refusal as evidence of the proxy's. `seq` is its place among the proxy's observations. Which process asked
    /// the proxy does not know.
    #[must_use]
    pub fn observation(&self, seq: u64) -> Observation {
        let target = match self.host.as_str() {
            "" => Target::None,
            host => Target::Net { host: host.to_owned(), port: self.port },
        };
        Observation {
            kind: self.kind(),
            target,
            access: Vec::new(),
            syscall: None,
            errno: None,
            process: None,
            witness: Witness::Proxy,
            at: None,
            seq,
            aftermath: Aftermath::Unknown,
            remedy: self.remedy(),
        }
    }
}

impl From<&ProxyRefusal> for Denial {
    /// The denial as the proxy alone knows it: not yet blocking, which only the end of the command can tell.
    fn from(refusal: &ProxyRefusal) -> Self {
        let by_rule = matches!(refusal.reason, RefusalReason::Rule(_));
        Self {
            kind: refusal.kind(),
            path: None,
            host: (!refusal.host.is_empty()).then(|| refusal.host.clone()),
            port: refusal.port,
            access: Vec::new(),
            syscall: None,
            errno: None,
            process: None,
            sources: vec![Witness::Proxy],
            blocking: false,
            widen_to: by_rule.then_some(SandboxMode::DangerFullAccess),
            grant: refusal.grant.clone().map(|entry| Grant { network: vec![entry], ..Grant::default() }),
        }
    }
}

/// Collects refusals from all connections.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Refusals>);

impl RefusalLog {
    pub(super) fn record(
        &self,
        destination: &Destination,
        reason: RefusalReason,
        grant: Option<String>,
    ) -> ProxyRefusal {
        let (host, port) = (destination.host.to_string(), Some(destination.port));
        let refusal = ProxyRefusal { host, port, reason, grant, count: 1 };
        self.add(refusal.clone());
        refusal
    }

    /// For a target that is no destination. `text` is the client's and may hold anything.
    pub(super) fn record_text(&self, text: &str, reason: RefusalReason) -> ProxyRefusal {
        let host = text.escape_debug().take(MAX_HOST).collect();
        let refusal = ProxyRefusal { host, port: None, reason, grant: None, count: 1 };
        self.add(refusal.clone());
        refusal
    }

    /// A client that asked without credentials first, was told so and came back with them did nothing wrong: that is
    /// how libcurl, and git with it, finds out which scheme the proxy wants.
    pub(super) fn forgive_no_credentials(&self, destination: &Destination) {
        let host = destination.host.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entries.retain(|kept| {
            kept.reason != RefusalReason::NoCredentials || kept.host != host || kept.port != Some(destination.port)
        });
    }

    pub(super) fn snapshot(&self) -> Refusals {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, new: ProxyRefusal) {
        tracing::debug!(host = %new.host, port = ?new.port, reason = %new.reason, "the proxy refused");
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |kept: &&mut ProxyRefusal| (&kept.host, kept.port, &kept.reason) == (&new.host, new.port, &new.reason);
        if let Some(known) = log.entries.iter_mut().find(same) {
            known.count += 1;
        } else if log.entries.len() < MAX_KEPT {
            log.entries.push(new);
        } else {
            log.not_kept += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> Destination {
        Destination::parse(text, None).unwrap()
    }

    #[test]
    fn the_list_is_bounded_and_without_repetitions() {
        let log = RefusalLog::default();
        for _ in 0..3 {
            for port in 1..=250 {
                log.record(&to(&format!("a.com:{port}")), RefusalReason::Rule(Refused::Unlisted), None);
            }
        }
        let refusals = log.snapshot();
        assert_eq!((refusals.entries.len(), refusals.not_kept), (200, 150));
        assert!(refusals.entries.iter().all(|entry| entry.count == 3));
    }

    #[test]
    fn hostile_text_is_escaped_and_cut() {
        let log = RefusalLog::default();
        log.record_text(&format!("\u{1b}]52;c;x\u{7}{}", "a".repeat(1000)), RefusalReason::Malformed("x"));
        let host = &log.snapshot().entries[0].host;
        assert!(host.len() <= 255 && !host.chars().any(char::is_control), "{host}");
    }

    #[test]
    fn coming_back_with_credentials_is_forgiven_and_wrong_ones_are_not() {
        let log = RefusalLog::default();
        log.record(&to("a.com:1"), RefusalReason::NoCredentials, None);
        log.record(&to("b.com:1"), RefusalReason::NoCredentials, None);
        log.record(&to("a.com:1"), RefusalReason::WrongCredentials, None);
        log.forgive_no_credentials(&to("a.com:1"));
        let left: Vec<_> = log.snapshot().entries.into_iter().map(|entry| (entry.host, entry.reason)).collect();
        assert_eq!(
            left,
            [("b.com".to_owned(), RefusalReason::NoCredentials), ("a.com".to_owned(), RefusalReason::WrongCredentials)]
        );
    }

    #[test]
    fn as_a_denial() {
        let log = RefusalLog::default();
        log.record(&to("a.com:443"), RefusalReason::Rule(Refused::Unlisted), Some("a.com:443".to_owned()));
        let denial = Denial::from(&log.snapshot().entries[0]);
        assert_eq!(denial.kind, DenialKind::NetConnect);
        assert_eq!(denial.target(), "a.com:443");
        assert_eq!(denial.sources, [Witness::Proxy]);
        assert_eq!(denial.grant.unwrap().network, ["a.com:443"]);
        let seen = log.snapshot().entries[0].observation(3);
        assert_eq!((seen.kind, seen.witness, seen.seq), (DenialKind::NetConnect, Witness::Proxy, 3));
        assert_eq!(seen.target, Target::Net { host: "a.com".to_owned(), port: Some(443) });
    }
}
