//! Where the host has nothing left to give, or what it gives is odd: a clear error and the status for it, never a panic,
//! and never a command that ran unconfined.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "support/user.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod user;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;

use user::{Programs, User, scratch};

/// An account that nobody else runs processes under, so that a limit on their number counts these alone.
const LONER: User = User { uid: 1787, gid: 1787 };

/// stockade could not run the command.
const CANNOT: Option<i32> = Some(125);

/// The binary, where every user can execute it.
struct Stockade {
    programs: Arc<Programs>,
    work: tempfile::TempDir,
}

impl Stockade {
    fn new() -> Self {
        let work = scratch();
        std::fs::set_permissions(work.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        Self { programs: Programs::get(), work }
    }

    fn binary(&self) -> &Path {
        &self.programs.stockade
    }

    /// Runs `script` in a shell, with the binary as `$0`.
    fn shell(&self, user: User, script: &str) -> Output {
        self.with(user, script, &[])
    }

    fn with(&self, user: User, script: &str, environment: &[(&str, &OsStr)]) -> Output {
        user.command("bash")
            .args([OsStr::new("-c"), script.as_ref(), self.binary().as_os_str()])
            .current_dir(self.work.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

/// Success, or an error of ours in words and with our status. Returns whether it succeeded.
fn clean(what: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked") && !said.contains("defect"), "{what}: {said}");
    if output.status.success() {
        return true;
    }
    assert_eq!(output.status.code(), CANNOT, "{what}: {:?}: {said}", output.status);
    assert!(said.starts_with("stockade: "), "{what}: {said}");
    false
}

/// Tries every limit and wants both ends: the lowest fails, the highest is enough.
fn each_limit(stockade: &Stockade, user: User, limits: &[u32], set: &str, command: &str) {
    let ran: Vec<bool> = limits
        .iter()
        .map(|limit| {
            let script = format!("{set} {limit}; exec \"$0\" {command}");
            clean(&format!("{} as {}", script, user.name()), &stockade.shell(user, &script))
        })
        .collect();
    assert_eq!((ran.first(), ran.last()), (Some(&false), Some(&true)), "{set} {limits:?} {command}: {ran:?}");
}

#[test]
fn no_descriptors_left() {
    let stockade = Stockade::new();
    let limits: Vec<u32> = (4..=24).chain([32, 48, 64]).collect();
    for user in User::all() {
        each_limit(&stockade, user, &limits, "ulimit -n", "run -- true");
        each_limit(&stockade, user, &limits, "ulimit -n", "run --json -c true");
        each_limit(&stockade, user, &limits, "ulimit -n", "run --network allowlist --allow-host a.test -- true");
        each_limit(&stockade, user, &[7, 8, 9, 12, 16, 32, 64], "ulimit -n", "mcp");
        for limit in [4, 7, 8, 16, 64] {
            let output = stockade.shell(user, &format!("ulimit -n {limit}; exec \"$0\" doctor"));
            let said = String::from_utf8_lossy(&output.stderr);
            // 1 is its word for a host on which nothing can be confined.
            assert!(matches!(output.status.code(), Some(0 | 1 | 125)), "{limit}: {:?}: {said}", output.status);
            assert!(!said.contains("panicked"), "{limit}: {said}");
        }
    }
}

#[test]
fn no_processes_left() {
    if !User::current().is_root() {
        // The processes of this user are not counted from here, so the limit cannot be put where it hurts.
        return only_this_many_processes(User::current(), &[1, 1 << 16]);
    }
    only_this_many_processes(LONER, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 64]);
}

fn only_this_many_processes(user: User, limits: &[u32]) {
    let stockade = Stockade::new();
    // Root starts the shell, which sets the limit and becomes the user: an ordinary shell could no longer be started.
    for command in ["run -- true", "run --json -c true", "mcp"] {
        each_limit(&stockade, user, limits, "ulimit -u", command);
    }
}

#[test]
fn little_memory() {
    let stockade = Stockade::new();
    for user in User::all() {
        for kib in [80_000, 100_000, 120_000, 150_000, 200_000, 250_000, 300_000, 500_000] {
            let output = stockade.shell(user, &format!("ulimit -v {kib}; exec \"$0\" run -- true"));
            let said = String::from_utf8_lossy(&output.stderr);
            // What cannot be allocated ends a Rust program; it says so.
            if said.contains("memory allocation of") || said.contains("cannot allocate memory") {
                continue;
            }
            // The program of the command may find too little for itself.
            if said.contains("error while loading shared libraries") {
                continue;
            }
            clean(&format!("{kib} KiB as {}", user.name()), &output);
        }
        assert!(clean("the control", &stockade.shell(user, "exec \"$0\" run -- true")));
    }
}

#[test]
fn files_that_may_not_grow() {
    let stockade = Stockade::new();
    for user in User::all() {
        let name = user.name();
        // The sandbox itself has a small file to write; it says so, or does without.
        clean(name, &stockade.shell(user, "ulimit -f 0; exec \"$0\" run -- true"));
        assert!(clean(name, &stockade.shell(user, "ulimit -f 1; exec \"$0\" run -- true")));
        // The spill cannot be written: the result says that it is not all there is.
        let output = stockade.shell(user, "ulimit -f 1; exec \"$0\" run --json -c 'head -c 200000 /dev/zero'");
        assert!(clean(name, &output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["stdout"]["truncated"], &result["stdout"]["bytes"]), (&true.into(), &200_000.into()));
        assert_eq!(result["stdout"].get("spillPath"), None, "{name}");
        // Neither can a longer result.
        let output =
            stockade.shell(user, "ulimit -f 1; exec \"$0\" run --json -c 'head -c 5000 /dev/zero' >full-$(id -u)");
        assert!(!clean(name, &output));
        let journaled =
            "ulimit -f 1; exec \"$0\" run --journal ../$$-$(id -u) --workspace . -- touch ran $(printf %03000d 0)";
        let output = stockade.shell(user, journaled);
        assert!(!clean(name, &output), "what cannot be recorded is not run");
        assert!(!stockade.work.path().join("ran").exists());
    }
}

#[test]
fn nowhere_to_say_it() {
    let stockade = Stockade::new();
    for user in User::all() {
        for (script, status) in [
            ("exec \"$0\" run -- /no/such/program 2>/dev/full", 127),
            ("exec \"$0\" run --no-such-option 2>/dev/full", 2),
            ("exec \"$0\" run -- true <&- >&- 2>&-", 0),
            ("exec \"$0\" run -- /no/such/program <&- >&- 2>&-", 127),
            ("exec \"$0\" run --json -- true <&- >/dev/full", 125),
            ("exec \"$0\" run --mode read-only -c 'touch f; exit 3' 2>/dev/full", 3),
            ("exec \"$0\" run --mode read-only -c 'touch f; exit 3' 2>&-", 3),
            // Standard error is a pipe that nobody reads any more; `9` brings the status out.
            (
                "{ { sleep 0.3; \"$0\" run --mode read-only -c 'touch f 2>/dev/null; touch f; exit 3' 2>&1 >/dev/null; \
               echo $? >&9; } | true; } 9>status; sleep 0.2; read code <status; exit $code",
                3,
            ),
        ] {
            let output = stockade.shell(user, script);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{script} as {}: {said}", user.name());
            assert!(!said.contains("panicked"), "{script}: {said}");
        }
    }
}

#[test]
fn arguments_and_variables_of_any_size() {
    let stockade = Stockade::new();
    let long = "x".repeat(120_000);
    let many: Vec<(String, &OsStr)> = (0..15).map(|n| (format!("V{n}"), OsStr::new(&long))).collect();
    let many: Vec<(&str, &OsStr)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for user in User::all() {
        clean("a large environment", &stockade.with(user, "exec \"$0\" run -- true", &many));
        clean(
            "a large environment, handed on",
            &stockade.with(user, "exec \"$0\" run --pass-env V0 --pass-env V1 -- true", &many),
        );
        let arguments = "exec \"$0\" run -- true \"$V0\" \"$V1\" \"$V2\" \"$V3\" \"$V4\" \"$V5\" \"$V6\"";
        clean("large arguments", &stockade.with(user, arguments, &many[..7]));
        let odd = [
            ("ODD", OsStr::from_bytes(b"\xff\xfe=\n")),
            ("LANG", OsStr::from_bytes(b"\xff")),
            ("HOME", OsStr::new("")),
        ];
        assert!(clean("an odd environment", &stockade.with(user, "exec \"$0\" run -- true", &odd)));
        assert!(clean("none", &stockade.shell(user, "exec env -i \"$0\" run -- true")));
        for option in ["--workspace", "--workdir", "--policy"] {
            let script = format!("exec \"$0\" run {option} \"$V0\" -- true");
            let output = stockade.with(user, &script, &many);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(2 | 125)), "{option}: {:?}: {said}", output.status);
            assert!(said.starts_with("stockade: ") && !said.contains("panicked"), "{option}: {said}");
        }
    }
}

#[test]
fn odd_places_to_start_in() {
    let stockade = Stockade::new();
    let command = "\"$0\" run -- true";
    for user in User::all() {
        for (place, runs) in [
            ("mkdir gone-$$; cd gone-$$; rmdir ../gone-$$", false),
            ("d=$(printf 'a\\377b\\nc\"'); mkdir -p \"$d\"; cd \"$d\"", true),
            // Deeper than any path may be long.
            (
                "n=$(printf %0200d 0); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do mkdir -p $n; cd -P $n 2>/dev/null || cd $n; done",
                false,
            ),
            ("cd /proc/self", false),
            ("cd /dev", true),
            ("cd /", false),
        ] {
            let output = stockade.shell(user, &format!("{place}; {command}"));
            assert_eq!(clean(&format!("{place} as {}", user.name()), &output), runs, "{place} as {}", user.name());
        }
        if !user.is_root() {
            let script = format!("mkdir -p shut; cd shut; chmod 0 .; {command}; s=$?; chmod 700 .; exit $s");
            clean("a directory that may not be looked at", &stockade.shell(user, &script));
        }
    }
}
