//! What the command line itself tells when a message is silent: where it went and what it was about to do.
#![forbid(unsafe_code)]

use std::path::Path;

use super::stderr::Verb;

/// Runtimes that print a name bare and mean it.
pub(super) fn is_runtime(program: &str) -> bool {
    matches!(program, "python" | "node" | "npm" | "ruby" | "java" | "perl" | "git" | "tar" | "make" | "cargo" | "go")
}

/// The command sets a set-user-ID or set-group-ID bit: `u+s`, `4755`.
pub(super) fn sets_id(command: &str) -> bool {
    command.split(|c: char| c.is_whitespace() || ",;&|'\"()=".contains(c)).any(|word| {
        let octal = word.len() >= 4 && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let bits = octal.then(|| u32::from_str_radix(word, 8).ok()).flatten().unwrap_or(0);
        let symbolic = word.contains("+s") && word.bytes().all(|byte| b"ugoa+rwxst-".contains(&byte));
        bits & 0o6000 != 0 || symbolic
    })
}

/// The program is named in a statement of the command, and not in the last one, whose status is the command's.
pub(super) fn ran_before_the_end(command: &str, comm: &str) -> bool {
    let names = |statement: &&str| {
        statement.split(|c: char| c.is_whitespace() || "|&(){}/'\"`$".contains(c)).any(|word| word == comm)
    };
    let ends_early = command.contains("set -e") || command.contains("set -o errexit");
    let statements = statements(command);
    let Some((last, earlier)) = statements.split_last() else { return false };
    let calls = |function: &str| last.split_whitespace().any(|word| word == function);
    !ends_early && !names(last) && earlier.iter().any(names) && !functions(command).any(calls)
}

/// The shell functions that a command defines: `f() {`, `f(){`.
fn functions(command: &str) -> impl Iterator<Item = &str> {
    let before = command.match_indices("()").take(16).map(|(at, _)| command[..at].trim_end());
    before
        .filter_map(|text| text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| !name.is_empty())
}

/// The command cut at the semicolons and line ends that stand outside quotation marks.
fn statements(command: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ';' | '\n') => {
                parts.push(&command[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&command[start..]);
    parts.retain(|part| !part.trim().is_empty() && !only_closes(part));
    parts
}

/// The end of a group or a compound command, which runs nothing: `}`, `} 2>/dev/null`, `fi`, `done < list`.
fn only_closes(part: &str) -> bool {
    let mut words = part.split_whitespace();
    let closes = |word: &str| matches!(word.trim_end_matches(')'), "}" | "" | "fi" | "done" | "esac");
    words.next().is_some_and(closes) && words.all(|word| word.contains(['>', '<']) || closes(word))
}

/// The command opens a socket to be reached at, and none to reach another.
pub(super) fn listens(command: &str) -> bool {
    let any = |calls: &[&str]| calls.iter().any(|call| command.contains(call));
    any(&["bind(", "listen(", "http.server"]) && !any(&["connect", "urlopen", "://", "/dev/tcp/"])
}

/// `unshare -U`, `-r`, `-Urm`, `--user`, `--map-root-user`.
pub(super) fn makes_a_user_namespace(command: &str) -> bool {
    command.split_whitespace().any(|word| match word.strip_prefix("--") {
        Some(long) => long.starts_with("user") || long.starts_with("map-"),
        None => word.strip_prefix('-').is_some_and(|short| {
            short.contains(['U', 'r', 'c']) && short.bytes().all(|byte| byte.is_ascii_alphabetic())
        }),
    })
}

/// Programs that do what a script tells them.
pub(super) fn is_interpreter(comm: &str) -> bool {
    ["bash", "sh", "dash", "zsh", "python", "node", "perl", "ruby", "java"].iter().any(|name| comm.starts_with(name))
}

/// What the command does, when all of its telling calls agree.
pub(super) fn verb_in_command(command: &str) -> Option<Verb> {
    const CALLS: &[(&str, Verb)] = &[
        (".remove(", Verb::Remove),
        ("unlink", Verb::Remove),
        ("rmdir", Verb::Remove),
        ("rmtree", Verb::Remove),
        ("rmSync", Verb::Remove),
        ("chmod", Verb::Metadata),
        ("chown", Verb::Metadata),
        ("utime", Verb::Metadata),
        ("setxattr", Verb::Metadata),
        ("truncate(", Verb::Truncate),
        ("symlink", Verb::Create),
        (".link(", Verb::Create),
    ];
    let mut verbs = CALLS.iter().filter(|(call, _)| command.contains(call)).map(|(_, verb)| *verb);
    let first = verbs.next()?;
    verbs.all(|verb| verb == first).then_some(first)
}

/// The directories a command changes to (`cd`, `pushd`, `-C`, `--directory`, `chdir("...")`), in order.
pub(super) fn directories_in_command(command: &str) -> Vec<String> {
    let mut directories = Vec::new();
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')'))
        .map(|word| word.trim_start_matches(['\'', '"']))
        .collect();
    let mut words = words.into_iter().filter(|word| !word.is_empty()).take(4096);
    while let Some(word) = words.next() {
        let directory = match word {
            "cd" | "pushd" | "-C" | "--directory" | "--chdir" | "--prefix" => words.next(),
            _ => word
                .strip_prefix("--directory=")
                .or_else(|| word.strip_prefix("--prefix="))
                .or_else(|| word.strip_prefix("-C").filter(|rest| rest.starts_with('/'))),
        };
        let Some(directory) = directory.map(|word| word.trim_matches(['"', '\''])) else { continue };
        let plain = !directory.is_empty() && !directory.contains(['$', '`', '*']) && directory != "-";
        if plain && directories.len() < 8 {
            directories.push(directory.to_owned());
        }
    }
    directories
}

/// The directories that make says it entered, at most eight.
pub(super) fn directories_entered(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(&output[output.len().saturating_sub(64 << 10)..]);
    let directories = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(": Entering directory ")?;
        Some(rest.trim_matches(['\'', '"', '`']).to_owned())
    });
    directories.take(8).collect()
}

/// The command ends itself with a status of its own choice when something fails: `|| exit`, `|| return`, `|| {`, and in
/// a script `except OSError: sys.exit(3)`, `catch (e) { process.exit(3) }`, `or exit 3`.
pub(super) fn exits_on_failure(command: &str) -> bool {
    let handler = |opening: &str, end: &[char]| {
        command.split(opening).skip(1).any(|rest| rest.split(end).next().is_some_and(|body| body.contains("exit")))
    };
    let others = [" or exit", "else exit", "else return"];
    if handler("except", &['\n', '"', '\''])
        || handler("catch", &['}'])
        || others.iter().any(|words| command.contains(words))
    {
        return true;
    }
    command.split("||").skip(1).any(|rest| {
        let rest = rest.trim_start();
        ["exit", "return", "{", "die", "false"].iter().any(|word| rest.starts_with(word))
    })
}

/// The command joins standard error to standard output, so its messages are found there.
pub(super) fn merges_streams(command: &str) -> bool {
    ["2>&1", "|&", "&>", ">&", "stderr=subprocess.STDOUT"].iter().any(|join| command.contains(join))
}

/// Every program of the command only passes text on, so a message of another program in its output is quoted text.
pub(super) fn only_relays(command: &str) -> bool {
    const RELAYS: &[&str] = &[
        "cat",
        "echo",
        "printf",
        "grep",
        "egrep",
        "head",
        "tail",
        "less",
        "more",
        "awk",
        "cut",
        "sort",
        "uniq",
        "tac",
        "journalctl",
        "ls",
        "true",
        "false",
        "exit",
        "cd",
        "test",
        "[",
        "wc",
        "tr",
        "nl",
        "zcat",
        "dmesg",
        "sleep",
        ":",
    ];
    let mut programs = command
        .split([';', '|', '\n', '&'])
        .map(|part| part.trim_start_matches(['>', '(', '{', ' ', '1', '2']))
        .filter_map(|part| part.split_whitespace().next())
        .peekable();
    programs.peek().is_some() && programs.all(|program| RELAYS.contains(&program))
}

/// The command prints this line itself, word for word.
pub(super) fn prints_literally(command: &str, line: &str) -> bool {
    let line = line.trim();
    line.len() >= 12 && command.contains(line)
}

/// A redirection in the command line writes to this path's name.
pub(super) fn redirects_to(command: &str, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    command.match_indices('>').take(64).any(|(at, _)| {
        let word = command[at..].trim_start_matches(['>', '|', '&', ' ']).trim_start_matches(['"', '\'']);
        let word = word.split([' ', ';', '&', '|', '"', '\'', ')', '\n']).next().unwrap_or("");
        Path::new(word).file_name().is_some_and(|last| last == name)
    })
}

/// The database file an sqlite command names.
pub(super) fn database_in(command: &str) -> Option<String> {
    let word = |text: &str| text.trim_matches(['"', '\'', ')', '(', ';', ',']).to_owned();
    let words: Vec<&str> = command.split(|c: char| c.is_whitespace() || c == '(').take(256).collect();
    let after_tool = words.iter().position(|word| word.rsplit('/').next() == Some("sqlite3"));
    let argument = after_tool.and_then(|at| words[at + 1..].iter().find(|word| !word.starts_with('-')));
    let by_suffix = || {
        command.split(['"', '\'', ' ']).find(|word| {
            [".db", ".sqlite", ".sqlite3"].iter().any(|suffix| word.len() > suffix.len() && word.ends_with(suffix))
        })
    };
    argument.copied().or_else(by_suffix).map(word).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_command() {
        assert_eq!(directories_in_command("cd /a && (cd b; touch x); git -C c status"), ["/a", "b", "c"]);
        assert_eq!(directories_in_command("cd \"$HOME\"; cd -; cd 'x'"), ["x"]);
    }

    #[test]
    fn agreeing_calls_only() {
        assert_eq!(verb_in_command("python3 -c 'os.remove(1)'"), Some(Verb::Remove));
        assert_eq!(verb_in_command("os.remove(1); os.chmod(2)"), None);
    }

    #[test]
    fn failure_handlers() {
        assert!(exits_on_failure("touch /x 2>/dev/null || exit 3"));
        assert!(!exits_on_failure("touch /x || true; exit 3"));
        assert!(exits_on_failure("python3 -c \"try: f()\nexcept OSError: sys.exit(3)\""));
        assert!(!exits_on_failure("python3 -c \"try: f()\nexcept OSError: pass\nsys.exit(3)\""));
        assert!(exits_on_failure("node -e 'try { f() } catch (e) { process.exit(3) }'"));
        assert!(!exits_on_failure("node -e 'try { f() } catch (e) { }; process.exit(3)'"));
    }
}
