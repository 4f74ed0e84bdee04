//! One entry of an allow or deny list.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use super::host::{Destination, Host, HostError, normal_name, split_port};

/// What an entry's host part covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Pattern {
    /// This name and no other.
    Name(String),
    /// Every name below this one, not the name itself.
    Below(String),
    /// Addresses. A single one is a network of full length.
    Net(IpNet),
}

/// One parsed entry. Displays as its normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pattern: Pattern,
    port: Option<u16>,
}

/// An entry that is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network entry {entry:?}: {problem}")]
pub struct RuleError {
    /// The entry as it was written.
    pub entry: String,
    /// What is wrong with it, and what to write instead.
    #[source]
    pub problem: HostError,
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Reads `host`, `*.host`, an address or a network, each with an optional port (`host:443`, `[2001:db8::1]:443`,
    /// `10.0.0.0/8:443`, `[2001:db8::/32]:443`).
    fn from_str(entry: &str) -> Result<Self, RuleError> {
        parse(entry).map_err(|problem| RuleError { entry: entry.to_owned(), problem })
    }
}

fn parse(entry: &str) -> Result<Rule, HostError> {
    if entry.contains("://") {
        return Err(HostError::Url);
    }
    let (host, port) = split_port(entry)?;
    let pattern = if host.contains('/') {
        Pattern::Net(parse_net(host)?)
    } else if let Some(parent) = host.strip_prefix("*.") {
        match Host::parse(parent) {
            Ok(Host::Name(name)) => Pattern::Below(name),
            Ok(Host::Address(_)) | Err(HostError::Empty | HostError::Character('*')) => {
                return Err(HostError::Wildcard);
            }
            Err(problem) => return Err(problem),
        }
    } else {
        match Host::parse(host) {
            Ok(Host::Name(name)) => Pattern::Name(name),
            Ok(Host::Address(address)) => Pattern::Net(IpNet::from(address)),
            Err(HostError::Character('*')) => return Err(HostError::Wildcard),
            Err(problem) => return Err(problem),
        }
    };
    Ok(Rule { pattern, port })
}

fn parse_net(text: &str) -> Result<IpNet, HostError> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or(HostError::Cidr)?,
        None => text,
    };
    let net: IpNet = inner.parse().map_err(|_| match inner.split_once('/') {
        // A path behind a name is a URL without its scheme.
        Some((host, _)) if normal_name(host).is_ok() => HostError::Url,
        _ => HostError::Cidr,
    })?;
    if net != net.trunc() {
        return Err(HostError::HostBits(net.trunc().to_string()));
    }
    Ok(unmap(net))
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`: addresses are compared after the same change.
fn unmap(net: IpNet) -> IpNet {
    let mapped = net.prefix_len().checked_sub(96).and_then(|prefix| match net.addr().to_canonical() {
        IpAddr::V4(v4) if matches!(net, IpNet::V6(_)) => Ipv4Net::new(v4, prefix).ok(),
        _ => None,
    });
    mapped.map_or(net, IpNet::V4)
}

impl Rule {
    /// The rule that names exactly this destination.
    #[must_use]
    pub fn exact(destination: &Destination) -> Self {
        let pattern = match &destination.host {
            Host::Name(name) => Pattern::Name(name.clone()),
            Host::Address(address) => Pattern::Net(IpNet::from(*address)),
        };
        Self { pattern, port: Some(destination.port) }
    }

    /// The only port it covers; `None` for all ports.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// True when the rule covers `destination`. A name is covered only by rules for names, an address only by rules for
    /// addresses.
    #[must_use]
    pub fn covers(&self, destination: &Destination) -> bool {
        Self::exact(destination).is_within(self)
    }

    /// True when everything this rule covers is covered by `other` too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let port = other.port.is_none() || other.port == self.port;
        let host = match (&self.pattern, &other.pattern) {
            (Pattern::Name(a), Pattern::Name(b)) => a == b,
            (Pattern::Name(a), Pattern::Below(b)) => is_below(a, b),
            (Pattern::Below(a), Pattern::Below(b)) => a == b || is_below(a, b),
            (Pattern::Net(a), Pattern::Net(b)) => b.contains(a),
            _ => false,
        };
        port && host
    }

    /// True when this rule covers less than `other` and nothing else.
    #[must_use]
    pub fn is_narrower_than(&self, other: &Self) -> bool {
        self.is_within(other) && !other.is_within(self)
    }

    /// True when the rule is for addresses and lies inside `block`.
    pub(super) fn lies_in(&self, block: &IpNet) -> bool {
        matches!(&self.pattern, Pattern::Net(net) if block.contains(net))
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|head| head.ends_with('.'))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.pattern {
            Pattern::Name(name) => name.clone(),
            Pattern::Below(name) => format!("*.{name}"),
            Pattern::Net(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
            Pattern::Net(net) => net.to_string(),
        };
        match self.port {
            Some(port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Some(port) => write!(f, "{host}:{port}"),
            None => f.write_str(&host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn normal_forms() {
        for (written, normal) in [
            ("Example.COM.", "example.com"),
            ("*.Bücher.example:443", "*.xn--bcher-kva.example:443"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.0/8:443", "10.0.0.0/8:443"),
            ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
        ] {
            assert_eq!(rule(written).to_string(), normal, "{written}");
            assert_eq!(rule(normal), rule(written), "the normal form reads back as the same rule");
        }
    }

    #[test]
    fn bad_entries_name_themselves_and_the_remedy() {
        for (entry, problem) in [
            ("", HostError::Empty),
            ("https://example.com", HostError::Url),
            ("example.com/path", HostError::Url),
            ("*", HostError::Wildcard),
            ("*.", HostError::Wildcard),
            ("a.*.com", HostError::Wildcard),
            ("*.*.com", HostError::Wildcard),
            ("*example.com", HostError::Wildcard),
            ("*.10.0.0.1", HostError::Wildcard),
            ("user@example.com", HostError::Character('@')),
            ("0x7f.1", HostError::AlternativeNotation),
            ("10.0.0.5/8", HostError::HostBits("10.0.0.0/8".to_owned())),
            ("10.0.0.0/33", HostError::Cidr),
            ("10/8", HostError::Cidr),
            ("example.com:https", HostError::Port("https".to_owned())),
            ("example.com:0", HostError::Port("0".to_owned())),
        ] {
            let error = entry.parse::<Rule>().unwrap_err();
            assert_eq!(error.problem, problem, "{entry}");
            assert!(
                error.to_string().contains(&format!("{entry:?}")) && error.to_string().contains("write")
                    || error.problem == HostError::Wildcard,
                "{error}"
            );
        }
    }

    #[test]
    fn narrower() {
        for (narrow, wide) in [
            ("a.example.com", "*.example.com"),
            ("*.a.example.com", "*.example.com"),
            ("example.com:443", "example.com"),
            ("10.1.0.0/16", "10.0.0.0/8"),
            ("10.0.0.1", "10.0.0.0/8"),
            ("a.example.com:443", "*.example.com"),
        ] {
            assert!(rule(narrow).is_narrower_than(&rule(wide)), "{narrow} {wide}");
            assert!(!rule(wide).is_narrower_than(&rule(narrow)), "{narrow} {wide}");
        }
        for (a, b) in [
            ("example.com", "*.example.com"),
            ("notexample.com", "*.example.com"),
            ("a.example.com", "*.example.com:443"),
            ("10.0.0.1", "*.example.com"),
            ("::/0", "10.0.0.0/8"),
        ] {
            assert!(!rule(a).is_within(&rule(b)) && !rule(b).is_within(&rule(a)), "{a} {b}");
        }
    }
}
