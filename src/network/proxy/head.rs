//! The head of an HTTP request, read so strictly that no two readers can differ about it.

use super::RefusalReason;
use crate::network::rules::{Destination, HostError};

const MAX_HEADERS: usize = 100;

/// A request that may be looked at further.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where to.
    pub(super) destination: Destination,
    /// A tunnel, or a request to pass on.
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `CONNECT`.
    Tunnel,
    /// Any other method with a target in absolute form; its path and query.
    Forward(String),
}

/// A complete head: what stands in it, not yet judged.
pub(super) struct RawHead<'b> {
    method: &'b str,
    target: &'b str,
    http_1_1: bool,
    headers: Vec<(&'b str, &'b [u8])>,
    /// Bytes of the head; what follows is the body or the tunnel's first data.
    pub(super) length: usize,
}

/// Reads a head. `None` when it is not complete yet.
pub(super) fn read(bytes: &[u8]) -> Result<Option<RawHead<'_>>, RefusalReason> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
        Err(httparse::Error::TooManyHeaders) => return Err(RefusalReason::Malformed("it has too many headers")),
        Err(_) => return Err(RefusalReason::Malformed("it is not an HTTP/1 request")),
    };
    let head = &bytes[..length];
    if head.iter().enumerate().any(|(at, &byte)| byte == b'\n' && (at == 0 || head[at - 1] != b'\r')) {
        return Err(RefusalReason::Malformed("a line ends without a carriage return"));
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(RefusalReason::Malformed("it is not an HTTP/1 request"));
    };
    let headers = request.headers.iter().map(|header| (header.name, header.value)).collect();
    Ok(Some(RawHead { method, target, http_1_1: version == 1, headers, length }))
}

impl<'b> RawHead<'b> {
    /// The client's words for where it wants to go, for a record of what could not be understood.
    pub(super) fn target(&self) -> &'b str {
        self.target
    }

    /// The only `Proxy-Authorization`; several are as good as none.
    pub(super) fn credentials(&self) -> Option<&'b [u8]> {
        match self.all("proxy-authorization")[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Judges it.
    pub(super) fn judge(&self) -> Result<Head, RefusalReason> {
        let head = if self.method == "CONNECT" { self.tunnel()? } else { self.forward()? };
        self.check_host(&head)?;
        self.check_framing(&head.kind)?;
        Ok(head)
    }

    fn tunnel(&self) -> Result<Head, RefusalReason> {
        let destination = Destination::parse(self.target, None).map_err(RefusalReason::Target)?;
        Ok(Head { destination, kind: Kind::Tunnel })
    }

    fn forward(&self) -> Result<Head, RefusalReason> {
        let Some((scheme, rest)) = self.target.split_once("://") else {
            return Err(RefusalReason::Malformed("this is a proxy: write the whole URL in the request line"));
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(RefusalReason::Malformed("only http URLs are passed on: use CONNECT for anything else"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err(RefusalReason::Malformed("its URL has characters that do not belong there"));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let destination = Destination::parse(authority, Some(80)).map_err(RefusalReason::Target)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Head { destination, kind: Kind::Forward(path) })
    }

    /// `Host` must say what the request line says. For a tunnel some clients leave the port or all of it out.
    fn check_host(&self, head: &Head) -> Result<(), RefusalReason> {
        let default_port = match head.kind {
            Kind::Tunnel => head.destination.port,
            Kind::Forward(_) => 80,
        };
        match self.all("host")[..] {
            [] if head.kind == Kind::Tunnel || !self.http_1_1 => Ok(()),
            [] => Err(RefusalReason::Malformed("it has no Host header")),
            [value] => {
                let text = std::str::from_utf8(value).map_err(|_| RefusalReason::Target(HostError::Name))?;
                let named = Destination::parse(text, Some(default_port)).map_err(RefusalReason::Target)?;
                if named == head.destination {
                    Ok(())
                } else {
                    Err(RefusalReason::Malformed("its Host header names another host than its request line"))
                }
            }
            _ => Err(RefusalReason::Malformed("it has more than one Host header")),
        }
    }

    /// Where the body ends must be beyond doubt.
    fn check_framing(&self, kind: &Kind) -> Result<(), RefusalReason> {
        let (lengths, codings) = (self.all("content-length"), self.all("transfer-encoding"));
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(()),
            ([length], []) if length.is_empty() || !length.iter().all(u8::is_ascii_digit) => {
                Err(RefusalReason::Malformed("its Content-Length is not a number"))
            }
            ([b"0"], []) => Ok(()),
            _ if *kind == Kind::Tunnel => Err(RefusalReason::Malformed("a CONNECT request has no body")),
            ([_], []) => Ok(()),
            ([], [coding]) if self.http_1_1 && coding.eq_ignore_ascii_case(b"chunked") => Ok(()),
            ([], [_]) => Err(RefusalReason::Malformed("its Transfer-Encoding is not chunked")),
            ([], _) => Err(RefusalReason::Malformed("it has more than one Transfer-Encoding")),
            (_, []) => Err(RefusalReason::Malformed("it has more than one Content-Length")),
            _ => Err(RefusalReason::Malformed("it has both Content-Length and Transfer-Encoding")),
        }
    }

    fn all(&self, name: &str) -> Vec<&'b [u8]> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| *value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str) -> Result<Head, RefusalReason> {
        read(text.as_bytes())?.expect("complete").judge()
    }

    fn accepted(text: &str) -> (String, Kind) {
        let head = judge(text).unwrap_or_else(|reason| panic!("{text:?}: {reason}"));
        (head.destination.to_string(), head.kind)
    }

    #[test]
    fn ordinary_requests() {
        let tunnel = |to: &str| (to.to_owned(), Kind::Tunnel);
        let forward = |to: &str, path: &str| (to.to_owned(), Kind::Forward(path.to_owned()));
        assert_eq!(accepted("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:443\r\n\r\n"), tunnel("a.com:443"));
        assert_eq!(accepted("CONNECT A.com:443 HTTP/1.1\r\nhost: a.com\r\n\r\n"), tunnel("a.com:443"));
        assert_eq!(accepted("CONNECT [::1]:443 HTTP/1.0\r\n\r\n"), tunnel("[::1]:443"));
        assert_eq!(accepted("GET http://a.com/x?y HTTP/1.1\r\nHost: a.com\r\n\r\n"), forward("a.com:80", "/x?y"));
        assert_eq!(accepted("GET http://a.com:81 HTTP/1.1\r\nHost: A.com.:81\r\n\r\n"), forward("a.com:81", "/"));
        assert_eq!(accepted("GET HTTP://a.com?y HTTP/1.0\r\n\r\n"), forward("a.com:80", "/?y"));
        let post = "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\n";
        accepted(&format!("{post}Content-Length: 5\r\n\r\n"));
        accepted(&format!("{post}Transfer-Encoding: Chunked\r\n\r\n"));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let get = "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n";
        for bad in [
            &format!("{get}Host: a.com\r\n\r\n"),
            &format!("{get}hOST: evil.com\r\n\r\n"),
            "GET http://a.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com:81\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com, evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost : a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\tevil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\nHost: a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\n\r\n",
            "CONNECT a.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n",
            "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:22\r\n\r\n",
            "CONNECT a.com:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\n",
            "CONNECT a.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "CONNECT a.com HTTP/1.1\r\n\r\n",
            "CONNECT http://a.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT user@a.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT evil\0.a.com:443 HTTP/1.1\r\n\r\n",
            "GET http://user:pw@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://evil.com@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a.com\\@evil.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a%2ecom/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a.com/#x HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET ftp://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http:/// HTTP/1.1\r\nHost: a.com\r\n\r\n",
            &format!("{get}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            &format!("{get}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"),
            &format!("{get}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
            &format!("{get}Content-Length: 1, 1\r\n\r\n"),
            &format!("{get}Content-Length: +1\r\n\r\n"),
            &format!("{get}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
            &format!("{get}Transfer-Encoding: gzip, chunked\r\n\r\n"),
            &format!("{get}Transfer-Encoding: \x0bchunked\r\n\r\n"),
            "POST http://a.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            &format!("{get}{}\r\n", "X: y\r\n".repeat(200)),
        ] {
            assert!(judge(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn credentials_are_one_header() {
        let head = |text: &'static str| read(text.as_bytes()).unwrap().unwrap().credentials();
        assert_eq!(head("GET http://a/ HTTP/1.1\r\nproxy-authorization: Basic x\r\n\r\n"), Some(&b"Basic x"[..]));
        assert_eq!(head("GET http://a/ HTTP/1.1\r\nAuthorization: Basic x\r\n\r\n"), None);
        assert_eq!(head("GET http://a/ HTTP/1.1\r\nProxy-Authorization: a\r\nProxy-Authorization: b\r\n\r\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            if let Ok(Some(head)) = read(&bytes) {
                proptest::prop_assert!(head.length <= bytes.len());
                head.judge().ok();
            }
        }
    }
}
