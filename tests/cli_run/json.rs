//! The one line of JSON.

use std::path::Path;

use serde_json::Value;

use crate::cli::{Prompt, outcome};

fn result(prompt: &Prompt, args: &[&str]) -> Value {
    let (status, stdout, stderr) = outcome(&mut prompt.run(["--json"].iter().chain(args)));
    assert_eq!(status, 0, "{args:?}: {stderr}");
    assert_eq!(stdout.matches('\n').count(), 1, "one line: {stdout}");
    assert_eq!(stderr, "", "{args:?}");
    serde_json::from_str(&stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_field_is_there() {
    for prompt in Prompt::all() {
        let plain = result(&prompt, &["--timeout-ms", "60000", "-c", "echo out; echo err >&2; exit 3"]);
        let fields =
            ["exitCode", "signal", "timedOut", "aborted", "timeoutMs", "durationMs", "stdout", "stderr", "sandbox"];
        assert_eq!(keys(&plain), fields);
        assert_eq!(keys(&plain["stdout"]), ["text", "bytes", "truncated"]);
        assert_eq!(keys(&plain["stderr"]), ["text", "bytes", "truncated"]);
        assert_eq!(keys(&plain["sandbox"]), ["mode", "enforcement", "gaps", "denied", "denials"]);
        assert_eq!(plain["exitCode"], 3);
        assert_eq!(plain["signal"], Value::Null);
        assert_eq!((&plain["timedOut"], &plain["aborted"]), (&Value::Bool(false), &Value::Bool(false)));
        assert_eq!(plain["timeoutMs"], 60_000);
        assert!(plain["durationMs"].as_f64().unwrap() > 0.0);
        assert_eq!((&plain["stdout"]["text"], &plain["stdout"]["bytes"]), (&"out\n".into(), &4.into()));
        assert_eq!((&plain["stderr"]["text"], &plain["stderr"]["bytes"]), (&"err\n".into(), &4.into()));
        assert_eq!(plain["stdout"]["truncated"], false);
        assert_eq!(plain["sandbox"]["mode"], "read-only");
        assert!(plain["sandbox"]["gaps"].is_array() && plain["sandbox"]["denials"].is_array());
        assert_eq!(plain["sandbox"]["denied"], false);
    }
}

#[test]
fn signals_timeouts_and_modes() {
    for prompt in Prompt::all() {
        let killed = result(&prompt, &["-c", "kill -KILL $$"]);
        assert_eq!((&killed["exitCode"], &killed["signal"]), (&Value::Null, &"SIGKILL".into()));
        let slow = result(&prompt, &["--timeout-ms", "200", "--", "sleep", "1000"]);
        assert_eq!(
            (&slow["timedOut"], &slow["aborted"], &slow["timeoutMs"]),
            (&true.into(), &false.into(), &200.into())
        );
        let open = result(&prompt, &["--mode", "danger-full-access", "--", "true"]);
        assert_eq!(open["sandbox"]["mode"], "danger-full-access");
        assert_eq!(
            (&open["sandbox"]["enforcement"], &open["sandbox"]["gaps"]),
            (&"none".into(), &Value::Array(vec![]))
        );
        let weak = result(&prompt, &["--backend", "landlock", "--", "true"]);
        assert_eq!(weak["sandbox"]["enforcement"], "partial");
        let known = [
            "metadata",
            "protected-paths",
            "deny-read",
            "network-udp",
            "network-isolation",
            "unix-sockets",
            "process-isolation",
            "truncate",
            "ioctl",
            "limits",
        ];
        let gaps = weak["sandbox"]["gaps"].as_array().unwrap();
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| known.contains(&gap.as_str().unwrap())), "{gaps:?}");
    }
}

#[test]
fn a_spill_that_is_named_is_there() {
    for prompt in Prompt::all() {
        let long = result(&prompt, &["-c", "head -c 100000 /dev/zero | tr '\\0' x"]);
        assert_eq!((&long["stdout"]["bytes"], &long["stdout"]["truncated"]), (&100_000.into(), &true.into()));
        assert!(long["stdout"]["text"].as_str().unwrap().len() <= 64_000);
        if let Some(path) = long["stdout"].get("spillPath") {
            let path = Path::new(path.as_str().unwrap());
            assert_eq!(std::fs::metadata(path).map(|meta| meta.len()).ok(), Some(100_000), "{}", path.display());
        }
    }
}

#[test]
fn failures_are_not_results() {
    for prompt in Prompt::all() {
        let cases: &[(&[&str], i32)] = &[
            (&["--", "no-such-program-anywhere"], 125),
            (&["--", "/etc/passwd"], 125),
            (&["--workdir", "/nowhere", "--", "true"], 125),
            (&["-c", ""], 2),
            (&["--mode", "x", "--", "true"], 2),
        ];
        for (args, status) in cases {
            let (found, stdout, stderr) = outcome(&mut prompt.run(["--json"].iter().chain(*args)));
            assert_eq!((found, stdout.as_str()), (*status, ""), "{args:?}");
            assert!(stderr.starts_with("stockade: "), "{args:?}: {stderr}");
        }
    }
}
