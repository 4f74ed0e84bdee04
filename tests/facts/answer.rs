//! A right answer as it is written in the tables.

use std::path::{Path, PathBuf};

use stockade::denial::Denial;
use stockade::policy::SandboxMode;

/// What the expected denial means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Blocking,
    Passing,
    Optional,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    None,
    Path(PathBuf),
    /// A path whose name ends at random.
    Beginning(String),
    Peer(String, Option<u16>),
}

/// One expected denial.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) mark: Mark,
    pub(crate) kinds: Vec<String>,
    pub(crate) object: Object,
    pub(crate) cure: Option<SandboxMode>,
}

/// Where a run happens, which decides what a written answer means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Where<'a> {
    pub(crate) root: &'a Path,
    pub(crate) is_root: bool,
    pub(crate) mode: SandboxMode,
    pub(crate) port: u16,
}

impl Answer {
    /// Reads `MARK KIND TARGET [= CURE]`.
    pub(crate) fn read(text: &str, place: Where<'_>) -> Self {
        let text = text.replace("{port}", &place.port.to_string());
        let (text, cure) = text.split_once(" = ").map_or((text.as_str(), None), |(text, cure)| (text, Some(cure)));
        let mut words = text.splitn(3, ' ');
        let mark = match words.next() {
            Some("!") => Mark::Blocking,
            Some("~") => Mark::Passing,
            Some("?") => Mark::Optional,
            other => panic!("no mark: {other:?} in {text}"),
        };
        let kinds: Vec<String> = words.next().unwrap().split('|').map(str::to_owned).collect();
        let target = words.next().unwrap();
        let object = object(&kinds[0], target, place.root);
        let cure = match cure {
            Some("ws") => Some(SandboxMode::WorkspaceWrite),
            Some("full") => Some(SandboxMode::DangerFullAccess),
            Some("none") => None,
            Some(other) => panic!("no cure: {other}"),
            None => cure_by_place(&object, place),
        };
        Self { mark, kinds, object, cure }
    }

    pub(crate) fn kind_fits(&self, denial: &Denial) -> bool {
        self.kinds.iter().any(|kind| kind == denial.kind.as_str())
    }

    pub(crate) fn object_fits(&self, denial: &Denial) -> bool {
        match &self.object {
            Object::None => denial.path.is_none() && denial.host.is_none(),
            Object::Path(path) => denial.path.as_ref() == Some(path),
            Object::Beginning(head) => denial.path.as_ref().is_some_and(|p| p.to_str().unwrap().starts_with(head)),
            Object::Peer(host, port) => denial.host.as_ref() == Some(host) && denial.port == *port,
        }
    }
}

fn object(kind: &str, target: &str, root: &Path) -> Object {
    if target == "-" {
        return Object::None;
    }
    if kind.starts_with("net.") {
        let (host, port) = target.rsplit_once(':').map_or((target, None), |(host, port)| (host, Some(port)));
        return Object::Peer(host.to_owned(), port.map(|port| port.parse().unwrap()));
    }
    let path = match target.strip_prefix("~/") {
        Some(below) => root.join("home").join(below),
        None => match target.strip_prefix("../") {
            Some(beside) => root.join(beside),
            None => root.join("work").join(target),
        },
    };
    match path.to_str().unwrap().strip_suffix('*') {
        Some(head) => Object::Beginning(head.to_owned()),
        None => Object::Path(path),
    }
}

fn cure_by_place(object: &Object, place: Where<'_>) -> Option<SandboxMode> {
    let path = match object {
        Object::None | Object::Peer(..) => return Some(SandboxMode::DangerFullAccess),
        Object::Path(path) => path.clone(),
        Object::Beginning(head) => PathBuf::from(head),
    };
    // The head of a random name may end in a slash: then it is the directory itself that `starts_with` looks at.
    if path.starts_with(place.root.join("work")) && place.mode == SandboxMode::ReadOnly {
        Some(SandboxMode::WorkspaceWrite)
    } else if path.starts_with(place.root) || place.is_root {
        Some(SandboxMode::DangerFullAccess)
    } else {
        None
    }
}
