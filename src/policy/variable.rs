//! `${WORKSPACE}`, `${HOME}`, `${TMP}` and a leading `~/` in the paths of a policy file.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::error::{Place, PolicyError};

/// Values of the variables: each an absolute path.
pub(super) struct Variables<'a> {
    pub(super) workspace: &'a Path,
    pub(super) home: &'a Path,
    pub(super) tmp: &'a Path,
}

/// How a path begins; a variable stands for a whole path, so it can stand nowhere else.
enum Start {
    Root,
    Workspace,
    Home,
    Tmp,
}

/// Splits the start from the rest (which begins with `/` or is empty).
fn split<'t>(text: &'t str, place: &Place) -> Result<(Start, &'t str), PolicyError> {
    let (start, rest) = if let Some(rest) = text.strip_prefix("${") {
        let (name, rest) = rest.split_once('}').ok_or_else(|| unknown(text, place))?;
        let start = match name {
            "WORKSPACE" => Start::Workspace,
            "HOME" => Start::Home,
            "TMP" => Start::Tmp,
            _ => return Err(unknown(&format!("${{{name}}}"), place)),
        };
        (start, rest)
    } else if let Some(rest) = text.strip_prefix('~') {
        (Start::Home, rest)
    } else {
        (Start::Root, text)
    };
    if let Some(at) = rest.find("${") {
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end + 1);
        let name = &rest[at..end];
        if !matches!(name, "${WORKSPACE}" | "${HOME}" | "${TMP}") {
            return Err(unknown(name, place));
        }
        let problem = format!("'{name}' stands in the middle of '{text}'");
        let remedy = "a variable is a whole path and can only come first".to_owned();
        return Err(PolicyError::Value { place: place.clone(), problem, remedy });
    }
    let absolute = rest.starts_with('/') || (rest.is_empty() && !matches!(start, Start::Root));
    if absolute {
        Ok((start, rest))
    } else {
        Err(PolicyError::RelativePath { place: place.clone(), path: text.to_owned() })
    }
}

fn unknown(name: &str, place: &Place) -> PolicyError {
    PolicyError::UnknownVariable { place: place.clone(), name: name.to_owned() }
}

/// Checks a path without filling anything in.
pub(super) fn check(text: &str, place: &Place) -> Result<(), PolicyError> {
    split(text, place).map(drop)
}

/// True when the path begins with `${TMP}`, which means the session's `/tmp` where that is private.
pub(super) fn begins_with_tmp(text: &str) -> bool {
    text.starts_with("${TMP}")
}

/// True when the path lies in the home directory by its wording.
pub(super) fn begins_with_home(text: &str) -> bool {
    text.starts_with('~') || text.starts_with("${HOME}")
}

/// Fills the variables in.
pub(super) fn expand(text: &str, place: &Place, variables: &Variables<'_>) -> Result<PathBuf, PolicyError> {
    let (start, rest) = split(text, place)?;
    let base = match start {
        Start::Root => return Ok(PathBuf::from(rest)),
        Start::Workspace => variables.workspace,
        Start::Home => variables.home,
        Start::Tmp => variables.tmp,
    };
    Ok(base.join(rest.trim_start_matches('/')))
}
