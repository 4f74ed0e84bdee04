//! The matrix of refusals as it is written down, and as it is rendered for readers.

use std::fmt::Write as _;

use stockade::policy::SandboxMode;

const TABLE: &str = include_str!("../data/facts/matrix.txt");

/// One operation on one class of object.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) operation: &'static str,
    pub(crate) place: &'static str,
    pub(crate) kind: &'static str,
    cells: [&'static str; 4],
}

/// What is right in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    Allowed,
    /// The host itself refuses it; nothing is reported.
    ByHost,
    /// `errno` is `None` where it depends on the host's resolver.
    Denied {
        errno: Option<&'static str>,
        cure: Option<SandboxMode>,
    },
}

pub(crate) fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [operation, place, kind, a, b, c, d] = words[..] else { panic!("not seven columns: {line}") };
            Row { operation, place, kind, cells: [a, b, c, d] }
        })
        .collect()
}

impl Row {
    pub(crate) fn cell(&self, mode: SandboxMode, landlock: bool, is_root: bool) -> Cell {
        let column = 2 * usize::from(mode == SandboxMode::WorkspaceWrite) + usize::from(landlock);
        let both = self.cells[column];
        let (root, user) = both.split_once('/').unwrap_or((both, both));
        match if is_root { root } else { user } {
            "-" => Cell::Allowed,
            "host" => Cell::ByHost,
            denied => {
                let (errno, cure) = denied.split_once('>').unwrap();
                let cure = match cure {
                    "ws" => Some(SandboxMode::WorkspaceWrite),
                    "full" => Some(SandboxMode::DangerFullAccess),
                    "none" => None,
                    other => panic!("no cure: {other}"),
                };
                Cell::Denied { errno: (errno != "*").then_some(errno), cure }
            }
        }
    }

    /// Witnesses of a refusal, best first, as the contract names them.
    pub(crate) fn witnesses(&self, landlock: bool, traced: bool) -> Vec<&'static str> {
        let seen = traced && self.operation != "read";
        // A network of the sandbox's own has a name server, which refuses and tells as a proxy does.
        let served = self.operation == "resolve" && !landlock;
        let all = [(seen, "trace"), (served, "proxy"), (true, "stderr")];
        all.into_iter().filter_map(|(is, witness)| is.then_some(witness)).collect()
    }
}

/// The page for readers.
pub(crate) fn markdown() -> String {
    let mut page = String::from(
        "# What is refused, and what is said of it\n\nGenerated from `tests/data/facts/matrix.txt` by `tests/facts.rs`, \
         which tries every cell as root and as an ordinary user, with and without the trace, and looks at the disk \
         afterwards. Do not edit; run `STOCKADE_WRITE_DOCS=1 cargo test --test facts page`.\n\nA cell is the errno that \
         the command gets and the narrowest mode that would let it through: `workspace-write`, `danger-full-access`, or \
         *nothing* where the host refuses it too. *allowed*: it happens. *by the host*: refused by the host's own \
         permissions, so no denial is reported. Where an ordinary user's answer differs, it stands second.\n\nPlaces: \
         *workspace* and *outside* belong to the user; *foreign* belongs to root; *protected* is `.git/hooks` of the \
         workspace; *masked* is `~/.ssh`; *loopback* is a port where the host listens. Witnesses: a refusal is seen by the \
         trace and by the message; a look-up by the sandbox's own name server too, which counts as `proxy`; a masked read \
         by the message alone.\n\n",
    );
    page.push_str("| operation | place | kind | read-only | read-only, Landlock alone | workspace-write | ");
    page.push_str("workspace-write, Landlock alone |\n|---|---|---|---|---|---|---|\n");
    for row in rows() {
        let cells = row.cells.map(|cell| cell.split('/').map(words).collect::<Vec<_>>().join("; user: "));
        writeln!(page, "| {} | {} | `{}` | {} |", row.operation, row.place, row.kind, cells.join(" | ")).unwrap();
    }
    page
}

fn words(cell: &str) -> String {
    match cell.split_once('>') {
        None if cell == "host" => "by the host".to_owned(),
        None => "allowed".to_owned(),
        Some((errno, cure)) => {
            let cure = match cure {
                "ws" => "`workspace-write`",
                "full" => "`danger-full-access`",
                _ => "nothing",
            };
            let errno = if errno == "*" { "no look-up" } else { errno };
            format!("{errno} → {cure}")
        }
    }
}
