//! Socket addresses as a system call passes them.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Longest address the kernel reads (`struct sockaddr_storage`).
pub(crate) const MAX_LENGTH: usize = 128;

/// A decoded address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// IPv4 or IPv6.
    Ip {
        /// Address; one that maps IPv4 is turned into IPv4.
        ip: IpAddr,
        /// Port.
        port: u16,
    },
    /// A Unix socket by path, as written.
    UnixPath(PathBuf),
    /// A Unix socket by abstract name.
    UnixAbstract(Vec<u8>),
    /// Nobody in particular: disconnecting, or asking for an automatic name.
    Unnamed,
    /// Another family, by number.
    Other(u16),
}

/// Decodes what lies at an address argument. `None` when it is too short for its family, which the kernel refuses too.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<SocketAddress> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let family = u16::from_ne_bytes(*family);
    match i32::from(family) {
        libc::AF_UNSPEC => Some(SocketAddress::Unnamed),
        libc::AF_INET => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some(SocketAddress::Ip { ip: ip.into(), port: u16::from_be_bytes(*port) })
        }
        libc::AF_INET6 => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let ip = Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?);
            Some(SocketAddress::Ip { ip: IpAddr::from(ip).to_canonical(), port: u16::from_be_bytes(*port) })
        }
        libc::AF_UNIX => Some(unix(rest)),
        _ => Some(SocketAddress::Other(family)),
    }
}

fn unix(name: &[u8]) -> SocketAddress {
    match name {
        [] => SocketAddress::Unnamed,
        [0, abstract_name @ ..] => SocketAddress::UnixAbstract(abstract_name.to_vec()),
        path => {
            let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
            SocketAddress::UnixPath(PathBuf::from(std::ffi::OsString::from_vec(path[..end].to_vec())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_shapes() {
        let v4 = [2, 0, 0, 53, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse(&v4), Some(SocketAddress::Ip { ip: "192.0.2.1".parse().unwrap(), port: 53 }));
        let mut v6 = vec![10, 0, 1, 187, 0, 0, 0, 0];
        v6.extend("::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(parse(&v6), Some(SocketAddress::Ip { ip: "127.0.0.1".parse().unwrap(), port: 443 }));
        assert_eq!(parse(b"\x01\0/run/x\0junk"), Some(SocketAddress::UnixPath("/run/x".into())));
        assert_eq!(parse(b"\x01\0\0name"), Some(SocketAddress::UnixAbstract(b"name".to_vec())));
        assert_eq!(parse(b"\x01\0"), Some(SocketAddress::Unnamed));
        assert_eq!(parse(b"\0\0"), Some(SocketAddress::Unnamed));
        assert_eq!(parse(b"\x10\0abcdef"), Some(SocketAddress::Other(16)));
        assert_eq!(parse(&v4[..7]), None);
        assert_eq!(parse(b"\x02"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            match parse(&bytes) {
                Some(SocketAddress::UnixPath(path)) => {
                    prop_assert!(!path.as_os_str().as_encoded_bytes().contains(&0));
                    prop_assert!(!path.as_os_str().is_empty());
                }
                Some(SocketAddress::Ip { ip: IpAddr::V6(ip), .. }) => prop_assert!(ip.to_ipv4_mapped().is_none()),
                _ => {}
            }
        }
    }
}
