//! One host, in one spelling: a name in lower-case ASCII without its final dot, or an address.
//!
//! Everything that could be read in two ways is refused here, before any rule is looked at: what the rules compare is
//! then exactly what is looked up and dialled.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest spelling looked at, in bytes. A name has at most 253; the rest is room for Unicode before IDNA.
const MAX_SPELLING: usize = 1024;

/// A host in normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name: lower case, IDNA as ASCII, no final dot.
    Name(String),
    /// An address. IPv4-mapped IPv6 is held as IPv4.
    Address(IpAddr),
}

/// A host and a TCP port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// Where.
    pub host: Host,
    /// Never 0.
    pub port: u16,
}

/// Why a spelling of a host was refused. Each message ends with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HostError {
    /// Nothing there.
    #[error("it is empty; write a host name or an address")]
    Empty,
    /// Longer than any host can be.
    #[error("it is longer than a host name can be (253 bytes); shorten it")]
    TooLong,
    /// A character that no host contains.
    #[error("{0:?} is no part of a host name; write only the host, as in example.com or example.com:443")]
    Character(char),
    /// A URL where a host was expected.
    #[error("it is a URL; write only the host, as in example.com or example.com:443")]
    Url,
    /// Not a name under IDNA, or a label that is empty or too long.
    #[error("it is not a valid host name; write it as DNS knows it, labels of 1 to 63 letters, digits and hyphens")]
    Name,
    /// `127.1`, `0x7f000001`, `2130706433`, `0177.0.0.1`.
    #[error("it is another notation of an IPv4 address; write four decimal numbers, as in 192.0.2.1")]
    AlternativeNotation,
    /// Looks like IPv6, but is not.
    #[error("it is not a valid IPv6 address; write [2001:db8::1], with a port [2001:db8::1]:443")]
    Ipv6,
    /// `2001:db8::1:443` could end in a port.
    #[error("an IPv6 address stands in brackets here; write [2001:db8::1]:443")]
    Brackets,
    /// Not a port.
    #[error("{0:?} is not a port; write a number from 1 to 65535")]
    Port(String),
    /// No port where one is needed.
    #[error("it has no port; write host:port")]
    NoPort,
    /// A `*` that is not the whole first label.
    #[error("a wildcard stands only as the first label, before a name, as in *.example.com")]
    Wildcard,
    /// Not a network.
    #[error("it is not a network in CIDR form; write 192.0.2.0/24 or 2001:db8::/32")]
    Cidr,
    /// Bits set behind the prefix.
    #[error("it has bits set behind its prefix; write {0}")]
    HostBits(String),
}

impl Host {
    /// Reads a host without a port. IPv6 may stand in brackets.
    ///
    /// # Errors
    /// [`HostError`] for anything that is not one host in one unambiguous spelling.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_SPELLING {
            return Err(HostError::TooLong);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Ipv6)?;
            return inner.parse::<Ipv6Addr>().map(Self::from).map_err(|_| HostError::Ipv6);
        }
        if let Some(bad) = text.chars().find(|&c| is_forbidden(c)) {
            return Err(HostError::Character(bad));
        }
        if text.contains(':') {
            return text.parse::<Ipv6Addr>().map(Self::from).map_err(|_| HostError::Ipv6);
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        normal_name(text).map(Self::Name)
    }
}

impl From<Ipv6Addr> for Host {
    fn from(address: Ipv6Addr) -> Self {
        Self::Address(IpAddr::V6(address).to_canonical())
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Destination {
    /// Reads `host:port` as it stands in a request. IPv6 must stand in brackets; without a port, `default_port` counts.
    ///
    /// # Errors
    /// [`HostError`] as [`Host::parse`], and for a missing, zero or malformed port.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split_port(text)?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(HostError::Brackets);
        }
        let host = Host::parse(host)?;
        let port = port.or(default_port).ok_or(HostError::NoPort)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Splits a port off. More than one colon outside brackets is an IPv6 address without a port.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let colon = match text.rfind(']') {
        Some(end) => match text[end + 1..].chars().next() {
            None => None,
            Some(':') => Some(end + 1),
            Some(_) => return Err(HostError::Ipv6),
        },
        None => match text.find(':') {
            Some(first) if !text[first + 1..].contains(':') => Some(first),
            _ => None,
        },
    };
    match colon {
        None => Ok((text, None)),
        Some(at) => Ok((&text[..at], Some(parse_port(&text[at + 1..])?))),
    }
}

/// Decimal digits only: `u16::from_str` alone would take a sign.
fn parse_port(text: &str) -> Result<u16, HostError> {
    let bad = || HostError::Port(text.chars().take(20).collect());
    if text.is_empty() || text.len() > 5 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    match text.parse::<u16>() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(bad()),
    }
}

fn is_forbidden(c: char) -> bool {
    c.is_control() || c.is_whitespace() || "@%/\\?#<>^|\"'`{}[](),;!$&=+~*".contains(c)
}

/// The normal form of a DNS name. Underscores are let through: service names have them.
pub(super) fn normal_name(text: &str) -> Result<String, HostError> {
    let ascii =
        idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL).map_err(|_| HostError::Name)?.into_owned();
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    if name.len() > 253 {
        return Err(HostError::TooLong);
    }
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    if !name.split('.').all(label_fits) {
        return Err(HostError::Name);
    }
    // The resolver hands such names to inet_aton(3), which reads octal, hexadecimal and short forms. IDNA may also
    // have made digits of other scripts into ASCII ones.
    let last = name.rsplit('.').next().unwrap_or(name);
    if is_number(last) {
        return Err(HostError::AlternativeNotation);
    }
    Ok(name.to_owned())
}

fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => label.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Host {
        Host::Name(text.to_owned())
    }

    #[test]
    fn names_have_one_spelling() {
        for spelling in ["example.com", "EXAMPLE.com", "Example.Com.", "example\u{3002}com", "ｅxample.com"] {
            assert_eq!(Host::parse(spelling), Ok(name("example.com")), "{spelling}");
        }
        assert_eq!(Host::parse("bücher.example"), Ok(name("xn--bcher-kva.example")));
        assert_eq!(Host::parse("_srv.my-host.example"), Ok(name("_srv.my-host.example")));
    }

    #[test]
    fn ambiguous_characters_are_refused() {
        for bad in [
            "evil\0.allowed.com",
            "a b.com",
            "user@allowed.com",
            "a%2e.com",
            "a\r\nb.com",
            "a\tb",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "*.com",
            "a\u{7f}b",
            "a\u{a0}b",
        ] {
            assert!(matches!(Host::parse(bad), Err(HostError::Character(_))), "{bad:?}: {:?}", Host::parse(bad));
        }
        for bad in ["..", ".", "a..b", ".a", "a..", "xn--a-\u{fffd}.com"] {
            assert!(Host::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Host::parse(""), Err(HostError::Empty));
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert_eq!(Host::parse(&"a".repeat(2000)), Err(HostError::TooLong));
    }

    #[test]
    fn other_notations_of_ipv4_are_refused() {
        for bad in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "127.0.0.01",
            "127.0.0.1.",
            "017700000001",
            "１２７.0.0.1",
            "127。0。0。1",
            "256.1.1.1",
            "1.2.3.4.5",
            "0X7F.1",
            "0x",
        ] {
            assert_eq!(Host::parse(bad), Err(HostError::AlternativeNotation), "{bad}");
        }
        assert_eq!(Host::parse("127.0.0.1"), Ok(Host::Address([127, 0, 0, 1].into())));
        assert_eq!(Host::parse("1.example"), Ok(name("1.example")), "digits are fine before the last label");
    }

    #[test]
    fn ipv6_is_held_in_canonical_form() {
        let loopback = Host::Address([127, 0, 0, 1].into());
        for spelling in ["::ffff:127.0.0.1", "[::ffff:7f00:1]", "[0:0:0:0:0:FFFF:127.0.0.1]"] {
            assert_eq!(Host::parse(spelling), Ok(loopback.clone()), "{spelling}");
        }
        assert_eq!(Host::parse("[2001:DB8:0::1]").map(|h| h.to_string()), Ok("2001:db8::1".to_owned()));
        for bad in ["[::1", "[fe80::1%eth0]", "1::2::3", "[127.0.0.1]", "[example.com]"] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ports_are_plain_numbers() {
        let parsed = |text, port| Destination::parse(text, port).map(|d| d.to_string());
        assert_eq!(parsed("Example.com:443", None), Ok("example.com:443".to_owned()));
        assert_eq!(parsed("example.com", Some(80)), Ok("example.com:80".to_owned()));
        assert_eq!(parsed("[::1]:8080", None), Ok("[::1]:8080".to_owned()));
        assert_eq!(parsed("example.com", None), Err(HostError::NoPort));
        assert_eq!(parsed("2001:db8::1:443", Some(80)), Err(HostError::Brackets));
        for bad in ["a:0", "a:65536", "a:+80", "a:", "a: 80", "a:8a", "[::1]x", "[::1]:", "a:000080"] {
            assert!(parsed(bad, Some(80)).is_err(), "{bad}");
        }
    }
}
