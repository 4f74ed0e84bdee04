//! Messages about peers and names that could not be reached.

use super::mention::{Mention, Subject, Verb};
use super::peers::{is_host, split_host_port};
use super::quote::quoted_names;
use crate::denial::host_errors::{Cause, Found};

/// Words before a name that could not be looked up.
const LOOKUPS: &[&str] = &[
    "could not resolve hostname ",
    "could not resolve host: ",
    "could not resolve proxy: ",
    "couldn't resolve host ",
    "could not resolve host ",
    "unable to resolve host address ",
    "unable to look up ",
    "temporary failure resolving ",
    "getaddrinfo eai_again ",
    "getaddrinfo enotfound ",
    "getaddrinfo for host ",
    "unknownhostexception: ",
    "could not resolve ",
    "unknown host ",
    "bad address ",
    "bad hostname ",
    "dns error: failed to lookup address for ",
];

/// Words before a peer that could not be reached.
const CONNECTS: &[&str] = &[
    "failed to connect to ",
    "connect to host ",
    "connection to server at ",
    "connect econnrefused ",
    "connect enetunreach ",
    "connect ehostunreach ",
    "connect eacces ",
    "connect eperm ",
    "could not connect to redis at ",
    "couldn't connect to server ",
    "can't connect to mysql server on ",
    "can't connect to ",
    "cannot connect to ",
    "could not connect to ",
    "unable to connect to ",
    "connecting to ",
    "connect to ",
];

/// Reads a line that tells of a peer or a name.
pub(super) fn read(line: &str, found: Option<Found>) -> Option<Mention> {
    let lower = line.to_ascii_lowercase();
    if lower.len() != line.len() {
        return None;
    }
    let mut mention = lookup(line, &lower)
        .or_else(|| dial(line, &lower, found))
        .or_else(|| listening(line, &lower, found))
        .or_else(|| dev_tcp(line, found))
        .or_else(|| shell_socket(line, found))
        .or_else(|| connect(line, &lower, found))
        .or_else(|| pool(line, &lower, found))
        .or_else(|| found.and_then(|found| plain(line, found)))?;
    let first = line.split([':', ' ']).next().unwrap_or_default();
    let named = !first.is_empty() && first.len() < 16 && first.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let glued = first.trim_start_matches(|c: char| c.is_ascii_digit());
    mention.program = if named && !matches!(first, "error" | "fatal" | "warning") {
        Some(first.to_owned())
    } else {
        lower.contains("curl: (").then(|| "curl".to_owned()).or_else(|| (glued == "curl").then(|| glued.to_owned()))
    };
    mention.warning = lower.starts_with("warning");
    Some(mention)
}

fn word(text: &str) -> Option<&str> {
    let word = text.trim_start().split([' ', ',', ';', '(', ')', '|']).next()?;
    let word =
        word.trim_matches(['\'', '"', '`', '‘', '’', '“', '”', '<', '>']).trim_end_matches([':', '.', '\'', '"']);
    (!word.is_empty()).then_some(word)
}

fn host_mention(verb: Verb, text: &str, cause: Option<Cause>) -> Option<Mention> {
    let (host, port) = split_host_port(text);
    // A look-up has no port; one that stands beside the name is the service's that was wanted next.
    let port = port.filter(|_| verb != Verb::Resolve);
    is_host(&host).then(|| Mention::new(verb, Subject::Host { host, port }, cause))
}

fn lookup(line: &str, lower: &str) -> Option<Mention> {
    if let Some((_, rest)) = find_after(line, lower, "lookup ")
        && (lower.contains("dial ") || lower.contains(" on ") || lower.contains("no such host"))
    {
        return host_mention(Verb::Resolve, word(rest)?, Some(Cause::Lookup));
    }
    if let Some((_, rest)) = find_after(line, lower, "resolving ")
        && lower.contains("failed: ")
    {
        return host_mention(Verb::Resolve, word(rest)?, Some(Cause::Lookup));
    }
    LOOKUPS.iter().find_map(|words| {
        let (_, rest) = find_after(line, lower, words)?;
        host_mention(Verb::Resolve, word(rest)?, Some(Cause::Lookup))
    })
}

fn find_after<'a>(line: &'a str, lower: &str, words: &str) -> Option<(&'a str, &'a str)> {
    let at = lower.rfind(words)?;
    Some((line.get(..at)?, line.get(at + words.len()..)?))
}

/// Go: `dial tcp 1.2.3.4:80: connect: network is unreachable`.
fn dial(line: &str, lower: &str, found: Option<Found>) -> Option<Mention> {
    let (_, rest) = ["dial tcp ", "dial udp ", "dial tcp4 ", "dial tcp6 "]
        .iter()
        .find_map(|words| find_after(line, lower, words))?;
    let peer = rest.split(": ").next()?.split("->").last()?;
    host_mention(Verb::Connect, peer, Some(network_cause(found?.cause)?))
}

/// Node: `listen EPERM: operation not permitted 127.0.0.1:80`; Go: `listen tcp 127.0.0.1:80: bind: permission denied`.
fn listening(line: &str, lower: &str, found: Option<Found>) -> Option<Mention> {
    let found = found?;
    let go = ["listen tcp ", "listen udp ", "listen tcp4 ", "listen tcp6 "];
    let address = match go.iter().find_map(|words| find_after(line, lower, words)) {
        Some((_, rest)) => rest.split(": ").next()?,
        None => {
            let (_, code) = find_after(line, lower, "listen e")?;
            code.contains(": ").then(|| word(&line[found.end..]))??
        }
    };
    host_mention(Verb::Bind, address, Some(network_cause(found.cause)?))
}

/// Bash: `bash: line 1: /dev/tcp/1.1.1.1/80: Network is unreachable`, and `bash: connect: ...` without an object.
fn dev_tcp(line: &str, found: Option<Found>) -> Option<Mention> {
    let (_, rest) = line.split_once(": /dev/tcp/").or_else(|| line.split_once(": /dev/udp/"))?;
    let (host, rest) = rest.split_once('/')?;
    let port = rest.split(':').next()?;
    let cause = found.map(|found| found.cause);
    // Bash reports a name it cannot look up as an invalid argument or a missing file after the resolver's own line.
    host_mention(Verb::Connect, &format!("{host}:{port}"), cause.filter(|cause| *cause != Cause::Missing))
}

/// Bash before it names the peer: `bash: socket: Operation not permitted`, `bash: connect: Network is unreachable`.
fn shell_socket(line: &str, found: Option<Found>) -> Option<Mention> {
    let (program, rest) = line.split_once(": ")?;
    let call = ["socket: ", "connect: "].iter().any(|call| rest.starts_with(call));
    let cause = network_cause(found?.cause)?;
    (call && matches!(program, "bash" | "sh")).then(|| Mention::new(Verb::Connect, Subject::InCommand, Some(cause)))
}

fn network_cause(cause: Cause) -> Option<Cause> {
    matches!(
        cause,
        Cause::NetUnreachable
            | Cause::HostUnreachable
            | Cause::Refused
            | Cause::Family
            | Cause::AddressUnavailable
            | Cause::Access
            | Cause::Perm
            | Cause::Lookup
    )
    .then_some(cause)
}

fn connect(line: &str, lower: &str, found: Option<Found>) -> Option<Mention> {
    let (_, rest) = CONNECTS.iter().find_map(|words| find_after(line, lower, words))?;
    let reason = found.and_then(|found| network_cause(found.cause));
    // curl has its own words for a refused connection, with and without the errno.
    let curl = lower.ends_with("couldn't connect to server") || lower.ends_with("could not connect to server");
    // ssh says why on the line before when there was no socket to be had.
    let ssh = lower.starts_with("ssh: connect to host ") && lower.ends_with(": failure");
    if reason.is_none() && !curl && !ssh {
        let coded = ["econnrefused", "enetunreach", "ehostunreach", "eacces", "eperm"];
        let code = coded.iter().find(|code| lower.contains(&format!("connect {code} ")))?;
        return host_mention(Verb::Connect, word(rest)?, Cause::from_errno(&code.to_ascii_uppercase()));
    }
    let peer = word(rest)?;
    // curl's own words hide the errno.
    let cause = reason;
    let verb = if cause == Some(Cause::Lookup) { Verb::Resolve } else { Verb::Connect };
    let mut mention = host_mention(verb, peer, cause)?;
    if let Subject::Host { port, .. } = &mut mention.subject
        && port.is_none()
    {
        *port = lower.split(" port ").nth(1).and_then(word).and_then(|port| port.parse().ok());
        // wget: `Connecting to host (host)|1.2.3.4|:80... failed: ...`
        *port = port.or_else(|| rest.split("|:").nth(1)?.split('.').next()?.parse().ok());
    }
    Some(mention)
}

/// Python's urllib3: `HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded ... [Errno -3] ...`.
fn pool(line: &str, lower: &str, found: Option<Found>) -> Option<Mention> {
    let cause = found.and_then(|found| network_cause(found.cause))?;
    let verb = if cause == Cause::Lookup { Verb::Resolve } else { Verb::Connect };
    if let Some((_, rest)) = find_after(line, lower, "host='") {
        let (host, rest) = rest.split_once('\'')?;
        let port = rest.strip_prefix(", port=").and_then(word);
        return host_mention(verb, &port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")), Some(cause));
    }
    // pip names no host in its retries; its index is the default unless the command says otherwise.
    lower.contains("newconnectionerror").then(|| {
        let mut mention = Mention::new(verb, Subject::InCommand, Some(cause));
        mention.call = lower.contains("pip._vendor").then(|| "pip".to_owned());
        mention
    })
}

/// `program: host: reason`, and messages that name no peer at all (`socket.gaierror: [Errno -3] ...`).
fn plain(line: &str, found: Found) -> Option<Mention> {
    // The two words for a refused right are said of files too, unless the speaker only ever opens connections.
    let network_only = line.contains("urlopen error");
    let of_files = |cause: &Cause| matches!(cause, Cause::Access | Cause::Perm) && !network_only;
    let cause = network_cause(found.cause).filter(|cause| !of_files(cause))?;
    let tail = line[found.end..].trim_matches(['.', ' ', ')', '>', '"', '\'', ']', ';', ',', '}']);
    let head = line[..found.start].trim_end().trim_end_matches([':', '(', '-', ',']).trim_end();
    if !(tail.is_empty() || tail.starts_with("(os error ") || tail.starts_with("at "))
        || head.is_empty() && line.starts_with(' ')
    {
        return None;
    }
    let verb = if cause == Cause::Lookup { Verb::Resolve } else { Verb::Connect };
    let last = head.rsplit(": ").next().unwrap_or(head);
    let name = quoted_names(last).into_iter().next_back().map(|quoted| quoted.name);
    let candidate = name.unwrap_or_else(|| last.to_owned());
    let named = candidate.contains('.') || candidate.parse::<std::net::IpAddr>().is_ok() || candidate == "localhost";
    let exception = candidate.ends_with("Exception") || candidate.contains("Error") || candidate == "socket.gaierror";
    if head.contains(": ") && named && !exception {
        return host_mention(verb, &candidate, Some(cause));
    }
    Some(Mention::new(verb, Subject::InCommand, Some(cause)))
}
