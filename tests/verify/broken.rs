//! Sandboxes that are broken on purpose: each promise that is tried must be able to be found broken.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use stockade::executor::{CallPolicy, ExecError};
use stockade::launcher::LauncherPath;
use stockade::policy::{EffectivePolicy, HostPaths, NetworkMode, PathAccess, PolicyError, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, PolicySource};
use stockade::verify::{CellReport, Options, Outcome, Report, Status, verify};

use crate::alone;
use crate::cli::{Prompt, outcome};

/// What is wrong with the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing confines, whatever the mode.
    Nothing,
    /// Secrets are not masked.
    Masks,
    /// Nothing in the workspace is protected.
    Protection,
    /// The host's network is left.
    Network,
}

/// Policies with a fault.
struct Faulty {
    sound: LayeredPolicy,
    fault: Fault,
}

impl PolicySource for Faulty {
    fn standing(&self) -> CallPolicy {
        self.sound.standing()
    }

    fn effective(&self, call: &CallPolicy) -> Result<EffectivePolicy, ExecError> {
        let mut policy = match self.fault {
            Fault::Nothing => {
                let call = CallPolicy { mode: SandboxMode::DangerFullAccess, ..call.clone() };
                self.sound.effective(&call)?
            }
            _ => self.sound.effective(call)?,
        };
        match self.fault {
            Fault::Nothing => {}
            Fault::Masks => policy.rules.retain(|rule| rule.access != PathAccess::DenyRead),
            Fault::Protection => policy.rules.retain(|rule| rule.access != PathAccess::DenyWrite),
            Fault::Network => policy.network.mode = NetworkMode::Full,
        }
        Ok(policy)
    }
}

fn verified(fault: Fault) -> Report {
    let program = PathBuf::from(std::env::var_os("VERIFY_PROGRAM").expect("run by the other tests"));
    let beneath = PathBuf::from(std::env::var_os("VERIFY_BENEATH").expect("run by the other tests"));
    let maker = move |mode: SandboxMode,
                      workspace: PathBuf,
                      home: PathBuf|
          -> Result<Arc<dyn PolicySource>, PolicyError> {
        let host =
            HostPaths { home: "/nonexistent".into(), account_home: Some(home), tmp: "/tmp".into(), cwd: "/".into() };
        let sound = LayeredPolicy::new(PolicyRequest::new(mode, workspace), host)?;
        Ok(Arc::new(Faulty { sound, fault }))
    };
    let mut options = Options::new(Arc::new(maker));
    options.launcher = LauncherPath::Exact(program.clone());
    options.program = Some(program);
    options.beneath = Some(beneath);
    if fault == Fault::Nothing {
        options.environment.pass.insert("AWS_SECRET_ACCESS_KEY".into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(verify(&options, |_| {})).unwrap()
}

fn broken(report: &Report) -> BTreeSet<&str> {
    let cells = report.cells.iter();
    let such = cells.filter(|cell| cell.results.iter().any(|result| result.status == Status::Broken));
    such.map(|cell| cell.id.as_str()).collect()
}

/// Where nothing confines, every refusal that is promised and whose control lands is found missing: no cell is one that
/// cannot fail.
fn with_nothing_every_promise_is_broken() {
    let report = verified(Fault::Nothing);
    assert!(!report.kept);
    let unshaken = |cell: &&CellReport| {
        // The executor ends what a command leaves under every mode, so that one is not a matter of policies.
        if cell.id == "outlive-the-command-as-a-daemon" {
            return false;
        }
        let landed = cell.control.outcome == Outcome::Lands;
        let promised = cell.results.iter().filter(|result| result.expected != Outcome::Lands);
        landed && promised.clone().any(|result| !matches!(result.status, Status::Broken | Status::NotPromised))
    };
    let kept: Vec<_> = report.cells.iter().filter(unshaken).map(|cell| (&cell.id, &cell.results)).collect();
    assert!(kept.is_empty(), "kept by nothing: {kept:#?}");
    assert!(broken(&report).len() > 150, "{}", broken(&report).len());
}

fn each_fault_breaks_what_it_is_about() {
    let masks = verified(Fault::Masks);
    for expected in ["read-a-file-in-ssh", "read-a-file-aws-credentials", "read-a-file-netrc"] {
        assert!(broken(&masks).contains(expected), "{:?}", broken(&masks));
    }
    assert!(!broken(&masks).iter().any(|id| id.contains("git")), "{:?}", broken(&masks));
    let protection = verified(Fault::Protection);
    for expected in ["create-a-file-in-git-hooks", "write-a-file-git-config", "write-a-file-in-vscode"] {
        assert!(broken(&protection).contains(expected), "{:?}", broken(&protection));
    }
    assert!(!broken(&protection).iter().any(|id| id.contains("ssh")), "{:?}", broken(&protection));
    let network = verified(Fault::Network);
    let open = network.cells.iter().find(|cell| cell.id.starts_with("connect-to-a-tcp-server")).unwrap();
    assert!(open.results.iter().all(|result| result.status == Status::NotPromised), "{open:?}");
    assert_eq!(broken(&network), BTreeSet::new());
}

#[test]
fn every_promise_can_be_found_broken() {
    let _alone = alone();
    for prompt in Prompt::all() {
        let mut command = prompt.command(prompt.test());
        command.args(["--ignored", "--exact", "--nocapture", "broken::broken_inside"]).env_remove("TMPDIR");
        command.env("VERIFY_PROGRAM", prompt.program()).env("VERIFY_BENEATH", prompt.work());
        let (code, out, err) = outcome(&mut command);
        assert_eq!(code, 0, "as {}: {out}{err}", prompt.user.name());
        assert!(out.contains("1 passed"), "{out}");
    }
}

/// Not a test of its own: run by the one above, as each user.
#[test]
#[ignore = "run by every_promise_can_be_found_broken, as each user"]
fn broken_inside() {
    with_nothing_every_promise_is_broken();
    each_fault_breaks_what_it_is_about();
}
