//! The `allowlist` network mode: which hosts a command may reach, and the proxy that takes it there.
//!
//! - [`rules`] decides, as plain data and without any I/O: what an entry means, which entry wins, which addresses need
//!   to be named before a name may lead to them.
//! - [`proxy`] carries it out: HTTP and SOCKS5 on one listening socket that belongs to the sandbox's own network
//!   namespace, so that the proxy is the only way out and no relay runs inside.
//!
//! `docs/network.md` describes both for users.

pub mod proxy;
pub mod rules;
