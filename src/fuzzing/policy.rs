//! What is written by hand, or arrives with a repository: policy files, approval rules, git configuration.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::approval::ApprovalRules;
use crate::network::rules::RuleSet;
use crate::policy::{HostPaths, PolicyFile, PolicyRequest, SandboxMode, explain_path, explain_rules};

/// A file; the first byte chooses the mode that it is used under.
pub fn policy(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else { return };
    let mode = SandboxMode::ALL[usize::from(*mode) % SandboxMode::ALL.len()];
    let text = String::from_utf8_lossy(bytes);
    if let Ok(rules) = ApprovalRules::from_toml(&text) {
        assert_eq!(format!("{rules:?}"), format!("{:?}", ApprovalRules::from_toml(&text).unwrap()));
    }
    crate::policy::fuzz_git_config(&text);
    match PolicyFile::from_bytes(Path::new("/policy.toml"), bytes) {
        Ok(file) => effective(file, mode),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn effective(file: PolicyFile, mode: SandboxMode) {
    let (host, workspace) = host();
    let request = PolicyRequest::new(mode, workspace).parsed(file);
    let Ok(policy) = request.resolve(host) else { return };
    assert_eq!(policy.digest(), request.resolve(host).unwrap().digest(), "the same policy again");
    for rule in &policy.rules {
        assert!(rule.path.is_absolute(), "{rule:?}");
        assert_eq!(explain_path(&policy, &rule.path).path, rule.path);
    }
    assert!(policy.rules.is_sorted_by(|a, b| a.path <= b.path));
    assert!(explain_rules(&policy).len() >= policy.rules.len());
    // A name that no rule can hold stays readable, and is not writable unless everything is.
    if mode == SandboxMode::ReadOnly {
        let nowhere = policy.decide(Path::new("/"));
        assert!(!nowhere.writable || policy.rules.iter().any(|rule| rule.path == Path::new("/")), "{policy:?}");
    }
    if let Err(error) = RuleSet::from_policy(&policy.network) {
        assert!(!error.to_string().is_empty());
    }
}

/// A small place to apply policies to, made once and left to the system's own clearing of `/tmp`.
fn host() -> &'static (HostPaths, PathBuf) {
    static HOST: OnceLock<(HostPaths, PathBuf)> = OnceLock::new();
    HOST.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("stockade-fuzz-policy-{}", nix::unistd::geteuid()));
        let workspace = root.join("work");
        for directory in ["work/.git/hooks", "work/.vscode", "work/src", "home/.ssh"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["work/.env", "work/src/a.rs", "home/.bashrc"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        (HostPaths { home: root.join("home"), account_home: None, tmp: "/tmp".into(), cwd: root }, workspace)
    })
}
