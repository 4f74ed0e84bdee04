//! `stockade doctor` on hosts that differ: what it says of each must be what a run there comes to.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::process::Command;

use serde_json::Value;

const STOCKADE: &str = env!("CARGO_BIN_EXE_stockade");

/// Runs `stockade` behind `prefix`, and gives its exit status and what it printed.
fn behind(prefix: &[&str], arguments: &[&str]) -> (Option<i32>, String) {
    let words = [prefix, &[STOCKADE], arguments].concat();
    let output = Command::new(words[0]).args(&words[1..]).current_dir("/var/tmp").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

fn doctor(prefix: &[&str]) -> (Option<i32>, Value) {
    let (code, text) = behind(prefix, &["doctor", "--json"]);
    (code, serde_json::from_str(&text).unwrap())
}

fn feature<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["features"].as_array().unwrap().iter().find(|feature| feature["name"] == name).unwrap()
}

fn mode<'a>(report: &'a Value, mode: &str, backend: &str) -> &'a Value {
    let modes = report["modes"].as_array().unwrap();
    modes.iter().find(|entry| entry["mode"] == mode && entry["backend"] == backend).unwrap()
}

/// Doctor's word for each confining mode against a run of that mode on the same host.
fn agrees_with_runs(prefix: &[&str], report: &Value) {
    for name in ["read-only", "workspace-write"] {
        for backend in ["auto", "landlock"] {
            let run = ["run", "--json", "--mode", name, "--backend", backend, "--workspace", "/var/tmp", "--", "true"];
            let ran: Value = serde_json::from_str(&behind(prefix, &run).1).unwrap();
            let said = mode(report, name, backend);
            assert_eq!(said["enforcement"], ran["sandbox"]["enforcement"], "{name} {backend}");
            assert_eq!(said["gaps"], ran["sandbox"]["gaps"], "{name} {backend}");
        }
    }
}

#[test]
fn here_it_agrees_with_runs_as_root_and_as_a_user() {
    let user: &[&str] = &["setpriv", "--reuid=1500", "--regid=1500", "--clear-groups"];
    for (prefix, uid) in [(&["env"] as &[&str], 0), (user, 1500)] {
        let (code, report) = doctor(prefix);
        assert_eq!(report["uid"], uid);
        assert_eq!(code, Some(i32::from(report["usable"] != true)));
        agrees_with_runs(prefix, &report);
        for feature in report["features"].as_array().unwrap() {
            let has = |key: &str| feature[key].as_str().is_some_and(|text| !text.is_empty());
            assert_ne!(feature["present"].as_bool().unwrap(), has("lost") && has("remedy"), "{feature}");
        }
    }
}

#[test]
fn without_user_namespaces_it_names_the_switch() {
    // A user namespace may lower its own limit; the host's stays. The second step drops what would do without.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
        exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"";
    let prefix = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"];
    let (code, report) = doctor(&prefix);
    let namespaces = feature(&report, "user-namespace");
    assert_eq!(namespaces["present"], false, "{namespaces}");
    assert!(namespaces["remedy"].as_str().unwrap().contains("user.max_user_namespaces"), "{namespaces}");
    let refused = mode(&report, "read-only", "namespaces");
    assert!(refused["enforcement"].is_null() && refused["refused"].is_string(), "{refused}");
    agrees_with_runs(&prefix, &report);
    assert_eq!(code, Some(i32::from(report["usable"] != true)));
    // The control: the same namespace with its limit as it was.
    let (_, control) = doctor(&["unshare", "--user", "--map-root-user", "--"]);
    assert_eq!(feature(&control, "user-namespace")["present"], true);
}

#[test]
fn inside_a_sandbox_it_says_so() {
    let prefix = [STOCKADE, "run", "--mode", "read-only", "--"];
    let (code, report) = doctor(&prefix);
    assert_eq!(feature(&report, "user-namespace")["present"], false);
    let notification = feature(&report, "seccomp-notification");
    assert!(notification["remedy"].as_str().unwrap().contains("outside the traced sandbox"), "{notification}");
    assert_eq!(feature(&report, "seccomp")["present"], true);
    assert_eq!(code, Some(i32::from(report["usable"] != true)));
    let landlock = feature(&report, "landlock")["present"].as_bool().unwrap();
    assert_eq!(report["usable"], landlock, "Landlock alone confines here, where there is one");
}

#[test]
fn people_can_read_it_in_80_columns() {
    for prefix in [&["env"] as &[&str], &[STOCKADE, "run", "--"]] {
        let (_, text) = behind(prefix, &["doctor"]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.starts_with("Linux ") && text.contains("\nModes\n  read-only "), "{text}");
        assert!(text.trim_end().ends_with("be confined here."), "{text}");
    }
}

#[test]
fn nothing_of_the_examination_is_left() {
    let left = || {
        let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        groups.filter(|entry| entry.file_name().to_string_lossy().starts_with("stockade-doctor-")).count()
    };
    doctor(&["env"]);
    assert_eq!(left(), 0);
}
