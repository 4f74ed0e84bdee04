//! The network half of a policy.

use serde::{Deserialize, Serialize};

/// What the network mode is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// A private network with its own loopback and nothing else.
    #[default]
    Off,
    /// As off, and a proxy that lets named hosts through.
    Allowlist,
    /// The host's network.
    Full,
}

/// Network rules of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkPolicy {
    /// The mode.
    pub mode: NetworkMode,
    /// `host[:port]`, `*.host[:port]`, address or CIDR entries let through in `allowlist` mode.
    pub allow: Vec<String>,
    /// Entries refused even where an allow entry matches.
    pub deny: Vec<String>,
}
