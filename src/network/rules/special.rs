//! Addresses that lead somewhere a public name has no business leading to.
//!
//! From the IANA special-purpose registries and the documentation of the cloud providers (metadata services), read
//! 2026-11. Each address belongs to the narrowest block that holds it, and only a rule inside that block names it:
//! `0.0.0.0/0` does not open the loopback, nor `169.254.0.0/16` the metadata service.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What kind of special address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressClass {
    /// The machine itself.
    Loopback,
    /// Valid on one link only.
    LinkLocal,
    /// A cloud provider's service that hands out credentials.
    Metadata,
    /// A private network (RFC 1918, unique local).
    Private,
    /// Shared space of carriers and overlay networks (RFC 6598).
    SharedNat,
    /// One to many.
    Multicast,
    /// No address at all: `0.0.0.0/8`, `::`. Linux takes it for the machine itself.
    Unspecified,
    /// IPv6 that carries an IPv4 address (mapped, compatible, 6to4, NAT64, Teredo).
    EmbeddedIpv4,
    /// Set aside: documentation, benchmarks, future use, broadcast.
    Reserved,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Private => "private",
            Self::SharedNat => "shared (carrier-grade NAT)",
            Self::Multicast => "multicast",
            Self::Unspecified => "unspecified",
            Self::EmbeddedIpv4 => "IPv4-in-IPv6",
            Self::Reserved => "reserved",
        })
    }
}

use AddressClass::{EmbeddedIpv4, LinkLocal, Loopback, Metadata, Multicast, Private, Reserved, SharedNat, Unspecified};

const V4: &[([u8; 4], u8, AddressClass)] = &[
    ([0, 0, 0, 0], 8, Unspecified),
    ([10, 0, 0, 0], 8, Private),
    ([100, 64, 0, 0], 10, SharedNat),
    ([100, 100, 100, 200], 32, Metadata), // Alibaba Cloud
    ([127, 0, 0, 0], 8, Loopback),
    ([168, 63, 129, 16], 32, Metadata), // Azure host agent
    ([169, 254, 0, 0], 16, LinkLocal),
    ([169, 254, 169, 254], 32, Metadata),
    ([169, 254, 170, 2], 32, Metadata),  // AWS container credentials
    ([169, 254, 170, 23], 32, Metadata), // AWS pod identity
    ([172, 16, 0, 0], 12, Private),
    ([192, 0, 0, 0], 24, Reserved),
    ([192, 0, 0, 192], 32, Metadata), // Oracle Cloud
    ([192, 0, 2, 0], 24, Reserved),
    ([192, 88, 99, 0], 24, Reserved),
    ([192, 168, 0, 0], 16, Private),
    ([198, 18, 0, 0], 15, Reserved),
    ([198, 51, 100, 0], 24, Reserved),
    ([203, 0, 113, 0], 24, Reserved),
    ([224, 0, 0, 0], 4, Multicast),
    ([240, 0, 0, 0], 4, Reserved),
];

const V6: &[([u16; 8], u8, AddressClass)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, EmbeddedIpv4), // IPv4-compatible
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, Loopback),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, EmbeddedIpv4), // IPv4-translated (SIIT)
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, EmbeddedIpv4), // NAT64, local use
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Reserved),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Reserved),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, EmbeddedIpv4), // Teredo
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Reserved),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Reserved),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Reserved),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Private),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, Metadata), // AWS pod identity
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Metadata), // AWS
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Metadata), // Google Cloud
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Private),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Multicast),
];

const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
const SIX_TO_FOUR: Ipv6Addr = Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0);

/// The narrowest special block that holds `address`; `None` for ordinary public addresses.
pub(super) fn special_block(address: IpAddr) -> Option<(IpNet, AddressClass)> {
    match address {
        IpAddr::V4(v4) => special_v4(v4).map(|(net, class)| (IpNet::V4(net), class)),
        IpAddr::V6(v6) => translated(v6).or_else(|| special_v6(v6)).map(|(net, class)| (IpNet::V6(net), class)),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<(Ipv4Net, AddressClass)> {
    V4.iter()
        .filter_map(|&(base, prefix, class)| Some((Ipv4Net::new(base.into(), prefix).ok()?, class)))
        .filter(|(net, _)| net.contains(&address))
        .max_by_key(|(net, _)| net.prefix_len())
}

fn special_v6(address: Ipv6Addr) -> Option<(Ipv6Net, AddressClass)> {
    V6.iter()
        .filter_map(|&(base, prefix, class)| Some((Ipv6Net::new(base.into(), prefix).ok()?, class)))
        .filter(|(net, _)| net.contains(&address))
        .max_by_key(|(net, _)| net.prefix_len())
}

/// NAT64 and 6to4 lead to the IPv4 address inside: they are as special as it is, and a rule for all of `64:ff9b::/96`
/// does not open the image of the loopback or of the metadata service.
fn translated(address: Ipv6Addr) -> Option<(Ipv6Net, AddressClass)> {
    let octets = address.octets();
    let (prefix, base, at) = if Ipv6Net::new(NAT64, 96).ok()?.contains(&address) {
        (96, NAT64, 12)
    } else if Ipv6Net::new(SIX_TO_FOUR, 16).ok()?.contains(&address) {
        (16, SIX_TO_FOUR, 2)
    } else {
        return None;
    };
    let inner = Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    let Some((net, class)) = special_v4(inner) else {
        return Some((Ipv6Net::new(base, prefix).ok()?, EmbeddedIpv4));
    };
    let mut image = base.octets();
    image[at..at + 4].copy_from_slice(&net.network().octets());
    Some((Ipv6Net::new(image.into(), prefix + net.prefix_len()).ok()?, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(address: &str) -> Option<AddressClass> {
        special_block(address.parse().unwrap()).map(|(_, class)| class)
    }

    #[test]
    fn every_block_is_well_formed() {
        for &(base, prefix, _) in V4 {
            let net = Ipv4Net::new(base.into(), prefix).unwrap();
            assert_eq!(net, net.trunc());
        }
        for &(base, prefix, _) in V6 {
            let net = Ipv6Net::new(base.into(), prefix).unwrap();
            assert_eq!(net, net.trunc());
        }
    }

    #[test]
    fn classes() {
        for (address, expected) in [
            ("127.0.0.1", Loopback),
            ("127.255.0.3", Loopback),
            ("::1", Loopback),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("::", Unspecified),
            ("169.254.1.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("fd00:ec2::254", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("fd12::1", Private),
            ("100.64.0.1", SharedNat),
            ("224.0.0.251", Multicast),
            ("ff02::fb", Multicast),
            ("255.255.255.255", Reserved),
            ("192.0.2.1", Reserved),
            ("::127.0.0.1", EmbeddedIpv4),
            ("2001::1", EmbeddedIpv4),
            ("64:ff9b::8.8.8.8", EmbeddedIpv4),
            ("64:ff9b:1::8.8.8.8", EmbeddedIpv4),
            ("64:ff9b::127.0.0.1", Loopback),
            ("64:ff9b::169.254.169.254", Metadata),
            ("2002:0808:0808::1", EmbeddedIpv4),
            ("2002:7f00:1::1", Loopback),
            ("2002:a00:1::1", Private),
        ] {
            assert_eq!(class(address), Some(expected), "{address}");
        }
        for public in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1", "11.0.0.1"] {
            assert_eq!(class(public), None, "{public}");
        }
    }
}
