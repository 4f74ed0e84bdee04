//! Builds an environment from what is inherited, what the policy sets and what a call adds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use super::name::{MANAGED_PREFIX, is_injection_name, is_managed_name, is_secret_name};

/// Names and values.
pub type Variables = BTreeMap<OsString, OsString>;

/// The kernel's limit on one string of an environment, its terminating NUL included (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 * 1024;

/// So that programs neither colour, page nor redraw.
const TERMINAL_DEFAULTS: [(&str, &str); 4] =
    [("NO_COLOR", "1"), ("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// A variable that cannot be passed on as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name:?}: {reason}")]
pub struct EnvironmentError {
    /// The variable; not its value, which may be a secret.
    pub name: String,
    /// What is wrong, with the remedy.
    pub reason: String,
}

impl EnvironmentError {
    fn new(name: &OsStr, reason: impl Into<String>) -> Self {
        Self { name: name.to_string_lossy().into_owned(), reason: reason.into() }
    }
}

/// What of the inherited environment reaches a command, and what is set for every command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    /// Set for every command, over anything inherited. Never scrubbed: they were asked for.
    pub set: Variables,
    /// Inherited names let through the scrub, exactly as written. Managed names cannot be.
    pub pass: BTreeSet<OsString>,
    /// Set `NO_COLOR=1 TERM=dumb PAGER=cat GIT_PAGER=cat`, unless `set` or `pass` says otherwise.
    pub terminal_defaults: bool,
}

impl Default for EnvironmentPolicy {
    fn default() -> Self {
        Self { set: Variables::new(), pass: BTreeSet::new(), terminal_defaults: true }
    }
}

impl EnvironmentPolicy {
    /// What every command starts from: the inherited variables scrubbed, the defaults, then [`Self::set`].
    ///
    /// # Errors
    /// When a name in `set` or `pass` is managed, empty, a pattern, or contains `=` or NUL.
    pub fn base(
        &self,
        inherited: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Variables, EnvironmentError> {
        for (name, value) in &self.set {
            check_ordinary(name, value)?;
        }
        for name in &self.pass {
            check_ordinary(name, OsStr::new(""))?;
            if name.as_bytes().contains(&b'*') {
                return Err(EnvironmentError::new(name, "is a pattern; name each variable to let through"));
            }
        }
        let mut base: Variables =
            inherited.into_iter().filter(|(name, value)| self.lets_through(name, value)).collect();
        if self.terminal_defaults {
            for (name, value) in TERMINAL_DEFAULTS {
                if !self.pass.contains(OsStr::new(name)) || !base.contains_key(OsStr::new(name)) {
                    base.insert(name.into(), value.into());
                }
            }
        }
        base.extend(self.set.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(base)
    }

    fn lets_through(&self, name: &OsStr, value: &OsStr) -> bool {
        let text = name.to_string_lossy();
        if is_managed_name(&text) {
            return false;
        }
        self.pass.contains(name)
            // Bash before 4.3-patch-27 exported functions under their own names.
            || !(is_injection_name(&text) || is_secret_name(&text) || value.as_bytes().starts_with(b"() {"))
    }
}

/// Checks what a call adds: `ordinary` holds no managed name, `managed` nothing else.
///
/// # Errors
/// Names the first variable in the wrong channel, or one that no program could receive.
pub fn check_call(ordinary: &Variables, managed: &BTreeMap<String, String>) -> Result<(), EnvironmentError> {
    for (name, value) in ordinary {
        check_ordinary(name, value)?;
    }
    for (name, value) in managed {
        check_string(OsStr::new(name), OsStr::new(value))?;
        if !is_managed_name(name) || name.len() == MANAGED_PREFIX.len() {
            return Err(EnvironmentError::new(
                OsStr::new(name),
                format!("the managed channel takes {MANAGED_PREFIX}NAME only; pass it as an ordinary variable"),
            ));
        }
    }
    Ok(())
}

fn check_ordinary(name: &OsStr, value: &OsStr) -> Result<(), EnvironmentError> {
    check_string(name, value)?;
    if is_managed_name(&name.to_string_lossy()) {
        let reason = format!("names beginning {MANAGED_PREFIX} are managed; choose another name");
        return Err(EnvironmentError::new(name, reason));
    }
    Ok(())
}

fn check_string(name: &OsStr, value: &OsStr) -> Result<(), EnvironmentError> {
    let bytes = name.as_bytes();
    let reason = if bytes.is_empty() {
        "has an empty name; give it one"
    } else if bytes.contains(&b'=') {
        "has '=' in its name; write NAME=VALUE with a plain name"
    } else if bytes.contains(&0) || value.as_bytes().contains(&0) {
        "contains a NUL byte, which no program can receive; remove it"
    } else if bytes.len() + value.len() + 2 > LONGEST {
        "is longer than the 128 KiB the kernel passes in one string; put it in a file"
    } else {
        return Ok(());
    };
    Err(EnvironmentError::new(name, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn names(list: &[&str]) -> BTreeSet<OsString> {
        list.iter().map(Into::into).collect()
    }

    #[test]
    fn scrubs_and_defaults() {
        let inherited = vars(&[
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("TERM", "xterm"),
            ("GITHUB_TOKEN", "t"),
            ("LD_PRELOAD", "x.so"),
            ("BASH_ENV", "rc"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("ls", "() { evil; }"),
            ("DSH_HOME", "/stale"),
        ]);
        let base = EnvironmentPolicy::default().base(inherited).unwrap();
        assert_eq!(
            base,
            vars(&[
                ("GIT_PAGER", "cat"),
                ("HOME", "/h"),
                ("NO_COLOR", "1"),
                ("PAGER", "cat"),
                ("PATH", "/bin"),
                ("TERM", "dumb"),
            ])
        );
    }

    #[test]
    fn pass_lets_exact_names_through_and_set_wins() {
        let policy = EnvironmentPolicy {
            set: vars(&[("BOTH", "set"), ("MY_TOKEN", "asked-for")]),
            pass: names(&["GITHUB_TOKEN", "LD_LIBRARY_PATH", "BOTH", "TERM", "ABSENT", "PAGER"]),
            terminal_defaults: true,
        };
        let inherited = vars(&[
            ("GITHUB_TOKEN", "t"),
            ("github_token", "u"),
            ("LD_LIBRARY_PATH", "/l"),
            ("LD_PRELOAD", "x"),
            ("BOTH", "inherited"),
            ("TERM", "xterm"),
        ]);
        let base = policy.base(inherited).unwrap();
        let expected = [
            ("BOTH", "set"),
            ("GITHUB_TOKEN", "t"),
            ("GIT_PAGER", "cat"),
            ("LD_LIBRARY_PATH", "/l"),
            ("MY_TOKEN", "asked-for"),
            ("NO_COLOR", "1"),
            ("PAGER", "cat"),
            ("TERM", "xterm"),
        ];
        assert_eq!(base, vars(&expected));
    }

    #[test]
    fn without_terminal_defaults_the_terminal_is_inherited() {
        let policy = EnvironmentPolicy { terminal_defaults: false, ..EnvironmentPolicy::default() };
        assert_eq!(policy.base(vars(&[("TERM", "xterm")])).unwrap(), vars(&[("TERM", "xterm")]));
    }

    #[test]
    fn names_in_the_wrong_place_are_refused() {
        let none = BTreeMap::new();
        for bad in ["", "A=B", "A\0B", "DSH_HOME"] {
            assert!(check_call(&vars(&[(bad, "v")]), &none).is_err(), "{bad:?}");
            let policy = EnvironmentPolicy { set: vars(&[(bad, "v")]), ..EnvironmentPolicy::default() };
            assert!(policy.base([]).is_err(), "{bad:?}");
            let policy = EnvironmentPolicy { pass: names(&[bad]), ..EnvironmentPolicy::default() };
            assert!(policy.base([]).is_err(), "{bad:?}");
        }
        let policy = EnvironmentPolicy { pass: names(&["AWS_*"]), ..EnvironmentPolicy::default() };
        assert!(policy.base([]).is_err());
        assert!(check_call(&vars(&[("A", "v\0w")]), &none).is_err());
        assert!(check_call(&vars(&[("A", &"v".repeat(LONGEST))]), &none).is_err());
        assert!(check_call(&vars(&[("A", &"v".repeat(LONGEST - 3))]), &none).is_ok());
        for (name, fine) in [("DSH_HOME", true), ("DSH_", false), ("PATH", false), ("dsh_x", false), ("DSH_A=B", false)]
        {
            let managed = BTreeMap::from([(name.to_owned(), "v".to_owned())]);
            assert_eq!(check_call(&Variables::new(), &managed).is_ok(), fine, "{name}");
        }
    }

    #[test]
    fn an_error_does_not_show_the_value() {
        let error = check_call(&vars(&[("A", "hush\0")]), &BTreeMap::new()).unwrap_err();
        assert!(!error.to_string().contains("hush"));
    }
}
