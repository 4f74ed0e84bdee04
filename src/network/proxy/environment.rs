//! The variables by which clients find the proxy.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Token;

/// What never goes through the proxy: the sandbox's own loopback. Both spellings of `::1`, for clients compare with what
/// stands in the URL.
const NO_PROXY: &str = "localhost,127.0.0.1,::1,[::1]";

/// All variables, with their values, for a proxy at `address` as the sandbox sees it.
///
/// - The general names in both spellings. curl, and libraries after it, read `http_proxy` in lower case only.
/// - `ALL_PROXY` names the HTTP side: several Python clients fail at the very sight of a `socks5h://` there when their
///   SOCKS extra is not installed. Who wants SOCKS5 takes the same host, port, user and password.
/// - pip reads the general names. `PIP_PROXY` is left out: with it pip forgets `NO_PROXY`, and an index on the
///   sandbox's own loopback is out of reach.
/// - git, npm and cargo have settings files that win over the general names, but not over their own variables.
/// - node reads them when told to (24.0 and later, 22.21 and later). go reads the general names.
pub(super) fn variables(address: SocketAddr, token: &Token) -> BTreeMap<String, String> {
    let url = format!("http://{}@{address}", token.credentials());
    let mut variables = BTreeMap::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.insert(name.to_owned(), url.clone());
        variables.insert(name.to_lowercase(), url.clone());
    }
    for (name, value) in [
        ("NO_PROXY", NO_PROXY),
        ("no_proxy", NO_PROXY),
        ("npm_config_proxy", &url),
        ("npm_config_https_proxy", &url),
        ("npm_config_noproxy", NO_PROXY),
        ("CARGO_HTTP_PROXY", &url),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "http.proxy"),
        ("GIT_CONFIG_VALUE_0", &url),
        ("GIT_HTTP_PROXY_AUTHMETHOD", "basic"),
        ("NODE_USE_ENV_PROXY", "1"),
    ] {
        variables.insert(name.to_owned(), value.to_owned());
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_and_the_own_loopback() {
        let token = Token::random().unwrap();
        let variables = variables("127.0.0.1:3128".parse().unwrap(), &token);
        let url = format!("http://{}@127.0.0.1:3128", token.credentials());
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            assert_eq!(variables.get(name), Some(&url), "{name}");
        }
        for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
            let listed: Vec<_> = variables[name].split(',').collect();
            assert!(["localhost", "127.0.0.1", "::1"].iter().all(|host| listed.contains(host)), "{name}");
        }
    }
}
