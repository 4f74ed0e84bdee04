//! Holds the shape of the source: which rooms may use which, where `unsafe` may stand, how long files and functions get.
//!
//! A room is a directory (or file) directly below `src`. What a room may use is a table below: to add an arrow is to
//! change the table, which a review sees. Code under `#[cfg(test)]` may use whatever it needs.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Most lines of a file, its tests included.
const FILE_LINES: usize = 450;
/// Lines of a function above which it is named in the output of the test.
const FUNCTION_LINES: usize = 60;
/// Lines of a function above which the test fails.
const LONGEST_FUNCTION: usize = 85;

/// What a room may use of another.
#[derive(Debug, Clone, Copy)]
enum Uses {
    /// Whatever it offers.
    All,
    /// These names, which are plain data: such an arrow may point back without a cycle of behaviour.
    Data(&'static [&'static str]),
}
use Uses::{All, Data};

/// The rooms, and the arrows that leave each.
const ROOMS: &[(&str, &[(&str, Uses)])] = &[
    // The floor: one system call a function, nothing of ours above it.
    ("kernel", &[]),
    // Words that everybody shares: modes, rules, refusals.
    ("policy", &[("denial", Data(&["DenialKind", "Grant"]))]),
    ("environment", &[]),
    ("output", &[]),
    // What the host offers; what the launcher could not do tells something about it.
    ("host", &[("kernel", All), ("launcher", Data(&["SetupFailure", "Stage"]))]),
    // Pure: policy and host in, a plan and what it keeps out.
    (
        "plan",
        &[
            ("policy", All),
            ("host", All),
            ("executor", Data(&["Gap", "Enforcement"])),
            ("denial", Data(&["DenialKind"])),
            ("launcher", Data(&["SetupFailure", "Stage"])),
        ],
    ),
    // Does what the plan says and knows no policy.
    ("launcher", &[("kernel", All), ("plan", All)]),
    ("network/rules", &[("policy", All)]),
    ("denial", &[("policy", All), ("kernel", All), ("network/rules", All)]),
    ("network", &[("network/rules", All), ("policy", All), ("denial", All)]),
    // The seam, and the engine that both executors share.
    (
        "executor",
        &[
            ("policy", Data(&["SandboxMode"])),
            ("denial", Data(&["Denial", "Grant"])),
            ("launcher", Data(&["SetupFailure"])),
            ("environment", All),
            ("output", All),
        ],
    ),
    ("local", &[("executor", All), ("environment", All), ("output", All), ("policy", Data(&["SandboxMode"]))]),
    (
        "sandboxed",
        &[
            ("executor", All),
            ("policy", All),
            ("plan", All),
            ("host", All),
            ("launcher", All),
            // The pseudo-terminal of an interactive run.
            ("kernel", All),
            ("denial", All),
            ("network", All),
            ("network/rules", All),
            ("environment", All),
            ("output", All),
        ],
    ),
    ("approval", &[("policy", All), ("denial", All)]),
    ("session", &[("policy", All), ("denial", All)]),
    ("tool", &[("executor", All), ("approval", All), ("session", All), ("policy", All), ("denial", All)]),
    // Asks the host by building real sandboxes and says what it found.
    (
        "doctor",
        &[
            ("executor", All),
            ("host", All),
            ("launcher", All),
            ("plan", All),
            ("policy", All),
            ("sandboxed", All),
            ("denial", Data(&["AuditState"])),
        ],
    ),
    // Tries every promise on this host, with and without a sandbox.
    (
        "verify",
        &[
            ("approval", Data(&["escape_line"])),
            ("denial", Data(&["Denial"])),
            ("doctor", All),
            ("environment", All),
            ("executor", All),
            ("host", All),
            // System calls that can do nothing, and objects to attack.
            ("kernel", All),
            ("launcher", Data(&["LauncherPath"])),
            ("plan", Data(&["BackendChoice"])),
            ("policy", All),
            ("sandboxed", All),
        ],
    ),
    // Adapters and the record: thin, and nobody but the command line knows them.
    ("mcp", &[("tool", All), ("session", All), ("approval", All), ("executor", All)]),
    ("acp", &[("tool", All), ("session", All), ("approval", All)]),
    ("journal", &[("executor", All), ("policy", All), ("denial", All), ("approval", All), ("environment", All)]),
];

/// Directories inside a room that are rooms of their own: what they hold stands lower than the rest.
const INNER: &[(&str, &str)] = &[("network", "rules")];

/// Rooms that only these may know: nobody but they may name them.
const PRIVATE: &[(&str, &[&str])] = &[(
    "kernel",
    &["launcher", "denial/trace", "denial/audit", "host", "sandboxed/pty.rs", "verify/probe", "verify/scene"],
)];

/// One source file, as tokens: comments are gone, strings are literals.
struct Source {
    /// Relative to `src`.
    path: PathBuf,
    text: String,
    tokens: TokenStream,
}

impl Source {
    fn room(&self) -> String {
        let name = |part: &std::ffi::OsStr| part.to_str().unwrap().trim_end_matches(".rs").to_owned();
        room_of(&self.path.iter().map(name).collect::<Vec<_>>()).0
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }
}

/// The room that a path of module names begins with, and what is left of the path.
fn room_of(path: &[String]) -> (String, Vec<String>) {
    if let [first, second, rest @ ..] = path
        && INNER.contains(&(first.as_str(), second.as_str()))
    {
        return (format!("{first}/{second}"), rest.to_vec());
    }
    (path[0].clone(), path[1..].to_vec())
}

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(directory: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths = Vec::new();
    files_below(&root, &mut paths);
    paths.sort();
    assert!(paths.len() > 3, "{} holds the sources", root.display());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Source { path: path.strip_prefix(&root).unwrap().to_owned(), text, tokens }
    };
    paths.into_iter().map(read).collect()
}

/// Whether these tokens are the inside of `#[cfg(test)]`.
fn is_cfg_test(attribute: &Group) -> bool {
    attribute.delimiter() == Delimiter::Bracket && attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The tokens without the items under `#[cfg(test)]`.
fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut skipping = false;
    for token in tokens {
        match &token {
            TokenTree::Group(group) if is_cfg_test(group) => skipping = true,
            // An item ends with its body or a semicolon.
            TokenTree::Group(group) if skipping && group.delimiter() == Delimiter::Brace => skipping = false,
            TokenTree::Punct(punct) if skipping && punct.as_char() == ';' => skipping = false,
            _ if !skipping => kept.push(token),
            _ => {}
        }
    }
    kept
}

/// Every path that begins with `crate::`, in `use` and elsewhere, groups spread out.
fn crate_paths(tokens: &[TokenTree], found: &mut Vec<Vec<String>>) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "crate" => spread(&tokens[at + 1..], &mut Vec::new(), found),
            TokenTree::Group(group) => crate_paths(&without_tests(group.stream()), found),
            _ => {}
        }
    }
}

/// Reads `::a::{b, c::d}` after what was read already.
fn spread(tokens: &[TokenTree], before: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    if !(colon(tokens.first()) && colon(tokens.get(1))) {
        if !before.is_empty() {
            found.push(before.clone());
        }
        return;
    }
    match tokens.get(2) {
        Some(TokenTree::Ident(word)) => {
            before.push(word.to_string());
            spread(&tokens[3..], before, found);
            before.pop();
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            for branch in inside.split(comma) {
                if let [TokenTree::Ident(word), rest @ ..] = branch {
                    before.push(word.to_string());
                    spread(rest, before, found);
                    before.pop();
                }
            }
        }
        // `crate::a::*` and turbofish.
        _ => found.push(before.clone()),
    }
}

/// What each file uses of other rooms: room, path inside it.
fn arrows(source: &Source) -> Vec<(String, Vec<String>)> {
    if source.is_test() {
        return Vec::new();
    }
    let mut paths = Vec::new();
    crate_paths(&without_tests(source.tokens.clone()), &mut paths);
    let own = source.room();
    let outside = |path: Vec<String>| {
        let (room, rest) = room_of(&path);
        (room != own).then_some((room, rest))
    };
    paths.into_iter().filter_map(outside).collect()
}

#[test]
fn rooms_use_only_what_they_may() {
    let allowed: BTreeMap<&str, BTreeMap<&str, Uses>> =
        ROOMS.iter().map(|(room, uses)| (*room, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    let (mut used, mut rooms) = (BTreeSet::new(), BTreeSet::new());
    for source in sources("src") {
        let room = source.room();
        rooms.insert(room.clone());
        // The front page and the program stand above all rooms, and so does what is compiled for fuzzing alone.
        if ["lib", "main", "cli", "fuzzing"].contains(&room.as_str()) {
            continue;
        }
        let Some(allowed) = allowed.get(room.as_str()) else {
            wrong.push(format!("{room} is in no row of the table"));
            continue;
        };
        for (other, path) in arrows(&source) {
            let fits = match allowed.get(other.as_str()) {
                Some(All) => true,
                Some(Data(names)) => path.iter().any(|part| names.contains(&part.as_str())),
                None => false,
            };
            if !fits {
                wrong.push(format!("src/{} uses crate::{other}::{}", source.path.display(), path.join("::")));
            }
            used.insert((room.clone(), other));
        }
    }
    for (room, uses) in ROOMS {
        for (other, _) in *uses {
            if rooms.contains(*room) && !used.contains(&((*room).to_owned(), (*other).to_owned())) {
                wrong.push(format!("the table lets {room} use {other}, which it does not: remove the arrow"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_cycle_but_through_data() {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = ROOMS
        .iter()
        .map(|(room, uses)| (*room, uses.iter().filter(|(_, uses)| matches!(uses, All)).map(|(to, _)| *to).collect()))
        .collect();
    // Take away rooms that use nothing that is left, until none is.
    while !left.is_empty() {
        let bare: Vec<&str> = left.iter().filter(|(_, uses)| uses.is_empty()).map(|(room, _)| *room).collect();
        assert!(!bare.is_empty(), "these use each other in a circle: {left:?}");
        left.retain(|room, _| !bare.contains(room));
        left.values_mut().for_each(|uses| uses.retain(|to| !bare.contains(to)));
    }
}

#[test]
fn the_kernel_is_known_to_few() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        for (other, path) in arrows(&source) {
            let Some((_, friends)) = PRIVATE.iter().find(|(room, _)| *room == other) else { continue };
            if !friends.iter().any(|friend| source.path.starts_with(friend)) {
                wrong.push(format!("src/{} uses crate::{other}::{}", source.path.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls `see` with every word, at any depth.
fn words(tokens: TokenStream, see: &mut impl FnMut(&str, usize)) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => see(&word.to_string(), word.span().start().line),
            TokenTree::Group(group) => words(group.stream(), see),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[test]
fn unsafe_stands_in_the_kernel_room_alone() {
    let (mut wrong, mut inside) = (Vec::new(), 0);
    for source in sources("src") {
        let kernel = source.room() == "kernel";
        words(source.tokens.clone(), &mut |word, line| match word {
            "unsafe" if kernel => inside += 1,
            "unsafe" => wrong.push(format!("src/{}:{line}", source.path.display())),
            _ => {}
        });
    }
    assert!(inside > 5, "the search finds unsafe where it is: {inside}");
    assert!(wrong.is_empty(), "unsafe outside src/kernel:\n{}", wrong.join("\n"));
}

#[test]
fn nothing_is_unfinished_or_left_out() {
    let mut wrong = Vec::new();
    let all: Vec<(&str, Source)> =
        ["src", "tests"].into_iter().flat_map(|root| sources(root).into_iter().map(move |one| (root, one))).collect();
    for (root, source) in &all {
        for macro_name in ["todo", "unimplemented"] {
            for line in invocations(source.tokens.clone(), macro_name) {
                wrong.push(format!("{root}/{}:{line}: {macro_name}", source.path.display()));
            }
        }
        for (name, reason) in ignored(source.tokens.clone()) {
            // An ignored test is one that another test runs in a process of its own, or as another user; that other
            // test names it, by its whole name or by the name without the ending `_inside`.
            let stem = name.strip_suffix("_inside").unwrap_or(&name);
            let named = all.iter().flat_map(|(_, other)| other.text.lines()).any(|line| {
                let quoted = line.split('"').skip(1).step_by(2);
                let mut calls = quoted.map(|text| text.rsplit("::").next().unwrap_or(text));
                !line.contains("#[ignore") && calls.any(|text| text == name || text == stem)
            });
            if reason.is_empty() || !named {
                wrong.push(format!("{root}/{}: {name} is ignored, and no test runs it", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines on which this macro is used.
fn invocations(tokens: TokenStream, name: &str) -> Vec<usize> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut lines = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == name => {
                let bang = matches!(tokens.get(at + 1), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
                lines.extend(bang.then(|| word.span().start().line));
            }
            TokenTree::Group(group) => lines.extend(invocations(group.stream(), name)),
            _ => {}
        }
    }
    lines
}

/// Name and reason of every ignored test.
fn ignored(tokens: TokenStream) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut reason = None;
    let mut after_fn = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                let text = group.stream().to_string();
                if let Some(rest) = text.strip_prefix("ignore") {
                    reason = Some(rest.trim_start_matches([' ', '=']).to_owned());
                }
            }
            TokenTree::Group(group) => found.extend(ignored(group.stream())),
            TokenTree::Ident(word) if word == "fn" => after_fn = true,
            TokenTree::Ident(word) if after_fn => {
                after_fn = false;
                found.extend(reason.take().map(|reason| (word.to_string(), reason)));
            }
            _ => {}
        }
    }
    found
}

/// Name, line and length of every function with a body.
fn functions(tokens: TokenStream, found: &mut Vec<(String, usize, usize)>) {
    let mut open: Option<(String, usize)> = None;
    let mut begins = None;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "fn" => begins = Some(word.span().start().line),
            TokenTree::Ident(word) if begins.is_some() => open = begins.take().map(|line| (word.to_string(), line)),
            // `fn(A) -> B` is a type.
            TokenTree::Group(_) if begins.is_some() => begins = None,
            TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
            TokenTree::Group(group) => {
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, line)) = open.take()
                {
                    found.push((name, line, group.span_close().end().line - line + 1));
                }
                functions(group.stream(), found);
            }
            _ => {}
        }
    }
}

#[test]
fn files_and_functions_stay_short() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in sources("src") {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            wrong.push(format!("src/{} has {lines} lines", source.path.display()));
        }
        let mut all = Vec::new();
        functions(source.tokens.clone(), &mut all);
        seen += all.len();
        for (name, line, length) in all {
            let place = format!("src/{}:{line}: {name} has {length} lines", source.path.display());
            if length > LONGEST_FUNCTION {
                wrong.push(place);
            } else if length > FUNCTION_LINES {
                println!("long: {place}");
            }
        }
    }
    assert!(seen > 500, "the search finds functions: {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions of the C library that the standard library names weakly, and asks whether they are there before it calls them.
/// After whole-program optimisation a static program has none that is named so, and whoever does not ask jumps to address 0.
/// Their system calls are made by number here.
#[test]
fn no_function_is_called_that_a_static_program_lacks() {
    const WEAK: [&str; 7] =
        ["statx", "copy_file_range", "getrandom", "renameat2", "preadv2", "pwritev2", "gnu_get_libc_version"];
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        seen += text.matches("libc::syscall(").count();
        for name in WEAK {
            assert!(!text.contains(&format!("libc::{name}(")), "{}: libc::{name}", path.display());
        }
    }
    assert!(seen > 10, "the control: calls are made here: {seen}");
}
