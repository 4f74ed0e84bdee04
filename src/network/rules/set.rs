//! The rules of one sandbox, and the two questions asked of them: may this destination be named, may this address be
//! dialled.

use std::net::IpAddr;

use super::host::{Destination, Host};
use super::rule::{Rule, RuleError};
use super::special::{AddressClass, special_block};
use crate::policy::NetworkPolicy;

/// Allow and deny rules. Without an allow rule nothing is let through.
///
/// Where rules of both kinds cover a destination, the narrower one wins; where neither is narrower than the other, the
/// deny rule does. The order of the entries means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

/// Why a destination or an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// No allow rule covers it.
    #[error("no allow rule covers it")]
    Unlisted,
    /// A deny rule covers it, and no narrower allow rule does.
    #[error("the deny rule {rule} covers it")]
    Denied {
        /// The deny rule in normal form.
        rule: String,
    },
    /// The name may be asked for, but leads to an address that a deny rule covers.
    #[error("it leads to {address}, which the deny rule {rule} covers")]
    AddressDenied {
        /// The address.
        address: IpAddr,
        /// The deny rule in normal form.
        rule: String,
    },
    /// It leads to a special address that no allow rule names.
    #[error("it leads to {address}, a {class} address that no allow rule names")]
    SpecialAddress {
        /// The address.
        address: IpAddr,
        /// Its kind.
        class: AddressClass,
    },
}

impl RuleSet {
    /// Parses both lists.
    ///
    /// # Errors
    /// The first entry that is not a rule.
    pub fn new<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, RuleError> {
        Ok(Self { allow: parse(allow)?, deny: parse(deny)? })
    }

    /// The rules of a policy. Its mode is not looked at.
    ///
    /// # Errors
    /// The first entry that is not a rule.
    pub fn from_policy(policy: &NetworkPolicy) -> Result<Self, RuleError> {
        Self::new(&policy.allow, &policy.deny)
    }

    /// These rules and further allow entries, as an approval for one call adds them.
    ///
    /// # Errors
    /// The first entry that is not a rule.
    pub fn with_grants<S: AsRef<str>>(&self, grants: &[S]) -> Result<Self, RuleError> {
        let mut rules = self.clone();
        rules.allow.extend(parse(grants)?);
        rules.allow.sort();
        Ok(rules)
    }

    /// May a client ask for `destination`? For an address this is the whole answer; for a name, each address it leads to
    /// is asked about by [`check_address`](Self::check_address) before it is dialled. On success the allow rule.
    ///
    /// # Errors
    /// [`Refused`], with the rule where there is one.
    pub fn check(&self, destination: &Destination) -> Result<&Rule, Refused> {
        let allow = self.decide(destination)?.ok_or(Refused::Unlisted)?;
        if let Host::Address(address) = destination.host {
            self.check_special(address, address, destination.port)?;
        }
        Ok(allow)
    }

    /// May a connection for an allowed name go to `address`? `address` is as the resolver gave it.
    ///
    /// # Errors
    /// [`Refused::AddressDenied`] or [`Refused::SpecialAddress`].
    pub fn check_address(&self, address: IpAddr, port: u16) -> Result<(), Refused> {
        let canonical = address.to_canonical();
        match self.decide(&Destination { host: Host::Address(canonical), port }) {
            Err(Refused::Denied { rule }) => return Err(Refused::AddressDenied { address, rule }),
            Err(other) => return Err(other),
            Ok(Some(_) | None) => {}
        }
        self.check_special(address, canonical, port)
    }

    /// True when [`check`](Self::check) lets `host` through on at least one port: what is known where only a look-up was
    /// seen.
    #[must_use]
    pub fn allows_some_port(&self, host: &Host) -> bool {
        let named: Vec<u16> = self.allow.iter().chain(&self.deny).filter_map(Rule::port).collect();
        // Ports that no rule names are all treated alike: one of them stands for the rest.
        let other = (1..=u16::MAX).find(|port| !named.contains(port));
        let allows = |port| self.check(&Destination { host: host.clone(), port }).is_ok();
        named.iter().copied().chain(other).any(allows)
    }

    /// The narrowest entry that would let `wanted` through after the refusal `refused`; `None` when none would.
    #[must_use]
    pub fn grant_for(&self, wanted: &Destination, refused: &Refused) -> Option<String> {
        let target = match refused {
            Refused::Unlisted | Refused::Denied { .. } => wanted.clone(),
            Refused::AddressDenied { address, .. } | Refused::SpecialAddress { address, .. } => {
                Destination { host: Host::from(*address), port: wanted.port }
            }
        };
        let entry = Rule::exact(&target).to_string();
        self.with_grants(&[&entry]).ok().filter(|rules| rules.check(&target).is_ok()).map(|_| entry)
    }

    /// The allow rule that wins, `None` when no rule covers it.
    fn decide(&self, destination: &Destination) -> Result<Option<&Rule>, Refused> {
        let wanted = Rule::exact(destination);
        let allowing: Vec<&Rule> = self.allow.iter().filter(|rule| wanted.is_within(rule)).collect();
        let standing = self
            .deny
            .iter()
            .filter(|deny| wanted.is_within(deny) && !allowing.iter().any(|allow| allow.is_narrower_than(deny)));
        match narrowest(standing) {
            Some(deny) => Err(Refused::Denied { rule: deny.to_string() }),
            None => Ok(narrowest(allowing.into_iter())),
        }
    }

    /// A special address needs an allow rule inside its own block. An IPv4-mapped answer (`address` differs from
    /// `canonical`) needs an allow rule in any case: no honest name server gives one.
    fn check_special(&self, address: IpAddr, canonical: IpAddr, port: u16) -> Result<(), Refused> {
        let destination = Destination { host: Host::Address(canonical), port };
        let mut covering = self.allow.iter().filter(|rule| rule.covers(&destination));
        let refusal = match special_block(canonical) {
            Some((block, class)) => (!covering.any(|rule| rule.lies_in(&block))).then_some(class),
            None if address != canonical => covering.next().is_none().then_some(AddressClass::EmbeddedIpv4),
            None => None,
        };
        refusal.map_or(Ok(()), |class| Err(Refused::SpecialAddress { address, class }))
    }
}

/// The one to name to people. Of rules that no other is narrower than, the first in order.
fn narrowest<'r>(rules: impl Iterator<Item = &'r Rule>) -> Option<&'r Rule> {
    rules.reduce(|best, rule| if rule.is_narrower_than(best) { rule } else { best })
}

/// Sorted, so that not even the choice of the rule that is named depends on the order of the entries.
fn parse<S: AsRef<str>>(list: &[S]) -> Result<Vec<Rule>, RuleError> {
    let mut rules = list.iter().map(|entry| entry.as_ref().parse()).collect::<Result<Vec<Rule>, _>>()?;
    rules.sort();
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> RuleSet {
        RuleSet::new(allow, deny).unwrap()
    }

    fn to(text: &str) -> Destination {
        Destination::parse(text, None).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_is_allowed_by_an_empty_list() {
        let none = rules(&[], &[]);
        assert_eq!(none.check(&to("example.com:443")), Err(Refused::Unlisted));
        assert_eq!(none.check(&to("8.8.8.8:53")), Err(Refused::Unlisted));
        assert_eq!(RuleSet::default(), none);
        assert_eq!(RuleSet::from_policy(&NetworkPolicy::default()), Ok(none));
    }

    #[test]
    fn names_ports_and_wildcards() {
        let set = rules(&["crates.io:443", "*.crates.io:443", "example.com"], &[]);
        for allowed in
            ["crates.io:443", "static.crates.io:443", "a.b.crates.io:443", "example.com:80", "EXAMPLE.com.:1"]
        {
            assert!(set.check(&to(allowed)).is_ok(), "{allowed}");
        }
        for refused in ["crates.io:80", "evilcrates.io:443", "crates.io.evil.com:443", "www.example.com:80", "com:80"] {
            assert_eq!(set.check(&to(refused)), Err(Refused::Unlisted), "{refused}");
        }
    }

    #[test]
    fn the_narrower_rule_wins_and_deny_wins_ties() {
        let denied = |allow: &[&str], deny: &[&str], wanted: &str| {
            matches!(rules(allow, deny).check(&to(wanted)), Err(Refused::Denied { .. }))
        };
        assert!(denied(&["a.com"], &["a.com"], "a.com:80"));
        assert!(denied(&["*.com"], &["a.com"], "a.com:80"));
        assert!(!denied(&["a.com"], &["*.com"], "a.com:80"));
        assert!(denied(&["x.a.com"], &["*.a.com:22"], "x.a.com:22"), "neither is narrower");
        assert!(!denied(&["x.a.com"], &["*.a.com:22"], "x.a.com:443"));
        assert!(!denied(&["x.a.com:22"], &["*.a.com:22"], "x.a.com:22"));
        assert!(denied(&["*.com"], &["*.a.com", "x.b.com"], "y.a.com:1"));
        assert!(denied(&["x.a.com", "*.com"], &["*.a.com", "x.a.com:22"], "x.a.com:22"));
        assert!(denied(&["8.0.0.0/8"], &["8.8.8.0/24"], "8.8.8.8:53"));
        assert!(!denied(&["8.8.8.8"], &["8.8.8.0/24"], "8.8.8.8:53"));
    }

    #[test]
    fn the_order_of_entries_means_nothing() {
        let entries = ["*.com", "*.a.com", "x.a.com", "x.a.com:22"];
        let wanted = to("x.a.com:22");
        for split in 0..(1 << entries.len()) {
            let pick = |bit: bool| -> Vec<&str> {
                entries.iter().enumerate().filter(|(i, _)| (split >> i & 1 == 1) == bit).map(|(_, e)| *e).collect()
            };
            let (mut allow, mut deny) = (pick(true), pick(false));
            let forward = rules(&allow, &deny).check(&wanted).map(ToString::to_string);
            allow.reverse();
            deny.reverse();
            assert_eq!(rules(&allow, &deny).check(&wanted).map(ToString::to_string), forward);
            assert_eq!(forward.is_ok(), split >> 3 & 1 == 1, "the narrowest entry decides: {split:b}");
        }
    }

    #[test]
    fn a_look_up_is_allowed_where_some_port_is() {
        let set = rules(&["a.com:443", "b.com", "c.com:22"], &["c.com:22", "b.com:80"]);
        let allows = |host: &str| set.allows_some_port(&Host::parse(host).unwrap());
        assert!(allows("a.com") && allows("B.com."));
        assert!(!allows("c.com") && !allows("d.com") && !allows("8.8.8.8"));
    }

    #[test]
    fn an_address_never_matches_a_name() {
        let set = rules(&["example.com", "*.example.com", "localhost"], &[]);
        assert_eq!(set.check(&to("93.184.215.14:80")), Err(Refused::Unlisted));
        assert_eq!(set.check(&to("[::1]:80")), Err(Refused::Unlisted));
        assert_eq!(rules(&["8.8.8.8"], &[]).check(&to("example.com:80")), Err(Refused::Unlisted));
    }

    #[test]
    fn special_addresses_must_be_named_as_such() {
        let special = |allow: &[&str], address: &str| {
            let set = rules(allow, &[]);
            assert_eq!(
                set.check(&Destination { host: ip(address).into(), port: 80 }).is_ok(),
                set.check_address(ip(address), 80).is_ok(),
                "asked for by address or reached by name, the same rules name a special address"
            );
            set.check_address(ip(address), 80).is_err()
        };
        for address in ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "fd00:ec2::254", "64:ff9b::127.0.0.1"] {
            assert!(special(&[], address), "{address}");
            assert!(special(&["0.0.0.0/0", "::/0"], address), "{address}: the whole Internet does not name it");
            assert!(!special(&[address], address), "{address}");
            assert!(special(&[&format!("[{address}]:81"), "example.com"][1..], address), "{address}");
        }
        assert!(special(&["169.254.0.0/16"], "169.254.169.254"), "link-local does not name the metadata service");
        assert!(!special(&["169.254.0.0/16"], "169.254.1.1"));
        assert!(special(&["fc00::/7"], "fd00:ec2::254"));
        assert!(special(&["64:ff9b::/96"], "64:ff9b::169.254.169.254"));
        assert!(!special(&["10.0.0.0/8"], "10.1.2.3"));
        assert!(!special(&["10.1.2.0/24:80"], "10.1.2.3"));
        assert!(special(&["10.1.2.0/24:81"], "10.1.2.3"), "the port counts");
    }

    #[test]
    fn resolved_addresses() {
        let set = rules(&["example.com"], &["8.8.0.0/16"]);
        assert_eq!(set.check_address(ip("1.1.1.1"), 80), Ok(()));
        assert_eq!(
            set.check_address(ip("8.8.8.8"), 80),
            Err(Refused::AddressDenied { address: ip("8.8.8.8"), rule: "8.8.0.0/16".to_owned() })
        );
        for mapped in ["::ffff:1.1.1.1", "::ffff:127.0.0.1", "2002:101:101::1", "64:ff9b::1.1.1.1"] {
            assert!(matches!(set.check_address(ip(mapped), 80), Err(Refused::SpecialAddress { .. })), "{mapped}");
        }
        assert_eq!(rules(&["1.1.1.1"], &[]).check_address(ip("::ffff:1.1.1.1"), 80), Ok(()));
    }

    #[test]
    fn the_grant_cures_the_refusal_and_nothing_more() {
        let set = rules(&["good.com:443"], &["*.bad.com", "x.bad.com:443"]);
        let grant = |wanted: &str| {
            let wanted = to(wanted);
            let refused = set.check(&wanted).unwrap_err();
            set.grant_for(&wanted, &refused)
        };
        assert_eq!(grant("new.com:443").as_deref(), Some("new.com:443"));
        assert_eq!(grant("[2001:470::1]:80").as_deref(), Some("[2001:470::1]:80"));
        assert_eq!(grant("y.bad.com:80").as_deref(), Some("y.bad.com:80"));
        assert_eq!(grant("x.bad.com:443"), None, "an exact deny is not to be granted away");
        assert_eq!(grant("127.0.0.1:80").as_deref(), Some("127.0.0.1:80"));
        let refused = set.check_address(ip("10.0.0.1"), 443).unwrap_err();
        assert_eq!(set.grant_for(&to("good.com:443"), &refused).as_deref(), Some("10.0.0.1:443"));
    }
}
