//! Looking names up with the host's own `getent`, for a program that is linked statically.
//!
//! `getaddrinfo(3)` of glibc loads the modules that `/etc/nsswitch.conf` names (`resolve`, `mdns4`, `sss`) into this
//! process. A static one has no C library for them to share: they bring a second, and fault at the first use of it.

#![forbid(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where it is, most usual first.
const PLACES: [&str; 3] = ["/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"];

/// `AT_BASE` of the auxiliary vector: where the program's interpreter, the dynamic linker, is loaded.
const AT_BASE: usize = 7;

/// Whether this process is linked statically against a library that loads modules all the same.
pub(super) fn is_needed() -> bool {
    static STATIC: OnceLock<bool> = OnceLock::new();
    *STATIC
        .get_or_init(|| cfg!(target_env = "gnu") && std::fs::read("/proc/self/auxv").is_ok_and(|auxv| !linked(&auxv)))
}

/// Whether an auxiliary vector has a dynamic linker in it.
fn linked(auxv: &[u8]) -> bool {
    let (words, _) = auxv.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().any(|[key, value]| usize::from_ne_bytes(*key) == AT_BASE && usize::from_ne_bytes(*value) != 0)
}

/// The addresses of a name. Blocks.
pub(super) fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    let program = PLACES.iter().find(|place| Path::new(place).exists()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{} is missing, which looks names up", PLACES[0]))
    })?;
    let answer = Command::new(program)
        .args(["ahosts", "--", name])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .output()?;
    let found = addresses(&String::from_utf8_lossy(&answer.stdout));
    if found.is_empty() {
        Err(io::Error::new(io::ErrorKind::NotFound, "no address is known for it"))
    } else {
        Ok(found)
    }
}

/// `ADDRESS STREAM NAME`, and again for each other kind of socket.
fn addresses(text: &str) -> Vec<IpAddr> {
    let streams = text.lines().filter(|line| line.split_whitespace().nth(1) == Some("STREAM"));
    streams.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_for_each_host() {
        let text = "192.0.2.1       STREAM a.test\n192.0.2.1       DGRAM  \n192.0.2.1       RAW    \n\
                    2001:db8::1     STREAM \nfe80::1%eth0    STREAM \nnonsense\n";
        assert_eq!(addresses(text), ["192.0.2.1".parse::<IpAddr>().unwrap(), "2001:db8::1".parse().unwrap()]);
    }

    #[test]
    fn the_host_is_asked() {
        assert!(look_up("localhost").unwrap().iter().all(IpAddr::is_loopback));
        assert!(look_up("no-such-name.invalid").is_err());
        assert!(look_up("--help").is_err(), "no option of it");
    }

    #[test]
    fn a_test_is_linked_dynamically() {
        assert!(!is_needed());
        let vector = |value: usize| [[6_usize, 4096], [AT_BASE, value], [0, 0]].concat();
        let bytes = |words: Vec<usize>| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        assert!(linked(&bytes(vector(0x7f00_0000))) && !linked(&bytes(vector(0))) && !linked(&[]));
    }
}
