//! Where the network half of a policy comes from: its mode, and each entry.

#![forbid(unsafe_code)]

use serde::Serialize;

use super::explain::render_origin;
use super::request::PolicyRequest;
use super::{EffectivePolicy, HostPaths, Origin, PolicyError, PolicyFile, error::Place, shipped};

/// One network entry, for people and for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedHost {
    /// It lets through; otherwise it refuses.
    pub allow: bool,
    /// As it was written.
    pub entry: String,
    /// Where it comes from, in parentheses.
    pub origin: String,
}

/// The network half, with origins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedNetwork {
    /// Where the mode comes from, in parentheses.
    pub mode_origin: String,
    /// Every entry in force.
    pub entries: Vec<ExplainedHost>,
}

/// Finds the origin of the network mode and of every entry of `policy`, which `request` resolved to.
///
/// # Errors
/// When a policy file cannot be read any more.
pub fn explain_network(
    request: &PolicyRequest,
    host: &HostPaths,
    policy: &EffectivePolicy,
) -> Result<ExplainedNetwork, PolicyError> {
    let files = layers(request, host, policy)?;
    let entry = |allow: bool, entry: &String| ExplainedHost {
        allow,
        entry: entry.clone(),
        origin: render_origin(&origin_of(request, &files, allow, entry)),
    };
    let network = &policy.network;
    let entries = network.allow.iter().map(|e| entry(true, e)).chain(network.deny.iter().map(|e| entry(false, e)));
    Ok(ExplainedNetwork { mode_origin: mode_origin(request, &files), entries: entries.collect() })
}

/// Policy files, lowest first, the shipped ones included.
fn layers(request: &PolicyRequest, host: &HostPaths, policy: &EffectivePolicy) -> Result<Vec<PolicyFile>, PolicyError> {
    let shipped = ["confined", policy.mode.as_str()].into_iter().filter_map(shipped::named);
    let mut files: Vec<PolicyFile> = shipped.filter_map(|file| file.as_ref().ok().copied()).cloned().collect();
    files.extend(request.files(host)?);
    Ok(files)
}

fn mode_origin(request: &PolicyRequest, files: &[PolicyFile]) -> String {
    if !request.grant.network.is_empty() {
        return render_origin(&Origin::Grant);
    }
    if request.network.is_some() {
        return "(--network)".to_owned();
    }
    if !request.allow_hosts.is_empty() {
        return "(--allow-host)".to_owned();
    }
    let named = files.iter().rev().find_map(|file| {
        let place = file.network_mode.as_ref().map(|mode| &mode.place);
        place.or(file.allow.first().map(|entry| &entry.place)).map(|place| origin(file, place))
    });
    named.map_or_else(|| "(default of the mode)".to_owned(), |origin| render_origin(&origin))
}

fn origin_of(request: &PolicyRequest, files: &[PolicyFile], allow: bool, entry: &String) -> Origin {
    if allow && request.grant.network.contains(entry) {
        return Origin::Grant;
    }
    if allow && request.allow_hosts.contains(entry) {
        return Origin::CommandLine { option: "--allow-host".to_owned() };
    }
    let written = files.iter().rev().find_map(|file| {
        let list = if allow { &file.allow } else { &file.deny };
        list.iter().find(|placed| placed.value == *entry).map(|placed| origin(file, &placed.place))
    });
    // Every entry comes from one of these; were one to come from elsewhere, the policy itself is named.
    written.unwrap_or_else(|| Origin::Discovered { what: "the policy".to_owned() })
}

fn origin(file: &PolicyFile, place: &Place) -> Origin {
    match file.shipped {
        Some(name) => Origin::Default { policy: name.to_owned(), line: place.line },
        None => Origin::File { path: place.file.clone(), line: place.line },
    }
}
