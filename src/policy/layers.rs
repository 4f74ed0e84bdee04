//! Every layer of a request as one list of entries: variables filled in, nothing resolved yet.

#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};

use super::canon::tidy;
use super::error::{Origination, Place, PolicyError};
use super::file::{FileLimits, Placed, host_text, network_name};
use super::protect::Protection;
use super::variable::{self, Variables};
use super::{
    CliRule, HostPaths, Limits, NetworkMode, NetworkPolicy, Origin, PathAccess, PolicyFile, PolicyRequest, SandboxMode,
    SyscallRule, shipped,
};

/// Directories that are private to the session in the confining modes.
pub(super) const PRIVATE: [&str; 2] = ["/tmp", "/dev/shm"];

/// Precedence at one path. Files come between, in the order given.
pub(super) const RANK_DEFAULT: usize = 0;
pub(super) const RANK_DISCOVERED: usize = 1;
const RANK_FILE: usize = 2;
pub(super) const RANK_OPTION: usize = usize::MAX - 1;
pub(super) const RANK_GRANT: usize = usize::MAX;

/// One path entry of any layer.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Absolute; links and `..` still in it.
    pub(super) path: PathBuf,
    pub(super) access: PathAccess,
    pub(super) optional: bool,
    pub(super) origin: Origin,
    pub(super) place: Origination,
    pub(super) reason: Option<String>,
    pub(super) rank: usize,
}

/// The layers merged as far as that needs no look at the host.
pub(super) struct Layers {
    pub(super) mode: SandboxMode,
    pub(super) entries: Vec<Entry>,
    pub(super) protection: Protection,
    pub(super) network: NetworkPolicy,
    pub(super) limits: Limits,
    pub(super) seccomp: Vec<SyscallRule>,
    pub(super) notes: Vec<String>,
    /// Policy files on disk, which a command must not be able to change.
    pub(super) files: Vec<PathBuf>,
}

/// One file of the stack, and whether what it opens counts.
struct Layer<'a> {
    file: &'a PolicyFile,
    rank: usize,
    opens: bool,
}

/// Merges the layers. `workspace` is resolved already.
pub(super) fn merge(request: &PolicyRequest, host: &HostPaths, workspace: &Path) -> Result<Layers, PolicyError> {
    let files = request.files(host)?;
    let named = files.iter().rev().find_map(|file| file.mode);
    let mode = request.mode.or(named).unwrap_or(SandboxMode::ReadOnly);
    let base = shipped::base(mode).map_err(|error| PolicyError::Conflict {
        problem: error.to_string(),
        remedy: "this build's shipped policy is broken: reinstall stockade".into(),
    })?;
    let own = files.iter().filter(|file| !file.shipped.is_some_and(shipped::is_base));
    let mut notes = Vec::new();
    let mut stack: Vec<Layer<'_>> =
        base.into_iter().map(|file| Layer { file, rank: RANK_DEFAULT, opens: true }).collect();
    for (at, file) in own.enumerate() {
        let opens = file.mode.is_none_or(|wrote| wrote <= mode);
        if !opens {
            notes.push(format!(
                "mode {mode} is narrower than the mode of {}: what that file opens was left out",
                file.path.display()
            ));
        }
        stack.push(Layer { file, rank: RANK_FILE + at, opens });
    }
    let mut layers = Layers {
        mode,
        entries: Vec::new(),
        protection: Protection::default(),
        network: network(request, mode, &stack)?,
        limits: Limits::default(),
        seccomp: Vec::new(),
        notes,
        files: files.iter().filter(|file| file.shipped.is_none()).map(|file| host.cwd.join(&file.path)).collect(),
    };
    if !mode.confines() {
        nothing_to_enforce(request, &stack, &mut layers.notes)?;
        return Ok(layers);
    }
    let private = stack.iter().rev().find_map(|layer| layer.file.private_tmp.as_ref().map(|set| (layer, set)));
    if let Some((layer, Placed { value: true, place })) = private {
        private_entries(layer, place, workspace, &mut layers);
    }
    let private = private.is_some_and(|(_, set)| set.value);
    let variables = Variables { workspace, home: &host.home, tmp: &host.tmp };
    for layer in &stack {
        file_entries(layer, &variables, host, private, &mut layers.entries)?;
        layers.protection.add(&layer.file.protect);
        set_limits(&mut layers.limits, &layer.file.limits);
        layers.seccomp.extend(layer.file.seccomp.iter().cloned());
    }
    option_entries(request, host, &mut layers.entries)?;
    Ok(layers)
}

fn origin(layer: &Layer<'_>, place: &Place) -> Origin {
    match layer.file.shipped {
        Some(policy) => Origin::Default { policy: policy.to_owned(), line: place.line },
        None => Origin::File { path: place.file.clone(), line: place.line },
    }
}

fn private_entries(layer: &Layer<'_>, place: &Place, workspace: &Path, layers: &mut Layers) {
    for path in PRIVATE {
        if workspace == Path::new(path) {
            layers.notes.push(format!("{path} is the workspace, so it is not private to the session"));
            continue;
        }
        layers.entries.push(Entry {
            path: path.into(),
            access: PathAccess::Private,
            optional: false,
            origin: origin(layer, place),
            place: Origination::File(place.clone()),
            reason: Some("private to the session, empty at its start".into()),
            rank: layer.rank,
        });
    }
}

fn file_entries(
    layer: &Layer<'_>,
    variables: &Variables<'_>,
    host: &HostPaths,
    private: bool,
    entries: &mut Vec<Entry>,
) -> Result<(), PolicyError> {
    for rule in &layer.file.rules {
        let opening = matches!(rule.access, PathAccess::Write | PathAccess::Read);
        if opening && !layer.opens {
            continue;
        }
        let path = tidy(&variable::expand(&rule.text, &rule.place, variables)?);
        let in_private = private && PRIVATE.iter().any(|private| path.starts_with(private));
        if opening && in_private && variable::begins_with_tmp(&rule.text) {
            // ${TMP} is the session's own directory, writable as it is; a rule would give the host's back.
            continue;
        }
        let entry = |path| Entry {
            path,
            access: rule.access,
            optional: rule.optional,
            origin: origin(layer, &rule.place),
            place: Origination::File(rule.place.clone()),
            reason: rule.reason.clone(),
            rank: layer.rank,
        };
        if let Some(home) = &host.account_home
            && layer.rank == RANK_DEFAULT
            && variable::begins_with_home(&rule.text)
        {
            let second = Variables { home, ..*variables };
            entries.push(entry(tidy(&variable::expand(&rule.text, &rule.place, &second)?)));
        }
        entries.push(entry(path));
    }
    Ok(())
}

fn option_entries(request: &PolicyRequest, host: &HostPaths, entries: &mut Vec<Entry>) -> Result<(), PolicyError> {
    for (rule, given) in &request.cli {
        let place = Origination::Option(rule.option().to_owned());
        usable(given, &place)?;
        entries.push(Entry {
            path: tidy(&host.cwd.join(given)),
            access: rule.access(),
            optional: false,
            origin: Origin::CommandLine { option: rule.option().to_owned() },
            place,
            reason: None,
            rank: RANK_OPTION,
        });
    }
    let grants = [(PathAccess::Read, &request.grant.read), (PathAccess::Write, &request.grant.write)];
    for (access, path) in grants.into_iter().flat_map(|(access, paths)| paths.iter().map(move |path| (access, path))) {
        usable(path, &Origination::Grant)?;
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(PolicyError::BadPath {
                place: Origination::Grant,
                path: path.clone(),
                reason: "a permission names an absolute path without '..'".into(),
            });
        }
        entries.push(Entry {
            path: tidy(path),
            access,
            // What is granted is often a file yet to be created.
            optional: true,
            origin: Origin::Grant,
            place: Origination::Grant,
            reason: None,
            rank: RANK_GRANT,
        });
    }
    Ok(())
}

fn usable(path: &Path, place: &Origination) -> Result<(), PolicyError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let reason = if bytes.is_empty() {
        "it is empty: name a path"
    } else if bytes.contains(&0) {
        "it contains a NUL byte: remove it"
    } else {
        return Ok(());
    };
    Err(PolicyError::BadPath { place: place.clone(), path: path.to_owned(), reason: reason.into() })
}

fn set_limits(limits: &mut Limits, layer: &FileLimits) {
    for (limit, set) in [
        (&mut limits.processes, layer.processes),
        (&mut limits.memory, layer.memory),
        (&mut limits.tmp_size, layer.tmp_size),
        (&mut limits.open_files, layer.open_files),
        (&mut limits.file_size, layer.file_size),
    ] {
        if let Some(set) = set {
            *limit = set.value();
        }
    }
}

/// Files, then options, then the grant. An empty list never means "everything".
fn network(request: &PolicyRequest, mode: SandboxMode, stack: &[Layer<'_>]) -> Result<NetworkPolicy, PolicyError> {
    let mut network = NetworkPolicy::default();
    for layer in stack {
        let file = layer.file;
        let wanted = file.network_mode.as_ref().map(|m| m.value);
        network.deny.extend(file.deny.iter().map(|entry| entry.value.clone()));
        if !layer.opens {
            continue;
        }
        if let Some(wanted) = wanted.or((!file.allow.is_empty()).then_some(NetworkMode::Allowlist)) {
            network.mode = wanted;
        }
        network.allow.extend(file.allow.iter().map(|entry| entry.value.clone()));
    }
    for host in request.allow_hosts.iter().chain(&request.grant.network) {
        host_text(host).map_err(|problem| PolicyError::Conflict {
            problem,
            remedy: "write HOST, HOST:PORT, *.HOST, an address or a CIDR range".into(),
        })?;
    }
    if let Some(asked @ (NetworkMode::Off | NetworkMode::Full)) = request.network
        && !request.allow_hosts.is_empty()
    {
        return Err(PolicyError::Conflict {
            problem: format!("--network {} would ignore --allow-host", network_name(asked)),
            remedy: "use --network allowlist, or leave one of them out".into(),
        });
    }
    if let Some(asked) = request.network.or((!request.allow_hosts.is_empty()).then_some(NetworkMode::Allowlist)) {
        network.mode = asked;
    }
    network.allow.extend(request.allow_hosts.iter().cloned());
    if network.mode == NetworkMode::Off {
        // Options closed it, so what files let through is closed with it; a grant comes after and opens its own hosts.
        network.allow.clear();
    }
    if !request.grant.network.is_empty() && network.mode != NetworkMode::Full {
        network.mode = NetworkMode::Allowlist;
        network.allow.extend(request.grant.network.iter().cloned());
    }
    if network.mode == NetworkMode::Full && !network.deny.is_empty() && mode.confines() {
        return Err(PolicyError::Conflict {
            problem: format!("network mode 'full' cannot refuse '{}'", network.deny[0]),
            remedy: "use the mode 'allowlist', or remove the deny entries".into(),
        });
    }
    Ok(network)
}

/// Without confinement a refusal would be accepted and ignored: an option that asks for one is an error, and so is a file
/// written for this mode; a file written for another mode is reported.
fn nothing_to_enforce(
    request: &PolicyRequest,
    stack: &[Layer<'_>],
    notes: &mut Vec<String>,
) -> Result<(), PolicyError> {
    let deny = request.cli.iter().find(|(rule, _)| *rule != CliRule::Write).map(|(rule, _)| rule.option());
    let network = request.network.filter(|mode| *mode != NetworkMode::Full).map(|_| "--network");
    let hosts = (!request.allow_hosts.is_empty()).then_some("--allow-host");
    if let Some(option) = deny.or(network).or(hosts) {
        return Err(PolicyError::Conflict {
            problem: format!("danger-full-access confines nothing, so {option} could not be enforced"),
            remedy: "use workspace-write, or leave the option out".into(),
        });
    }
    for layer in stack.iter().filter(|layer| layer.rank != RANK_DEFAULT) {
        let file = layer.file;
        let refusing = file.rules.iter().any(|rule| !matches!(rule.access, PathAccess::Write | PathAccess::Read))
            || file.network_mode.as_ref().is_some_and(|mode| mode.value != NetworkMode::Full)
            || !(file.allow.is_empty() && file.deny.is_empty() && file.seccomp.is_empty())
            || file.limits != FileLimits::default();
        if refusing && file.mode == Some(SandboxMode::DangerFullAccess) {
            return Err(PolicyError::Conflict {
                problem: format!(
                    "{} refuses things in danger-full-access, which confines nothing",
                    file.path.display()
                ),
                remedy: "set its mode to workspace-write, or remove the entries".into(),
            });
        }
        if refusing {
            notes.push(format!("danger-full-access confines nothing: nothing of {} is enforced", file.path.display()));
        }
    }
    Ok(())
}
