//! Hosts and ports as text, and those a command line names.

/// `host:port`, `[v6]:port`, `host/port`, or a bare host.
pub(crate) fn split_host_port(text: &str) -> (String, Option<u16>) {
    let text = text.trim();
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host.to_owned(), rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    if text.matches(':').count() > 1 {
        // An IPv6 address without brackets, with Node's `::1:8080` port at the end when that leaves an address.
        if text.parse::<std::net::Ipv6Addr>().is_err()
            && let Some((host, port)) = text.rsplit_once(':')
            && host.parse::<std::net::Ipv6Addr>().is_ok()
        {
            return (host.to_owned(), port.parse().ok());
        }
        if let Some((host, port)) = text.rsplit_once(':')
            && host.parse::<std::net::Ipv6Addr>().is_ok()
            && port.len() == 4
            && port.parse::<u16>().is_ok()
            && text.starts_with("::1:")
        {
            return (host.to_owned(), port.parse().ok());
        }
        return (text.to_owned(), None);
    }
    match text.rsplit_once([':', '/']) {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host.to_owned(), port.parse().ok()),
        _ => (text.to_owned(), None),
    }
}

/// A name a resolver could be asked for, or an address.
pub(super) fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte))
        && host.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// The peers a command line names: URLs, `("host", port)` pairs, `/dev/tcp/host/port`, `host port` after the usual tools.
pub(crate) fn command_peers(command: &str) -> Vec<(String, Option<u16>)> {
    let mut peers: Vec<(String, Option<u16>)> = Vec::new();
    let mut add = |host: &str, port: Option<u16>| {
        let peer = (host.to_owned(), port);
        if is_host(host) && peers.len() < 8 && !peers.contains(&peer) {
            peers.push(peer);
        }
    };
    for (at, mark) in command.match_indices("://").take(8) {
        let scheme = command[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
        let authority =
            command[at + mark.len()..].split(['/', ' ', '"', '\'', ')', '?', ';', '`']).next().unwrap_or("");
        let (host, port) = split_host_port(authority.rsplit('@').next().unwrap_or(authority));
        let usual = match scheme {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            "git" => Some(9418),
            "ssh" => Some(22),
            "ftp" => Some(21),
            _ => None,
        };
        if scheme != "file" {
            add(&host, port.or(usual));
        }
    }
    let opened = ["(\"", "('", "(\\\""].into_iter().flat_map(|mark| command.match_indices(mark));
    for (at, mark) in opened.take(16) {
        let rest = &command[at + mark.len()..];
        let Some((host, rest)) = rest.split_once(['"', '\'']) else { continue };
        // Within double quotes of the shell's, each of them has a backslash before it.
        let host = host.trim_end_matches('\\');
        let Some(port) = rest.strip_prefix(',').map(str::trim_start) else { continue };
        let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
        if let Ok(port) = digits.parse() {
            add(host, Some(port));
        }
    }
    for (at, mark) in ["/dev/tcp/", "/dev/udp/"].into_iter().flat_map(|mark| command.match_indices(mark)).take(8) {
        let mut parts = command[at + mark.len()..].split(['/', ' ', ')', ';', '"', '\'', '\n', '&', '|', '<', '>']);
        if let (Some(host), Some(Ok(port))) = (parts.next(), parts.next().map(str::parse)) {
            add(host, Some(port));
        }
    }
    // `"host:port"` as one word in quotation marks.
    for quoted in command.split(['"', '\'']).skip(1).take(256) {
        let (host, port) = split_host_port(quoted);
        let numbered = host.contains('.') || host == "localhost" || host.parse::<std::net::Ipv6Addr>().is_ok();
        if numbered && port.is_some() && !quoted.contains('/') {
            add(&host, port);
        }
    }
    let words: Vec<&str> = command.split_whitespace().take(256).collect();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| word.rsplit('/').next() == Some("getent")) {
        if let [database, name, ..] = words[at + 1..]
            && (database.contains("hosts"))
        {
            add(name.trim_matches(['"', '\'', ';']), None);
        }
    }
    for (at, tool) in words.iter().enumerate() {
        let tool = tool.rsplit('/').next().unwrap_or(tool);
        if !matches!(tool, "ping" | "nc" | "ncat" | "telnet" | "curl" | "wget" | "nslookup" | "dig" | "host") {
            continue;
        }
        let mut arguments =
            words[at + 1..].iter().skip_while(|word| word.starts_with('-') || word.bytes().all(|b| b.is_ascii_digit()));
        if let Some(host) = arguments.next().filter(|host| !host.contains("://") && host.contains('.')) {
            let port = arguments.next().and_then(|port| port.parse().ok());
            let (host, own) = split_host_port(host.trim_matches(['"', '\'']));
            add(&host, own.or(port));
        }
    }
    peers
}
