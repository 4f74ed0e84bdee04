//! Messages that say "refused" in words of their own, without an errno text in the usual place.

use super::mention::{Mention, Subject, Verb};
use super::quote::quoted_names;
use crate::denial::host_errors::Cause;

/// Reads a line of one of the known programs.
pub(super) fn read(line: &str) -> Option<Mention> {
    sqlite(line)
        .or_else(|| unix_socket(line))
        .or_else(|| bus(line))
        .or_else(|| managed_runtimes(line))
        .or_else(|| privilege(line))
        .or_else(|| in_place(line))
        .or_else(|| bare_code(line))
}

/// Perl's `-i` names the file and what it could not make for it: `Can't do inplace edit on f: Cannot make temp name: ...`.
fn in_place(line: &str) -> Option<Mention> {
    let (file, rest) = line.strip_prefix("Can't do inplace edit on ")?.split_once(": ")?;
    let reason = rest.rsplit_once(": ").map_or(rest, |(_, reason)| reason).trim_end_matches('.');
    let cause = match reason {
        "Read-only file system" => Cause::ReadOnly,
        "Permission denied" => Cause::Access,
        "Operation not permitted" => Cause::Perm,
        _ => return None,
    };
    let mut mention = Mention::new(Verb::OpenWrite, Subject::Path(file.to_owned()), Some(cause));
    mention.program = Some("perl".to_owned());
    Some(mention)
}

/// A program that prints the symbol of the error and nothing else.
fn bare_code(line: &str) -> Option<Mention> {
    let code = line.trim();
    let symbol = code.len() > 3 && code.starts_with('E') && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let cause = Cause::from_errno(code).filter(|_| symbol)?;
    Some(Mention::new(Verb::Unknown, Subject::Nothing, Some(cause)))
}

fn sqlite(line: &str) -> Option<Mention> {
    let read_only = line.contains("attempt to write a readonly database");
    if !read_only && !line.contains("unable to open database") {
        return None;
    }
    let quoted = quoted_names(line).into_iter().next().map(|quoted| quoted.name);
    // `unable to open database: o.db (14)`: one that was attached.
    let attached = || {
        let (_, rest) = line.split_once("unable to open database: ")?;
        let (name, code) = rest.rsplit_once(" (")?;
        code.strip_suffix(')')?.parse::<i32>().ok().map(|_| name.to_owned())
    };
    let named = quoted.or_else(attached).filter(|_| !read_only);
    let subject = named.map_or(Subject::InCommand, Subject::Path);
    let mut mention = Mention::new(Verb::OpenWrite, subject, None);
    mention.call = Some("sqlite".to_owned());
    mention.program = line.contains("sqlite3.").then(|| "python".to_owned()).or_else(|| Some("sqlite3".to_owned()));
    Some(mention)
}

/// Docker, Go and curl name a socket by its path: `unix:///var/run/docker.sock`, `dial unix /x: connect: ...`.
fn unix_socket(line: &str) -> Option<Mention> {
    let cause = if line.contains("permission denied") {
        Cause::Access
    } else if line.contains("connection refused") {
        Cause::Refused
    } else {
        Cause::Missing
    };
    let failed = line.contains("annot connect") || line.contains("trying to connect") || line.contains("connect: ");
    let rest = line
        .split_once("unix://")
        .map(|(_, rest)| rest)
        .or_else(|| line.split_once("dial unix ").map(|(_, rest)| rest))
        .filter(|_| failed)?;
    let path = rest.split([' ', ':', '"', '\'']).next()?.trim_end_matches(['.', ',']);
    let mut mention = Mention::new(Verb::Socket, Subject::Path(path.to_owned()), Some(cause));
    mention.program = line.to_ascii_lowercase().contains("docker").then(|| "docker".to_owned());
    path.starts_with('/').then_some(mention)
}

/// `Failed to connect to bus: ...` of systemctl, busctl and loginctl: the system bus has a fixed address.
fn bus(line: &str) -> Option<Mention> {
    let reason = line.strip_prefix("Failed to connect to ")?;
    let (which, reason) = reason.split_once(": ")?;
    let cause = match reason {
        "No such file or directory" => Cause::Missing,
        "Operation not permitted" => Cause::Perm,
        "Permission denied" => Cause::Access,
        "Connection refused" => Cause::Refused,
        _ => return None,
    };
    let path = match which {
        "bus" | "system scope bus via local transport" => "/run/dbus/system_bus_socket",
        _ => return None,
    };
    let mut mention = Mention::new(Verb::Socket, Subject::Path(path.to_owned()), Some(cause));
    mention.program = Some("systemctl".to_owned());
    Some(mention)
}

/// Java's and .NET's exceptions that mean EACCES: `AccessDeniedException: /x`, `Access to the path '/x' is denied.`
fn managed_runtimes(line: &str) -> Option<Mention> {
    if let Some((_, rest)) = line.split_once("java.nio.file.AccessDeniedException: ") {
        let path = rest.split(" -> ").next()?.trim();
        let mut mention = Mention::new(Verb::Unknown, Subject::Path(path.to_owned()), Some(Cause::Access));
        mention.program = Some("java".to_owned());
        return Some(mention);
    }
    if let Some((_, rest)) = line.split_once(": error: error while writing ") {
        // javac gives the path, and a reason only for some errors; those are read by their reason.
        let path = rest.split_once(": ").map(|(_, path)| path).filter(|path| !path.contains(": "))?;
        let mut mention = Mention::new(Verb::OpenWrite, Subject::Path(path.to_owned()), None);
        mention.program = Some("javac".to_owned());
        return Some(mention);
    }
    let (_, rest) = line.split_once("Access to the path '")?;
    let (path, _) = rest.split_once("' is denied")?;
    Some(Mention::new(Verb::Unknown, Subject::Path(path.to_owned()), Some(Cause::Access)))
}

/// Operations that name no object: the program's own words for a privilege every confining mode takes away.
fn privilege(line: &str) -> Option<Mention> {
    let named = |verb, program: &str, call: &str, cause| {
        let mut mention = Mention::new(verb, Subject::Nothing, Some(cause));
        mention.program = Some(program.to_owned());
        mention.call = Some(call.to_owned());
        mention
    };
    if line.contains("sudo: The \"no new privileges\" flag is set") {
        return Some(named(Verb::Privilege, "sudo", "execve", Cause::Perm));
    }
    if line.starts_with("unshare: unshare failed: Operation not permitted") {
        return Some(named(Verb::Namespace, "unshare", "unshare", Cause::Perm));
    }
    let strace = line.contains("ptrace(PTRACE_TRACEME") || line.contains("attach: ptrace(");
    if strace && line.contains("Operation not permitted") {
        return Some(named(Verb::Ptrace, "strace", "ptrace", Cause::Perm));
    }
    let rest = line.strip_prefix("mount: ").or_else(|| line.strip_prefix("umount: "))?;
    let (path, reason) = rest.split_once(": ")?;
    let refused = reason.starts_with("permission denied")
        || reason.starts_with("must be superuser")
        || reason.starts_with("Operation not permitted");
    let program = if line.starts_with('u') { "umount" } else { "mount" };
    let mut mention = named(Verb::Mount, program, if program == "mount" { "mount" } else { "umount2" }, Cause::Perm);
    mention.subject = Subject::Path(path.to_owned());
    (refused && path.starts_with('/')).then_some(mention)
}
