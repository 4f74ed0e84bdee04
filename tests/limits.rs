//! Limits of a policy: what they stop, and that the result says so as a denial of kind `limit`. As root and as a user.
//!
//! A control group is tried for real where this host lets one be made, which is said.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "support/cli.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod cli;
#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use cli::Prompt;
use serde_json::Value;
use stockade::host::{HostSupport, leaf_place};

const MIB: u64 = 1 << 20;

/// The result of a shell command under these limits.
fn run(prompt: &Prompt, limits: &str, options: &[&str], command: &str) -> Value {
    let policy = prompt.root().join("limits.toml");
    std::fs::write(
        &policy,
        format!("mode = \"workspace-write\"\n[filesystem]\nwrite = [\"${{WORKSPACE}}\"]\n[limits]\n{limits}\n"),
    )
    .unwrap();
    let mut words = vec!["--json", "--policy", policy.to_str().unwrap()];
    words.extend(options);
    words.extend(["-c", command]);
    let (status, out, err) = cli::outcome(&mut prompt.run(words));
    assert_eq!(status, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

/// The errnos of the denials of kind `limit`, and whether one of them was blocking.
fn limits(result: &Value) -> (Vec<String>, bool) {
    let denials = result["sandbox"]["denials"].as_array().unwrap();
    let of_kind: Vec<_> = denials.iter().filter(|denial| denial["kind"] == "limit").collect();
    for denial in &of_kind {
        assert_eq!(denial["widenTo"], "danger-full-access", "{denial}");
        assert!(denial.get("grant").is_none_or(Value::is_null), "{denial}");
    }
    let errnos = of_kind.iter().map(|denial| denial["errno"].as_str().unwrap().to_owned()).collect();
    (errnos, of_kind.iter().any(|denial| denial["blocking"] == true))
}

fn blocking(errno: &str) -> (Vec<String>, bool) {
    (vec![errno.to_owned()], true)
}

fn none() -> (Vec<String>, bool) {
    (Vec::new(), false)
}

/// Those of this host; without Landlock that backend refuses, which `tests/matrix.rs` looks at.
fn backends() -> &'static [&'static str] {
    if HostSupport::detect().unwrap().landlock_abi > 0 { &["namespaces", "landlock"] } else { &["namespaces"] }
}

#[test]
fn a_file_that_grows_too_large_ends_there() {
    for prompt in Prompt::all() {
        for backend in backends() {
            let file = prompt.work().join("grown");
            let try_to_write = |mib: u64| {
                let command = format!("dd if=/dev/zero of=grown bs=1M count={mib} 2>/dev/null");
                run(&prompt, "file_size = \"2MiB\"", &["--backend", backend], &command)
            };
            let result = try_to_write(1);
            assert_eq!((&result["exitCode"], limits(&result)), (&Value::from(0), none()), "{backend}: {result}");
            let result = try_to_write(4);
            assert_eq!(limits(&result), blocking("EFBIG"), "{backend}: {result}");
            assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 * MIB, "{backend}");
            std::fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn memory_is_bounded_as_the_result_says() {
    let grouped = |prompt: &Prompt| prompt.user.is_root() && leaf_place().is_ok();
    for prompt in Prompt::all() {
        for backend in backends() {
            let allocate = |mib: u32| {
                let command = format!("python3 -c 'bytearray({mib} << 20)'");
                run(&prompt, "memory = \"300MiB\"", &["--backend", backend], &command)
            };
            let result = allocate(100);
            assert_eq!((&result["exitCode"], limits(&result)), (&Value::from(0), none()), "{backend}: {result}");
            let gap = result["sandbox"]["gaps"].as_array().unwrap().contains(&Value::from("limits"));
            if grouped(&prompt) {
                assert!(!gap, "a control group can be made, and memory is a gap: {result}");
            }
            let result = allocate(900);
            assert_ne!(result["exitCode"], 0, "{backend}: {result}");
            assert_eq!(limits(&result), blocking("ENOMEM"), "{backend}: {result}");
            // Two processes that stay below the bound each and go beyond it together: what the gap is about.
            let together = "python3 -c 'import time; x = bytearray(200 << 20); time.sleep(1)' & \
                            python3 -c 'import time; x = bytearray(200 << 20); time.sleep(1)'; wait";
            let result = run(&prompt, "memory = \"300MiB\"", &["--backend", backend], together);
            let stopped = limits(&result).0 == ["ENOMEM"];
            assert_eq!(stopped, !gap, "{backend}: {result}");
        }
    }
}

#[test]
fn processes_are_bounded_where_no_gap_is_named() {
    for prompt in Prompt::all() {
        let start = |count: u32| {
            let command = format!("dash -c 'i=0; while [ $i -lt {count} ]; do sleep 60 & i=$((i+1)); done'");
            run(&prompt, "processes = 400", &["--backend", "namespaces"], &command)
        };
        let result = start(50);
        assert_eq!((&result["exitCode"], limits(&result)), (&Value::from(0), none()), "{result}");
        let gaps = result["sandbox"]["gaps"].as_array().unwrap();
        if !gaps.contains(&Value::from("limits")) {
            assert_eq!(limits(&start(900)).0, ["EAGAIN"]);
        }
    }
}

#[test]
fn open_files_are_bounded() {
    for prompt in Prompt::all() {
        let open = |count: u32| {
            let command = format!("python3 -c 'import os; [os.open(\"/dev/null\", 0) for _ in range({count})]'");
            run(&prompt, "open_files = 64", &[], &command)
        };
        assert_eq!(limits(&open(40)), none());
        assert_eq!(limits(&open(100)), blocking("EMFILE"));
    }
}

#[test]
fn memory_file_systems_are_bounded() {
    for prompt in Prompt::all() {
        let fill = |mib: u32| {
            let command = format!("head -c {mib}M /dev/zero >/tmp/fill");
            run(&prompt, "tmp_size = \"16MiB\"", &["--backend", "namespaces"], &command)
        };
        assert_eq!(limits(&fill(8)), none());
        assert_eq!(limits(&fill(32)), blocking("ENOSPC"));
    }
}

#[test]
fn words_about_a_resource_that_is_not_limited_prove_nothing() {
    for prompt in Prompt::all() {
        let said = |limit: &str| {
            let command = "printf 'bash: fork: Resource temporarily unavailable\\n' >said; cat said >&2; exit 1";
            limits(&run(&prompt, limit, &[], command))
        };
        assert_eq!(said("memory = \"1GiB\""), none(), "another resource is limited");
        let huge = "python3 -c 'bytearray(1 << 60)'";
        assert_eq!(limits(&run(&prompt, "processes = 100", &[], huge)), none(), "memory is not limited");
        std::fs::write(prompt.work().join("log"), "bash: fork: Resource temporarily unavailable\n").unwrap();
        let relayed = "cat log >&2; exit 1";
        assert_eq!(limits(&run(&prompt, "processes = 100", &[], relayed)), none(), "a log is passed on");
    }
}

/// Nothing is left in the hierarchy when the commands have ended.
#[test]
fn no_control_group_is_left() {
    let Ok(place) = leaf_place() else {
        eprintln!("no control group can be made on this host: {}", leaf_place().unwrap_err());
        return;
    };
    for prompt in Prompt::all().into_iter().filter(|prompt| prompt.user.is_root()) {
        run(&prompt, "memory = \"300MiB\"", &[], "sleep 0.1 & true");
        // Named by the process that made it; those of other tests may be running.
        let left = std::fs::read_dir(&place).unwrap().filter_map(Result::ok).map(|entry| entry.file_name());
        let dead = |name: &std::ffi::OsString| {
            let name = name.to_string_lossy().into_owned();
            let pid = name.strip_prefix("stockade-").and_then(|rest| rest.split('-').next().map(str::to_owned));
            pid.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists())
        };
        let left: Vec<_> = left.filter(dead).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
