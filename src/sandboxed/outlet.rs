//! The one way out of a sandbox with an allowlisted network.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::denial::Observation;
use crate::environment::Variables;
use crate::executor::ExecError;
use crate::network::proxy::{Proxy, ProxyHandle, SystemResolver, Token, environment_for};
use crate::network::rules::{Host, RuleSet};
use crate::policy::{EffectivePolicy, NetworkMode};

/// An outlet before and after its socket has come out of the sandbox.
pub(super) struct Outlet {
    rules: Arc<RuleSet>,
    token: Token,
    address: SocketAddr,
    proxy: Option<ProxyHandle>,
}

impl Outlet {
    /// The outlet that a policy asks for; `None` when its network is not an allowlist.
    pub(super) fn of(policy: &EffectivePolicy, port: u16) -> Result<Option<Self>, ExecError> {
        if policy.network.mode != NetworkMode::Allowlist {
            return Ok(None);
        }
        let rules =
            RuleSet::from_policy(&policy.network).map_err(|error| ExecError::Policy { reason: error.to_string() })?;
        let token = Token::random()
            .map_err(|error| ExecError::SandboxUnavailable { reason: format!("no random numbers: {error}") })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Some(Self { rules: Arc::new(rules), token, address, proxy: None }))
    }

    /// What leads clients to it. A loopback host that a rule names means the host's, not the sandbox's own: it goes
    /// through the proxy, or the entry that let it through would change nothing.
    pub(super) fn environment(&self) -> Variables {
        let mut variables = environment_for(self.address, &self.token);
        for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
            if let Some(direct) = variables.get_mut(name) {
                let kept: Vec<&str> = direct.split(',').filter(|host| !self.names(host)).collect();
                *direct = kept.join(",");
            }
        }
        variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Whether a rule lets this host through on some port.
    fn names(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        Host::parse(bare).is_ok_and(|host| self.rules.allows_some_port(&host))
    }

    /// Serves the socket that was opened inside.
    pub(super) fn open(&mut self, socket: OwnedFd) -> std::io::Result<()> {
        let resolver = Arc::new(SystemResolver::default());
        let proxy = Proxy::start(socket, Arc::clone(&self.rules), self.token.clone(), resolver);
        self.proxy = Some(proxy.map_err(std::io::Error::other)?);
        Ok(())
    }

    /// Closes it and tells what it refused, and how many refusals found no place in the list.
    pub(super) async fn close(self) -> (Vec<Observation>, u64) {
        let Some(proxy) = self.proxy else { return (Vec::new(), 0) };
        if !proxy.shutdown().await {
            tracing::warn!("connections of a proxy were still closing after its limit");
        }
        let refusals = proxy.refusals();
        let seen = refusals.entries.iter().zip(0..).map(|(refusal, seq)| refusal.observation(seq));
        (seen.collect(), refusals.not_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(allow: &[&str]) -> String {
        let outlet = Outlet {
            rules: Arc::new(RuleSet::new(allow, &[]).unwrap()),
            token: Token::random().unwrap(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            proxy: None,
        };
        let environment = outlet.environment();
        let lists = ["NO_PROXY", "no_proxy", "npm_config_noproxy"].map(|name| &environment[std::ffi::OsStr::new(name)]);
        assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
        lists[0].to_str().unwrap().to_owned()
    }

    #[test]
    fn only_a_rule_that_names_a_loopback_host_leads_it_through_the_proxy() {
        assert_eq!(direct(&[]), "localhost,127.0.0.1,::1,[::1]");
        assert_eq!(direct(&["0.0.0.0/0", "example.com", "127.0.0.2"]), "localhost,127.0.0.1,::1,[::1]");
        assert_eq!(direct(&["127.0.0.1:5432"]), "localhost,::1,[::1]");
        assert_eq!(direct(&["[::1]:5432", "localhost"]), "127.0.0.1");
    }
}
