//! A traced call whose arguments and memory are chosen by whoever attacks: this thread's own memory stands in for it.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use nix::unistd::gettid;
use syscalls::Sysno;

use super::run::Run;
use super::{SignalBackend, Watch, address, calls, dns};
use crate::denial::{FileBackend, NetBackend};
use crate::policy::{EffectivePolicy, HostPaths, PolicyRequest, SandboxMode};

/// The calls that read memory, and two that do not.
const CALLS: [Sysno; 24] = [
    Sysno::openat,
    Sysno::openat2,
    Sysno::mkdirat,
    Sysno::unlinkat,
    Sysno::renameat2,
    Sysno::linkat,
    Sysno::symlinkat,
    Sysno::mknodat,
    Sysno::truncate,
    Sysno::fchmodat2,
    Sysno::fchownat,
    Sysno::utimensat,
    Sysno::setxattr,
    Sysno::setxattrat,
    Sysno::file_setattr,
    Sysno::connect,
    Sysno::bind,
    Sysno::sendto,
    Sysno::sendmsg,
    Sysno::sendmmsg,
    Sysno::mount,
    Sysno::ioctl,
    Sysno::kill,
    Sysno::chdir,
];

/// Readable bytes behind the given ones, as a mapping has them.
const SLACK: usize = 256;

/// Seven bytes choose the call and what is in its registers, the eighth how many pointers stand in memory (two bytes
/// each: where, and where to); the rest is the memory.
pub fn trace(data: &[u8]) {
    let decoded = address::parse(data);
    assert!(data.len() >= 2 || decoded.is_none());
    if let Some(name) = dns::question(data) {
        assert!(name.is_ascii() && name.len() <= 254, "{name:?}");
    }
    let Some((registers, rest)) = data.split_first_chunk::<8>() else { return };
    let pointers = usize::from(registers[7] % 4);
    let Some((links, bytes)) = rest.split_at_checked(pointers * 2) else { return };
    let mut memory = [bytes, &[0; SLACK]].concat();
    let base = memory.as_ptr().expose_provenance() as u64;
    for link in links.chunks_exact(2) {
        let at = usize::from(link[0]).min(memory.len() - 8);
        let to = base.wrapping_add(u64::from(link[1]));
        memory[at..at + 8].copy_from_slice(&to.to_ne_bytes());
    }
    let call = CALLS[usize::from(registers[0]) % CALLS.len()];
    let args: Vec<u64> = registers[1..7].iter().map(|byte| register(*byte, base)).collect();
    let Ok(args) = <[u64; 6]>::try_from(args) else { return };
    examine(call, &args);
}

/// A small number, the working directory, a pointer into the memory, or one to nowhere.
fn register(byte: u8, base: u64) -> u64 {
    match byte {
        0..=63 => u64::from(byte),
        64..=79 => (-100_i64).cast_unsigned(),
        80..=95 => u64::MAX - u64::from(byte - 80),
        96..=99 => 1 << 40,
        100..=255 => base.wrapping_add(u64::from(byte - 100)),
    }
}

fn examine(call: Sysno, args: &[u64; 6]) {
    let Ok(tid) = u32::try_from(gettid().as_raw()) else { return };
    let Ok(null) = std::fs::File::open("/dev/null") else { return };
    let mut run = Run::new(null.into(), watch());
    if let Some(request) = calls::decode(call, args) {
        for _ in 0..2 {
            // The second time, what is remembered of the first answers.
            if let Err(trouble) = run.examine(tid, request) {
                tracing::trace!(?trouble, "no answer");
            }
        }
    }
    if let Some(object) = calls::object_of(call, args)
        && let Ok(Some(path)) = run.find(tid, object)
    {
        assert!(!path.as_os_str().is_empty());
    }
}

fn watch() -> Watch {
    static POLICY: OnceLock<Option<Arc<EffectivePolicy>>> = OnceLock::new();
    let policy = POLICY.get_or_init(|| {
        let host = HostPaths {
            home: "/nonexistent/home".into(),
            account_home: None,
            tmp: "/tmp".into(),
            cwd: Path::new("/").to_path_buf(),
        };
        PolicyRequest::new(SandboxMode::ReadOnly, "/usr").resolve(&host).ok().map(Arc::new)
    });
    let Some(policy) = policy else { panic!("the policy of read-only can be resolved anywhere") };
    Watch {
        policy: Arc::clone(policy),
        rules: Arc::from([]),
        also_writable: vec!["/dev".into()],
        files: FileBackend::Mounts { landlock: true },
        network: NetBackend::Namespace,
        open_ports: Vec::new(),
        signals: SignalBackend::Namespace,
        started: Instant::now(),
    }
}
