//! The credentials of one sandbox's proxy: without them another sandbox, or another user of the host, cannot use it.

use std::fmt;

use base64::Engine as _;
use subtle::ConstantTimeEq as _;

/// The user name that goes with every token.
const USER: &str = "stockade";

/// 128 random bits, as 32 hexadecimal digits. Shown to the sandbox only.
#[derive(Clone)]
pub struct Token(String);

/// The kernel gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no random bytes for the proxy's token; getrandom(2) must work here")]
pub struct TokenError(#[source] getrandom::Error);

impl Token {
    /// A fresh token from the kernel's random source.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(TokenError)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// `user:password`, as a URL and Basic authentication have it. No character of it needs escaping.
    #[must_use]
    pub fn credentials(&self) -> String {
        format!("{USER}:{}", self.0)
    }

    /// Compares without telling by its duration where the first difference is.
    pub(super) fn accepts(&self, user: &[u8], password: &[u8]) -> bool {
        bool::from(user.ct_eq(USER.as_bytes()) & password.ct_eq(self.0.as_bytes()))
    }

    /// The value of a `Proxy-Authorization` header.
    pub(super) fn accepts_basic(&self, value: &[u8]) -> bool {
        let Some((scheme, encoded)) = value.split_at_checked(6) else { return false };
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return false;
        }
        let Ok(decoded) = base64::engine::general_purpose::STANDARD.decode(encoded.trim_ascii()) else { return false };
        match decoded.iter().position(|&byte| byte == b':') {
            Some(colon) => self.accepts(&decoded[..colon], &decoded[colon + 1..]),
            None => false,
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_credentials_pass() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(token.0.len(), 32);
        assert_ne!(token.0, other.0);
        assert!(!format!("{token:?}").contains(&token.0));
        let basic = |text: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text));
        assert!(token.accepts_basic(basic(&token.credentials()).as_bytes()));
        assert!(token.accepts_basic(basic(&token.credentials()).replace("Basic", "bASIC").as_bytes()));
        for bad in [&other.credentials(), "stockade:", "stockade", "", ":", &token.0, &format!("x:{}", token.0)] {
            assert!(!token.accepts_basic(basic(bad).as_bytes()), "{bad}");
        }
        for bad in ["", "Basic", "Basic ", "Basic !!!", "Bearer abc"] {
            assert!(!token.accepts_basic(bad.as_bytes()), "{bad}");
        }
        assert!(!token.accepts(USER.as_bytes(), &token.0.as_bytes()[..31]));
    }
}
