//! Text made to break the reader.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use stockade::denial::{Denial, DenialKind, MAX_DENIALS};
use stockade::policy::SandboxMode;

use crate::world::{PROJECT, Run};

/// Pieces of real messages in any order, which come nearer to the reader's branches than random bytes do.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "touch: ",
            "cannot touch ",
            "'new'",
            "'",
            "\"",
            "‘",
            "’",
            "«",
            "$'\\n'",
            "Read-only file system",
            "Permission denied",
            "[Errno 30] ",
            ": ",
            " -> ",
            "EROFS: ",
            "read-only file system, open ",
            " @ rb_sysopen - ",
            " (os error 30)",
            " at path ",
            "bash: line 1: ",
            "/etc/x",
            "../",
            "\u{1b}[31m",
            "\r",
            "\n",
            "lookup ",
            "dial tcp ",
            "Could not resolve host: ",
            "[::1]:80",
            "connect ECONNREFUSED ",
            "(",
            ")",
            "host='",
            "unix://",
            "\0",
            "mount: ",
            "Traceback (most recent call last):",
            "  os.mkdir(x)",
            "java.nio.file.AccessDeniedException: ",
            " while a on ",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Every part of a denial's path that is not the directory it is relative to stands in the text or the command.
fn path_is_named(denial: &Denial, text: &str) -> bool {
    let Some(path) = &denial.path else { return true };
    if denial.kind == DenialKind::UnixConnect {
        return text.contains("docker.sock") || text.contains("bus");
    }
    if Path::new(PROJECT).starts_with(path) {
        return text.contains('.');
    }
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(".lock").unwrap_or(&name);
    // Escapes are undone in the name, so it is looked for letter by letter where it holds any.
    text.contains(name) || name.chars().filter(|c| c.is_alphanumeric()).all(|c| text.contains(c))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..2048), exit in 0..3_i32) {
        let mut run = Run::new(SandboxMode::ReadOnly, "cmd 2>&1", exit, "");
        (run.stderr, run.stdout) = (&bytes, &bytes);
        for denial in run.classify().0 {
            prop_assert!(path_is_named(&denial, &String::from_utf8_lossy(&bytes)), "{denial:?}");
        }
    }

    #[test]
    fn broken_messages_are_read_without_harm(text in fragments(), exit in 0..3_i32) {
        for denial in Run::new(SandboxMode::ReadOnly, "cd d && cmd", exit, &text).classify().0 {
            prop_assert!(path_is_named(&denial, &text), "{denial:?} from {text:?}");
        }
    }
}

/// Makes the nth line of a text.
type Line = Box<dyn Fn(usize) -> String>;

#[test]
fn a_mebibyte_of_anything_is_read_in_linear_time() {
    let units: Vec<(&str, Line)> = vec![
        ("noise", Box::new(|at| format!("compiling unit {at} of many, all is well so far and on it goes\n"))),
        ("messages", Box::new(|at| format!("touch: cannot touch 'n{at}': Read-only file system\n"))),
        ("open quotes", Box::new(|_| format!("{}: Permission denied\n", "„(«'".repeat(300)))),
        ("colons", Box::new(|at| format!("{}{at}: Permission denied\n", "a: ".repeat(1300)))),
        ("one line", Box::new(|_| "x: 'y' Permission denied ".repeat(40))),
        ("escapes", Box::new(|_| "\u{1b}[1;31m\u{1b}[".repeat(80) + ": Permission denied\n")),
        ("hosts", Box::new(|at| format!("curl: (6) Could not resolve host: h{at}.example\n"))),
    ];
    for (name, make) in &units {
        let mut text = String::new();
        let mut at = 0;
        while text.len() < 1 << 20 {
            text.push_str(&make(at));
            at += 1;
        }
        let start = Instant::now();
        let (denials, _) = Run::new(SandboxMode::ReadOnly, "x", 1, &text).classify();
        let took = start.elapsed();
        println!("{name}: {took:?}, {} denials", denials.len());
        assert!(denials.len() <= MAX_DENIALS);
        // Generous: an unoptimised build on a busy machine; quadratic reading of a mebibyte would take minutes.
        assert!(took < Duration::from_secs(20), "{name} took {took:?}");
    }
}
