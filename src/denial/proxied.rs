//! The proxy's refusals as the command showed them.
//!
//! A client tells of a refused tunnel in words of its own and without the host; of a refused request it prints the
//! proxy's answer, which names it.
#![forbid(unsafe_code)]

use super::merge::{Accesses, Joined};
use super::{RunEvidence, Target, Witness};

/// How much of each stream is looked at, from its end.
const TAIL: usize = 64 << 10;

/// Marks the proxy's refusals that the output tells of.
pub(super) fn note_answers(evidence: &RunEvidence<'_>, accesses: &mut Accesses) {
    let mut unshown: Vec<&mut Joined> =
        accesses.iter_mut().filter(|joined| by_proxy(joined) && !joined.shown).collect();
    if unshown.is_empty() {
        return;
    }
    let text = [evidence.stderr, evidence.stdout].map(|stream| {
        let tail = &stream[stream.len().saturating_sub(TAIL)..];
        String::from_utf8_lossy(tail).into_owned()
    });
    for joined in &mut unshown {
        let answer = answer_of(joined);
        if answer.is_some_and(|answer| text.iter().any(|text| text.contains(&answer))) {
            show(joined);
        }
    }
    // Without a name, the last messages are about the last refusals: clients print as they go.
    let nameless = text.iter().flat_map(|text| text.lines()).filter(|line| tells_of_a_refused_tunnel(line)).count();
    for joined in unshown.into_iter().rev().filter(|joined| !joined.shown).take(nameless) {
        show(joined);
    }
}

fn by_proxy(joined: &Joined) -> bool {
    joined.witnesses.contains(&Witness::Proxy)
}

fn show(joined: &mut Joined) {
    joined.shown = true;
    joined.only_warned = false;
}

/// The beginning of the proxy's own answer.
fn answer_of(joined: &Joined) -> Option<String> {
    match &joined.best.target {
        Target::Net { host, port: Some(port) } if host.contains(':') => {
            Some(format!("stockade: denied {} [{host}]:{port}", joined.best.kind))
        }
        Target::Net { host, port: Some(port) } => Some(format!("stockade: denied {} {host}:{port}", joined.best.kind)),
        Target::Net { host, port: None } => Some(format!("stockade: denied {} {host}", joined.best.kind)),
        Target::None => Some(format!("stockade: denied {}:", joined.best.kind)),
        _ => None,
    }
}

/// curl, git and cargo: `CONNECT tunnel failed, response 403`; Python: `Tunnel connection failed: 403 Forbidden` and
/// `HTTP Error 403`; wget: `Proxy tunneling failed: Forbidden`; Node: `tunneling socket ... statusCode=403`; SOCKS
/// clients: `not allowed by ruleset`. Without the credentials the code is 407, `Proxy Authentication Required`; SOCKS
/// clients: `No authentication method was acceptable`, `User was rejected by the SOCKS5 server`.
fn tells_of_a_refused_tunnel(line: &str) -> bool {
    let line = line.to_lowercase();
    let codes = ["403", "forbidden", "407", "proxy authentication required"];
    let refused = codes.iter().any(|code| line.contains(code));
    // Only a proxy answers 407; 403 may be a server's own.
    let how = ["tunnel", "proxy", "http error", "connect", "response"].iter().any(|word| line.contains(word))
        || line.contains("error: 407");
    let socks = ["not allowed by ruleset", "no authentication method", "rejected by the socks"];
    line.len() <= 4096 && (refused && how || socks.iter().any(|words| line.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_words_for_a_refused_tunnel() {
        for line in [
            "curl: (56) CONNECT tunnel failed, response 403",
            "curl: (56) Received HTTP code 403 from proxy after CONNECT",
            "OSError: Tunnel connection failed: 403 Forbidden",
            "Proxy tunneling failed: ForbiddenUnable to establish SSL connection.",
            "urllib.error.HTTPError: HTTP Error 403: Forbidden",
            "curl: (56) CONNECT tunnel failed, response 407",
            "curl: (22) The requested URL returned error: 407",
            "curl: (97) User was rejected by the SOCKS5 server (1 1).",
            "OSError: Tunnel connection failed: 407 Proxy Authentication Required",
        ] {
            assert!(tells_of_a_refused_tunnel(line), "{line}");
        }
        assert!(!tells_of_a_refused_tunnel("test 403 passed"));
        assert!(!tells_of_a_refused_tunnel("curl: (22) The requested URL returned error: 404"));
    }
}
