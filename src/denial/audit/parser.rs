//! The text of kernel audit records: fields, joined events, and the refusals they tell of.
//!
//! A value that a process chose (a path, a name) is quoted when it is plain and written in hexadecimal digits when it
//! holds a quote, a blank or a control character, so no value can begin another field.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use syscalls::Sysno;

use crate::denial::{AccessWord, Aftermath, DenialKind, DeniedProcess, Observation, Remedy, Target, Witness};

/// `AUDIT_SYSCALL`: the call and the process of an event.
pub const SYSCALL: u16 = 1300;
/// `AUDIT_EOE`: the end of an event of several records.
pub const END_OF_EVENT: u16 = 1320;
/// `AUDIT_SECCOMP`: a seccomp filter's action.
pub const SECCOMP: u16 = 1326;
/// `AUDIT_LANDLOCK_ACCESS` (Linux 6.15): a refused access.
pub const LANDLOCK_ACCESS: u16 = 1423;
/// `AUDIT_LANDLOCK_DOMAIN` (Linux 6.15): the life of a domain.
pub const LANDLOCK_DOMAIN: u16 = 1424;

/// Longest record that is looked at; the kernel's own limit is 8970 bytes.
const MAX_RECORD: usize = 16 * 1024;
/// Records of one event; a call has at most a few.
const MAX_PARTS: usize = 64;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Type number.
    pub kind: u16,
    /// Joins the records of one event.
    pub serial: u64,
    /// Wall-clock time since 1970.
    pub time: Duration,
    /// Fields in their order, values decoded.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// The first value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        std::str::from_utf8(self.field(name)?).ok()?.parse().ok()
    }

    fn hex(&self, name: &str) -> Option<u64> {
        let text = std::str::from_utf8(self.field(name)?).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }
}

/// Parses the text of one record, `audit(TIME.MS:SERIAL): field=value ...`. `None` when it is something else.
#[must_use]
pub fn parse(kind: u16, text: &[u8]) -> Option<Record> {
    let text = text.get(..text.len().min(MAX_RECORD))?;
    let text = text.split(|&b| b == 0 || b == b'\n').next()?;
    let rest = text.strip_prefix(b"audit(")?;
    let close = rest.windows(2).position(|pair| pair == b"):")?;
    let stamp = std::str::from_utf8(&rest[..close]).ok()?;
    let (time, serial) = stamp.split_once(':')?;
    let (seconds, millis) = time.split_once('.')?;
    let time = Duration::from_secs(seconds.parse().ok()?).checked_add(Duration::from_millis(millis.parse().ok()?))?;
    Some(Record { kind, serial: serial.parse().ok()?, time, fields: fields(&rest[close + 2..]) })
}

fn fields(mut text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    loop {
        text = text.trim_ascii_start();
        let Some(equals) = text.iter().position(|&b| b == b'=' || b == b' ') else { return out };
        let (name, rest) = (&text[..equals], &text[equals + 1..]);
        if text[equals] == b' ' {
            // A word without a value.
            text = rest;
            continue;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let (value, after) = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let end = quoted.iter().position(|&b| b == b'"').unwrap_or(quoted.len());
            (quoted[..end].to_vec(), quoted.get(end + 1..).unwrap_or_default())
        } else {
            let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
            let raw = &rest[..end];
            let chosen = matches!(name.as_str(), "path" | "comm" | "exe" | "ocomm" | "name");
            let value = chosen.then(|| unhex(raw)).flatten().unwrap_or_else(|| raw.to_vec());
            (value, &rest[end..])
        };
        out.push((name, value));
        text = after;
    }
}

/// Decodes pairs of hexadecimal digits. `None` for anything else, such as `(null)`.
fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    if pairs.is_empty() {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Joins records to events by their serial numbers.
#[derive(Debug, Default)]
pub struct Joiner {
    open: BTreeMap<u64, Vec<Record>>,
}

impl Joiner {
    /// Adds a record; returns the events that are complete. Records of one event follow each other closely, so an
    /// event is complete when its end is told or a few later ones have begun.
    pub fn add(&mut self, record: Record) -> Vec<Vec<Record>> {
        const LATER: usize = 8;
        if record.kind == END_OF_EVENT {
            return self.open.remove(&record.serial).into_iter().collect();
        }
        let parts = self.open.entry(record.serial).or_default();
        if parts.len() < MAX_PARTS {
            parts.push(record);
        }
        let mut done = Vec::new();
        while self.open.len() > LATER {
            done.extend(self.open.pop_first().map(|(_, parts)| parts));
        }
        done
    }

    /// Everything that is left.
    pub fn flush(&mut self) -> Vec<Vec<Record>> {
        std::mem::take(&mut self.open).into_values().collect()
    }
}

/// A refusal and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The Landlock domain that refused; `None` for seccomp.
    pub domain: Option<u64>,
    /// The refused process as the host numbers it, where a record tells.
    pub pid: Option<u32>,
    /// What was refused. For a right to make something Landlock names the directory it would have been in.
    pub observation: Observation,
}

/// A domain and the process that entered it first, from a record of its beginning.
#[must_use]
pub fn domain(record: &Record) -> Option<(u64, u32)> {
    let begins = record.kind == LANDLOCK_DOMAIN && record.field("status") == Some(b"allocated");
    begins.then(|| Some((record.hex("domain")?, record.number("pid")?))).flatten()
}

/// The refusals in one event.
#[must_use]
pub fn refusals(event: &[Record]) -> Vec<Refusal> {
    let call = event.iter().find(|record| record.kind == SYSCALL);
    event.iter().filter_map(|record| landlock(record, call).or_else(|| seccomp(record))).collect()
}

/// The kind that a Landlock right belongs to. Where several blocked, the first that is known counts.
fn kind(blockers: &str) -> Option<(DenialKind, AccessWord)> {
    use AccessWord::{Execute, Read, Write};
    blockers.split(',').find_map(|blocker| {
        Some(match blocker {
            "fs.execute" => (DenialKind::FsExecute, Execute),
            "fs.write_file" => (DenialKind::FsWrite, Write),
            "fs.read_file" | "fs.read_dir" => (DenialKind::FsRead, Read),
            "fs.remove_dir" | "fs.remove_file" => (DenialKind::FsRemove, Write),
            "fs.refer" => (DenialKind::FsRename, Write),
            "fs.truncate" => (DenialKind::FsTruncate, Write),
            "fs.ioctl_dev" => (DenialKind::Ioctl, Write),
            "fs.change_topology" => (DenialKind::Mount, Write),
            "net.bind_tcp" => (DenialKind::NetBind, Write),
            "net.connect_tcp" => (DenialKind::NetConnect, Write),
            "scope.abstract_unix_socket" | "fs.resolve_unix" => (DenialKind::UnixConnect, Write),
            "scope.signal" => (DenialKind::Signal, Write),
            "ptrace" => (DenialKind::Ptrace, Read),
            make if make.starts_with("fs.make_") => (DenialKind::FsCreate, Write),
            _ => return None,
        })
    })
}

fn landlock(record: &Record, call: Option<&Record>) -> Option<Refusal> {
    if record.kind != LANDLOCK_ACCESS {
        return None;
    }
    let blockers = record.text("blockers")?;
    let (kind, word) = kind(&blockers)?;
    let address = |host: &str, port: &str| Target::Net {
        host: record.text(host).unwrap_or_else(|| "*".to_owned()),
        port: record.number(port),
    };
    let target = match kind {
        DenialKind::NetConnect => address("daddr", "dest"),
        DenialKind::NetBind => address("saddr", "src"),
        DenialKind::UnixConnect if blockers.contains("abstract") => {
            let name = record.field("path")?;
            let name = String::from_utf8_lossy(name.strip_prefix(b"\0").unwrap_or(name)).replace('\0', "@");
            Target::Path(PathBuf::from(format!("@{name}")))
        }
        _ => record
            .field("path")
            .filter(|path| path.starts_with(b"/"))
            .map_or(Target::None, |path| Target::Path(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())))),
    };
    let number = call.and_then(|call| call.number::<usize>("syscall")).and_then(Sysno::new);
    let exit = call.and_then(|call| call.number::<i32>("exit")).filter(|exit| (-4095..0).contains(exit));
    Some(Refusal {
        domain: Some(record.hex("domain")?),
        pid: call.and_then(|call| call.number("pid")),
        observation: Observation {
            kind,
            target,
            access: vec![word],
            syscall: number.map(|number| number.name().to_owned()),
            errno: exit.map(|exit| format!("{:?}", Errno::from_raw(-exit))),
            process: call.and_then(|call| call.text("comm")).map(|comm| DeniedProcess { pid: None, comm }),
            witness: Witness::Audit,
            at: None,
            seq: record.serial,
            aftermath: Aftermath::Unknown,
            remedy: Remedy::Ask,
        },
    })
}

fn seccomp(record: &Record) -> Option<Refusal> {
    /// `SECCOMP_RET_LOG` and above let the call through.
    const LETS_THROUGH: u64 = 0x7FFC_0000;
    if record.kind != SECCOMP || record.hex("code")? >= LETS_THROUGH {
        return None;
    }
    let (code, number) = (record.hex("code")?, record.number::<usize>("syscall")?);
    // Linux 6.18 records the action without its number.
    let errno = i32::try_from(code & 0xFFFF).ok().filter(|errno| code & 0xFFFF_0000 == 0x0005_0000 && *errno != 0);
    Some(Refusal {
        domain: None,
        pid: Some(record.number("pid")?),
        observation: Observation {
            kind: DenialKind::Syscall,
            target: Target::Syscall,
            access: Vec::new(),
            syscall: Some(Sysno::new(number).map_or_else(|| format!("call {number}"), |call| call.name().to_owned())),
            errno: errno.map(|errno| format!("{:?}", Errno::from_raw(errno))),
            process: record.text("comm").map(|comm| DeniedProcess { pid: None, comm }),
            witness: Witness::Audit,
            at: None,
            seq: record.serial,
            aftermath: Aftermath::Unknown,
            remedy: Remedy::Ask,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(kind: u16, text: &str) -> Record {
        parse(kind, text.as_bytes()).unwrap()
    }

    #[test]
    fn a_refused_file_access_is_joined_with_its_call() {
        let mut joiner = Joiner::default();
        let access = one(
            LANDLOCK_ACCESS,
            "audit(1700000000.250:41): domain=1a2b3c blockers=fs.make_reg path=\"/home/dev\" dev=\"vda\" ino=7",
        );
        let call = one(
            SYSCALL,
            "audit(1700000000.250:41): arch=c000003e syscall=257 success=no exit=-13 pid=812 comm=\"touch\" exe=\"/usr/bin/touch\"",
        );
        assert_eq!(access.time, Duration::from_millis(1_700_000_000_250));
        assert!(joiner.add(access).is_empty() && joiner.add(call).is_empty());
        let events = joiner.add(one(END_OF_EVENT, "audit(1700000000.250:41): "));
        assert_eq!(events.len(), 1);
        let found = refusals(&events[0]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].domain, found[0].pid), (Some(0x1a_2b3c), Some(812)));
        let seen = &found[0].observation;
        assert_eq!((seen.kind, &seen.target), (DenialKind::FsCreate, &Target::Path("/home/dev".into())));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(seen.syscall.as_deref(), Some("openat"));
        }
        assert_eq!(seen.errno.as_deref(), Some("EACCES"));
        assert_eq!(seen.process.as_ref().unwrap().comm, "touch");
    }

    #[test]
    fn values_in_hex_are_decoded_and_begin_no_field() {
        let record =
            one(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=fs.write_file path=2F612064656E6965643D31 dev=\"x\"");
        assert_eq!(record.field("path"), Some(&b"/a denied=1"[..]));
        assert_eq!(record.field("denied"), None);
        let null = one(LANDLOCK_ACCESS, "audit(1.0:2): comm=(null) path=\"/a\"");
        assert_eq!(null.field("comm"), Some(&b"(null)"[..]));
    }

    #[test]
    fn network_scopes_and_seccomp() {
        let see = |kind, text: &str| {
            refusals(&[one(kind, text)]).into_iter().next().map(|r| (r.observation.kind, r.observation.target))
        };
        let net = |host: &str, port| Target::Net { host: host.to_owned(), port: Some(port) };
        assert_eq!(
            see(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=net.connect_tcp daddr=192.0.2.7 dest=443"),
            Some((DenialKind::NetConnect, net("192.0.2.7", 443)))
        );
        assert_eq!(
            see(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=net.bind_tcp src=8080"),
            Some((DenialKind::NetBind, net("*", 8080)))
        );
        assert_eq!(
            see(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=scope.abstract_unix_socket path=0061"),
            Some((DenialKind::UnixConnect, Target::Path("@a".into())))
        );
        assert_eq!(
            see(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=scope.signal opid=9 ocomm=\"sleep\""),
            Some((DenialKind::Signal, Target::None))
        );
        assert_eq!(see(LANDLOCK_ACCESS, "audit(1.0:2): domain=f blockers=fs.of_tomorrow path=\"/\""), None);
        let seccomp = "audit(1.0:3): auid=0 uid=0 pid=77 comm=\"x\" exe=\"/x\" sig=0 arch=c000003e syscall=165 compat=0 ip=0x1 code=";
        assert_eq!(see(SECCOMP, &format!("{seccomp}0x50001")), Some((DenialKind::Syscall, Target::Syscall)));
        assert_eq!(see(SECCOMP, &format!("{seccomp}0x7ffc0000")), None, "logged and let through");
    }

    #[test]
    fn a_domain_is_known_by_who_entered_it() {
        let begins = one(
            LANDLOCK_DOMAIN,
            "audit(1.0:2): domain=195ba459b status=allocated mode=enforcing pid=300 uid=0 exe=\"/x\" comm=\"x\"",
        );
        assert_eq!(domain(&begins), Some((0x1_95ba_459b, 300)));
        let ends = one(LANDLOCK_DOMAIN, "audit(1.0:9): domain=195ba459b status=deallocated denials=3");
        assert_eq!(domain(&ends), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(kind in 1300_u16..1430, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut text = b"audit(1.0:7): ".to_vec();
            text.extend(&bytes);
            for input in [&bytes, &text] {
                if let Some(record) = parse(kind, input) {
                    prop_assert!(domain(&record).is_none_or(|_| kind == LANDLOCK_DOMAIN));
                    prop_assert!(refusals(&[record]).len() <= 1);
                }
            }
        }

        #[test]
        fn a_path_comes_back_whole_and_alone(name in proptest::collection::vec(1_u8..=255, 1..60)) {
            // As the kernel writes it: quoted when plain, in hex otherwise.
            let plain = name.iter().all(|b| (0x21..0x7F).contains(b) && *b != b'"');
            let path = if plain { format!("\"/{}\"", String::from_utf8_lossy(&name)) } else {
                std::iter::once(b'/').chain(name.iter().copied()).map(|b| format!("{b:02X}")).collect()
            };
            let record = parse(LANDLOCK_ACCESS, format!("audit(1.0:7): domain=f blockers=fs.make_dir path={path} ino=3").as_bytes()).unwrap();
            let mut whole = vec![b'/'];
            whole.extend(&name);
            prop_assert_eq!(record.field("path"), Some(whole.as_slice()));
            prop_assert_eq!(record.fields.len(), 4);
        }

        #[test]
        fn the_joiner_stays_small(serials in proptest::collection::vec(any::<u64>(), 0..200)) {
            let mut joiner = Joiner::default();
            let mut out = 0;
            for serial in &serials {
                out += joiner.add(Record { kind: SECCOMP, serial: *serial, time: Duration::ZERO, fields: Vec::new() }).iter().map(Vec::len).sum::<usize>();
                prop_assert!(joiner.open.len() <= 8);
            }
            out += joiner.flush().iter().map(Vec::len).sum::<usize>();
            prop_assert!(out <= serials.len());
        }
    }
}
