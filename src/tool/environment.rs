//! The managed environment: `DSH_*` variables that tell a command where it runs, computed anew for every call.
//!
//! Each variable has one owner, declared when it registers. Two owners of one name, a reserved name, or a value for an
//! undeclared one are errors that are seen at once.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::session::Session;

/// What every managed name begins with.
const PREFIX: &str = "DSH_";
const HOME: &str = "DSH_HOME";
const SHELL: &str = "DSH_SHELL";
const SESSION_ID: &str = "DSH_SESSION_ID";
const SESSION_JSONL: &str = "DSH_SESSION_JSONL";

/// The call that variables are computed for.
#[derive(Debug, Clone, Copy)]
pub struct ToolExecution<'a> {
    /// The tool that was called.
    pub tool: &'a str,
    /// The session that called it.
    pub session: Option<&'a Session>,
}

/// One managed variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name, beginning with `DSH_`.
    pub name: String,
    /// What it holds.
    pub description: String,
}

/// Provides managed variables.
pub trait EnvContributor: Send + Sync {
    /// A stable name, for messages and listings.
    fn name(&self) -> &str;

    /// Every variable it may ever provide. Read once, when it registers.
    fn variables(&self) -> Vec<EnvVariable>;

    /// The values for one call. A declared variable may be left out.
    fn resolve(&self, execution: &ToolExecution<'_>) -> BTreeMap<String, String>;
}

/// What is wrong with a contributor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The name is taken.
    #[error("managed variable {variable} of '{contributor}' belongs to '{owner}' already: choose another name")]
    Owned {
        /// The variable.
        variable: String,
        /// Who wants it.
        contributor: String,
        /// Who has it.
        owner: String,
    },
    /// There is a contributor of this name.
    #[error("a contributor named '{contributor}' is registered already: names are unique")]
    Registered {
        /// The name.
        contributor: String,
    },
    /// Not a managed name.
    #[error("'{variable}' of '{contributor}' is no managed name: use DSH_ and capital letters, digits or '_'")]
    Name {
        /// The variable.
        variable: String,
        /// Who wants it.
        contributor: String,
    },
    /// A value for a variable that was not declared.
    #[error("'{contributor}' provided {variable}, which it did not declare: declare it when registering")]
    Undeclared {
        /// The variable.
        variable: String,
        /// Who provided it.
        contributor: String,
    },
    /// A value that no program can receive.
    #[error("'{contributor}' provided {variable} with a NUL byte in it")]
    Nul {
        /// The variable.
        variable: String,
        /// Who provided it.
        contributor: String,
    },
    /// No home directory to derive `DSH_HOME` from.
    #[error("DSH_HOME cannot be determined: configure the harness home, or set DSH_HOME or HOME to an absolute path")]
    NoHome,
}

struct Entry {
    id: u64,
    declared: Vec<EnvVariable>,
    contributor: Arc<dyn EnvContributor>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    list: Vec<Entry>,
}

/// The registered contributors, besides the built-in variables.
#[derive(Clone)]
pub struct EnvRegistry {
    home: PathBuf,
    entries: Arc<Mutex<Entries>>,
}

/// Keeps a contributor registered; dropping it takes the contributor out.
#[must_use = "dropping the registration takes the contributor out again"]
pub struct Registration {
    id: u64,
    entries: Arc<Mutex<Entries>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.entries).list.retain(|entry| entry.id != self.id);
    }
}

impl EnvRegistry {
    /// A registry whose `DSH_HOME` is `configured`, else the ambient `DSH_HOME`, else `~/.dsh`. Read once, here.
    ///
    /// # Errors
    /// When none of them is an absolute path.
    pub fn new(configured: Option<&Path>) -> Result<Self, EnvError> {
        let ambient = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = match configured {
            Some(path) => Some(path.to_owned()).filter(|path| path.is_absolute()),
            None => ambient(HOME).or_else(|| ambient("HOME").map(|home| home.join(".dsh"))),
        };
        // An environment value must be text here, and must not hold a NUL.
        let home =
            home.filter(|path| path.to_str().is_some_and(|text| !text.contains('\0'))).ok_or(EnvError::NoHome)?;
        Ok(Self { home, entries: Arc::default() })
    }

    /// Registers a contributor for as long as the returned value lives.
    ///
    /// # Errors
    /// When its name or one of its variables is taken, reserved or not a managed name.
    pub fn register(&self, contributor: Arc<dyn EnvContributor>) -> Result<Registration, EnvError> {
        let (name, declared) = (contributor.name().to_owned(), contributor.variables());
        let mut entries = lock(&self.entries);
        if entries.list.iter().any(|entry| entry.contributor.name() == name) {
            return Err(EnvError::Registered { contributor: name });
        }
        for (index, variable) in declared.iter().enumerate() {
            let variable_name = variable.name.clone();
            if !is_managed(&variable.name) {
                return Err(EnvError::Name { variable: variable_name, contributor: name });
            }
            let owner = if builtin().iter().any(|reserved| reserved.name == variable.name) {
                Some("stockade".to_owned())
            } else if declared[..index].iter().any(|earlier| earlier.name == variable.name) {
                Some(name.clone())
            } else {
                let owns = |entry: &&Entry| entry.declared.iter().any(|theirs| theirs.name == variable.name);
                entries.list.iter().find(owns).map(|entry| entry.contributor.name().to_owned())
            };
            if let Some(owner) = owner {
                return Err(EnvError::Owned { variable: variable_name, contributor: name, owner });
            }
        }
        entries.next += 1;
        let id = entries.next;
        entries.list.push(Entry { id, declared, contributor });
        Ok(Registration { id, entries: Arc::clone(&self.entries) })
    }

    /// Every declared variable with the name of its owner, built-in ones first. Computes nothing.
    #[must_use]
    pub fn list(&self) -> Vec<(String, EnvVariable)> {
        let mut all: Vec<_> = builtin().into_iter().map(|variable| ("stockade".to_owned(), variable)).collect();
        for entry in &lock(&self.entries).list {
            let owner = entry.contributor.name();
            all.extend(entry.declared.iter().map(|variable| (owner.to_owned(), variable.clone())));
        }
        all
    }

    /// The managed environment of one call.
    ///
    /// # Errors
    /// When a contributor provides what it did not declare, or a value that cannot be passed on.
    pub fn collect(&self, execution: &ToolExecution<'_>) -> Result<BTreeMap<String, String>, EnvError> {
        let mut all = BTreeMap::new();
        all.insert(HOME.to_owned(), self.home.display().to_string());
        all.insert(SHELL.to_owned(), "1".to_owned());
        if let Some(session) = execution.session {
            all.insert(SESSION_ID.to_owned(), session.id().to_string());
            if let Some(path) = session.path().and_then(Path::to_str) {
                all.insert(SESSION_JSONL.to_owned(), path.to_owned());
            }
        }
        // Contributors are other people's code: they run without the lock.
        let snapshot: Vec<_> = {
            let entries = lock(&self.entries);
            entries.list.iter().map(|entry| (Arc::clone(&entry.contributor), entry.declared.clone())).collect()
        };
        for (contributor, declared) in snapshot {
            for (variable, value) in contributor.resolve(execution) {
                let contributor = contributor.name().to_owned();
                if !declared.iter().any(|known| known.name == variable) {
                    return Err(EnvError::Undeclared { variable, contributor });
                }
                if value.contains('\0') {
                    return Err(EnvError::Nul { variable, contributor });
                }
                all.insert(variable, value);
            }
        }
        Ok(all)
    }
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_managed(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

fn builtin() -> [EnvVariable; 4] {
    let variable = |name: &str, what: &str| EnvVariable { name: name.to_owned(), description: what.to_owned() };
    [
        variable(HOME, "Absolute path of the harness's home directory."),
        variable(SHELL, "1 in every command that a tool started."),
        variable(SESSION_ID, "Id of the session that called the tool."),
        variable(
            SESSION_JSONL,
            "Absolute path of the session's event log. A hint: the current turn may not be in it yet.",
        ),
    ]
}
