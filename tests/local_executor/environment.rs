//! What reaches a command's environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Stdio;

use stockade::environment::EnvironmentPolicy;
use stockade::executor::{BashExecutor as _, CommandLine, ExecError, ExecRequest};
use stockade::local::{LocalConfig, LocalExecutor};

use crate::helper::{executor_with, run, shell};

fn vars(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

async fn seen(executor: &LocalExecutor, mut request: ExecRequest) -> BTreeMap<String, String> {
    request.command = CommandLine::Program(vec!["env".into(), "-0".into()]);
    let text = run(executor, request).await.unwrap().stdout.text;
    text.split_terminator('\0').map(|pair| pair.split_once('=').unwrap()).map(|(n, v)| (n.into(), v.into())).collect()
}

#[tokio::test]
async fn the_command_sees_what_the_policy_says_and_no_more() {
    let (_dir, executor) = executor_with(|config| {
        config.inherited = Some(vars(&[
            ("PATH", "/usr/bin:/bin"),
            ("LANG", "C"),
            ("TERM", "xterm-256color"),
            ("NPM_TOKEN", "hush"),
            ("GH_TOKEN", "wanted"),
            ("LD_PRELOAD", "/nowhere.so"),
            ("DSH_HOME", "/stale"),
            ("DSH_SESSION_ID", "stale"),
        ]));
        config.environment = EnvironmentPolicy {
            set: vars(&[("FROM_SET", "1")]),
            pass: ["GH_TOKEN".into()].into(),
            terminal_defaults: true,
        };
    });
    let mut request = ExecRequest::shell("");
    request.env = vars(&[("CALL", "2"), ("LANG", "call")]);
    request.managed_env = BTreeMap::from([("DSH_SHELL".into(), "1".into()), ("DSH_SESSION_ID".into(), "new".into())]);
    let expected = [
        ("CALL", "2"),
        ("DSH_SESSION_ID", "new"),
        ("DSH_SHELL", "1"),
        ("FROM_SET", "1"),
        ("GH_TOKEN", "wanted"),
        ("GIT_PAGER", "cat"),
        ("LANG", "call"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("PATH", "/usr/bin:/bin"),
        ("TERM", "dumb"),
    ];
    let expected: BTreeMap<String, String> = expected.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
    assert_eq!(seen(&executor, request).await, expected);

    // What one call brought, the next does not have.
    let plain = seen(&executor, ExecRequest::shell("")).await;
    assert!(!plain.keys().any(|name| name.starts_with("DSH_") || name == "CALL"));
    assert_eq!(plain["LANG"], "C");
}

#[tokio::test]
async fn names_in_the_wrong_channel_are_refused() {
    let (dir, executor) = executor_with(|_| ());
    let mut ordinary = ExecRequest::shell("echo > landed");
    ordinary.env = vars(&[("DSH_HOME", "/x")]);
    let refused = run(&executor, ordinary).await.unwrap_err();
    assert!(matches!(refused, ExecError::Environment { name, .. } if name == "DSH_HOME"));
    let mut managed = ExecRequest::shell("echo > landed");
    managed.managed_env = BTreeMap::from([("PATH".into(), "/x".into())]);
    let refused = run(&executor, managed).await.unwrap_err();
    assert!(matches!(refused, ExecError::Environment { name, .. } if name == "PATH"));
    assert!(!dir.path().join("landed").exists());
    let config = LocalConfig {
        environment: EnvironmentPolicy { set: vars(&[("DSH_X", "1")]), ..EnvironmentPolicy::default() },
        ..LocalConfig::default()
    };
    assert!(matches!(LocalExecutor::new(config), Err(ExecError::Environment { .. })));
}

#[tokio::test]
async fn nothing_inherited_runs_before_the_command() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let note = |what: &str| format!("echo {what} >> {}", trace.display());
    std::fs::write(home.path().join(".bashrc"), note("bashrc")).unwrap();
    std::fs::write(home.path().join("env"), note("env")).unwrap();
    let home_path = home.path().to_str().unwrap().to_owned();
    let env = home.path().join("env").to_str().unwrap().to_owned();
    let function = format!("() {{ {}; }}", note("function"));
    let inherited = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", &home_path),
        ("SSH_CLIENT", "192.0.2.1 1 22"),
        ("BASH_ENV", &env),
        ("ENV", &env),
        ("BASH_FUNC_true%%", &function),
        ("SHELLOPTS", "xtrace"),
        ("PS4", "$(echo ps4 >> trace)"),
    ];
    // The control: the same environment, unscrubbed, does run things. Debian's bash takes `.bashrc` instead of BASH_ENV
    // when SSH_CLIENT is set; others never do.
    for without in ["SSH_CLIENT", "none"] {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", "true; :"]).env_clear().envs(inherited).env_remove(without).stderr(Stdio::null());
        assert!(bash.status().unwrap().success());
        let control = std::fs::read_to_string(&trace).unwrap();
        let start_up = if without == "none" {
            control.contains("bashrc") || control.contains("env")
        } else {
            control.contains("env")
        };
        assert!(start_up && control.contains("function"), "{control}");
        std::fs::remove_file(&trace).unwrap();
    }

    let (_dir, executor) = executor_with(|config| config.inherited = Some(vars(&inherited)));
    let done = shell(&executor, "true; echo ran; sh -c true").await;
    assert_eq!((done.stdout.text.as_str(), done.stderr.text.as_str()), ("ran\n", ""));
    assert!(!trace.exists(), "{:?}", std::fs::read_to_string(&trace));
    executor.dispose().await;
}
