//! Limits of the policy that a command ran into.
//!
//! A control group counts its refusals: the best witness there is. The others leave none: a fork that fails for want of a
//! pid, a file that grows too large, memory that is not given are known to the program alone. So its words count, and
//! only for a resource that the policy does limit.
#![forbid(unsafe_code)]

use super::{
    AccessWord, Aftermath, DenialKind, DeniedProcess, Observation, PolicyViews, Remedy, RunEvidence, Target, Witness,
};
use crate::policy::Limits;

/// SIGXFSZ: what the kernel sends for a write beyond `RLIMIT_FSIZE`. The same number on every architecture we know.
const SIGXFSZ: i32 = 25;

/// What the kernel ends a process with when a control group is out of memory.
const SIGKILL: i32 = 9;

/// A resource that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Processes,
    Memory,
    OpenFiles,
    FileSize,
    TmpSize,
}

impl Resource {
    fn is_limited(self, limits: &Limits) -> bool {
        match self {
            Self::Processes => limits.processes.is_some(),
            Self::Memory => limits.memory.is_some(),
            Self::OpenFiles => limits.open_files.is_some(),
            Self::FileSize => limits.file_size.is_some(),
            Self::TmpSize => limits.tmp_size.is_some(),
        }
    }

    /// The call and errno that a refusal comes as.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Processes => ("clone", "EAGAIN"),
            Self::Memory => ("mmap", "ENOMEM"),
            Self::OpenFiles => ("openat", "EMFILE"),
            Self::FileSize => ("write", "EFBIG"),
            Self::TmpSize => ("write", "ENOSPC"),
        }
    }
}

/// What a control group counted in this run.
#[must_use]
pub fn limits_hit(memory: u64, processes: u64) -> Vec<Observation> {
    let counted = [(Resource::Memory, memory), (Resource::Processes, processes)];
    let hit = counted.into_iter().filter(|(_, count)| *count > 0);
    hit.map(|(resource, _)| observation(resource, Witness::Probe, None, u64::MAX)).collect()
}

fn observation(resource: Resource, witness: Witness, program: Option<String>, seq: u64) -> Observation {
    let (call, errno) = resource.words();
    Observation {
        kind: DenialKind::Limit,
        target: Target::None,
        access: Vec::<AccessWord>::new(),
        syscall: Some(call.to_owned()),
        errno: Some(errno.to_owned()),
        process: program.map(|comm| DeniedProcess { pid: None, comm }),
        witness,
        at: None,
        seq,
        aftermath: Aftermath::Unknown,
        remedy: Remedy::Unconfined,
    }
}

/// What the run's end and its messages tell of limits, at most one of each.
pub(super) fn read(evidence: &RunEvidence<'_>, views: &PolicyViews<'_>) -> Vec<Observation> {
    let limits = &views.effective.limits;
    let mut found: Vec<(Resource, Option<String>, Witness)> = Vec::new();
    if was_stopped(evidence) && Resource::FileSize.is_limited(limits) {
        found.push((Resource::FileSize, None, Witness::Probe));
    }
    // What a command that only passes text on says itself, it says under its own name.
    let relayed = super::hints::only_relays(evidence.command);
    for line in messages(evidence) {
        let Some(resource) = told(&line, evidence.command) else { continue };
        let program = program(&line);
        let quoted = relayed && program.as_deref().is_none_or(|name| !has_word(evidence.command, name));
        let known = found.iter().any(|(known, ..)| *known == resource);
        if known || quoted || !resource.is_limited(limits) || super::hints::prints_literally(evidence.command, &line) {
            continue;
        }
        found.push((resource, program, Witness::Stderr));
    }
    let seq = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
    found
        .into_iter()
        .enumerate()
        .map(|(at, (resource, program, witness))| observation(resource, witness, program, seq(at)))
        .collect()
}

/// The command, or the last program of a shell, was ended by the signal that only a file's size limit sends.
pub(super) fn was_stopped(evidence: &RunEvidence<'_>) -> bool {
    evidence.signal == Some(SIGXFSZ) || evidence.exit_code == Some(128 + SIGXFSZ)
}

/// The kernel killed for want of memory, and the command, or the last program of a shell, was killed.
pub(super) fn ended_it(refused: &Observation, evidence: &RunEvidence<'_>) -> bool {
    let counted = refused.kind == DenialKind::Limit && refused.witness == Witness::Probe;
    let killed = evidence.signal == Some(SIGKILL) || evidence.exit_code == Some(128 + SIGKILL);
    counted && killed && !evidence.timed_out && refused.errno.as_deref() == Some("ENOMEM")
}

/// Lines of the stream that messages go to.
fn messages(evidence: &RunEvidence<'_>) -> Vec<String> {
    let merged = super::hints::merges_streams(evidence.command);
    let outputs = [evidence.stderr, if merged { evidence.stdout } else { b"" }];
    let tails = outputs.iter().map(|output| &output[output.len().saturating_sub(64 << 10)..]);
    let lines = tails.flat_map(|tail| tail.split(|byte| *byte == b'\n')).filter(|line| line.len() <= 4096);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// The resource that a message says was refused. A full memory file system has to be named, by the message or by the
/// redirection that the message is about.
fn told(line: &str, command: &str) -> Option<Resource> {
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    let lower = line.to_lowercase();
    let starting = ["fork", "clone", "thread", "spawn", "process"].iter().any(|word| lower.contains(word));
    let again = has(&["Resource temporarily unavailable", "EAGAIN", "os error 11", "Errno 11"]);
    if (starting && again) || has(&["can't start new thread", "unable to create native thread", "Cannot fork"]) {
        return Some(Resource::Processes);
    }
    if has(&["Too many open files", "EMFILE"]) {
        return Some(Resource::OpenFiles);
    }
    if has(&["File too large", "EFBIG", "File size limit exceeded"]) {
        return Some(Resource::FileSize);
    }
    let full = has(&["No space left on device", "ENOSPC"]);
    let redirected = [">/tmp", "> /tmp", ">/dev/shm", "> /dev/shm"].iter().any(|words| command.contains(words));
    if full && (has(&["/tmp", "/dev/shm"]) || redirected && has(&["standard output", "write error"])) {
        return Some(Resource::TmpSize);
    }
    let memory = has(&["Cannot allocate memory", "ENOMEM", "MemoryError", "std::bad_alloc", "memory exhausted"])
        || (lower.contains("memory allocation of") && lower.contains("failed"))
        || lower.contains("out of memory");
    memory.then_some(Resource::Memory)
}

fn has_word(command: &str, name: &str) -> bool {
    command.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|word| word == name)
}

/// The program before the first colon, where that is a name: `bash: fork: ...`, `python3: can't ...`.
fn program(line: &str) -> Option<String> {
    let name = line.split_once(':')?.0.trim();
    let name = name.rsplit('/').next().unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    // Errors of languages begin with their type.
    let typed = name.ends_with("Error") || name.ends_with("Exception");
    (!name.is_empty() && name.len() < 16 && name.chars().all(plain) && !typed).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_tell_the_resource() {
        use Resource::{FileSize, Memory, OpenFiles, Processes, TmpSize};
        for (line, resource) in [
            ("bash: fork: retry: Resource temporarily unavailable", Some(Processes)),
            ("bash: fork: Resource temporarily unavailable", Some(Processes)),
            ("BlockingIOError: [Errno 11] Resource temporarily unavailable", None),
            ("RuntimeError: can't start new thread", Some(Processes)),
            ("make: fork: Resource temporarily unavailable", Some(Processes)),
            ("Error: spawn /bin/sh EAGAIN", Some(Processes)),
            (
                "thread 'main' panicked: failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"Resource temporarily unavailable\" }",
                Some(Processes),
            ),
            ("java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory", Some(Processes)),
            ("OSError: [Errno 24] Too many open files: 'x'", Some(OpenFiles)),
            ("dd: error writing 'x': File too large", Some(FileSize)),
            ("dd: error writing '/tmp/x': No space left on device", Some(TmpSize)),
            ("dd: error writing '/home/x': No space left on device", None),
            ("MemoryError", Some(Memory)),
            ("memory allocation of 17179869184 bytes failed", Some(Memory)),
            ("bash: xrealloc: cannot allocate 18446744071562068096 bytes", None),
            ("cc1: out of memory allocating 65536 bytes", Some(Memory)),
            ("read: Resource temporarily unavailable", None),
            ("touch: cannot touch 'x': Permission denied", None),
        ] {
            assert_eq!(told(line, "true"), resource, "{line}");
        }
        let unnamed = "head: error writing 'standard output': No space left on device";
        assert_eq!(told(unnamed, "head -c 3G /dev/zero >/tmp/x"), Some(TmpSize));
        assert_eq!(told(unnamed, "head -c 3G /dev/zero >x"), None);
    }

    #[test]
    fn the_program_is_named_where_the_message_begins_with_it() {
        assert_eq!(program("bash: fork: retry: Resource temporarily unavailable").as_deref(), Some("bash"));
        assert_eq!(program("/usr/bin/dd: error writing 'x': File too large").as_deref(), Some("dd"));
        assert_eq!(program("RuntimeError: can't start new thread"), None);
        assert_eq!(program("MemoryError"), None);
    }

    #[test]
    fn a_group_that_counted_nothing_saw_nothing() {
        assert!(limits_hit(0, 0).is_empty());
        let seen: Vec<_> = limits_hit(2, 1).into_iter().map(|seen| (seen.kind, seen.errno, seen.witness)).collect();
        assert_eq!(
            seen,
            [
                (DenialKind::Limit, Some("ENOMEM".into()), Witness::Probe),
                (DenialKind::Limit, Some("EAGAIN".into()), Witness::Probe)
            ]
        );
    }
}
