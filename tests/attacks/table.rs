//! What an attack is, as data. The rows themselves are in the files beside this one, a family or two in each.

/// How the outside sees that an attack worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Files, the bystander's condition, or what reached the bystander differ from before.
    World,
    /// The scene's secret stands in the attack's output.
    Leak,
    /// Nothing outside changes: the probe's own word that the kernel let it through.
    Claim,
    /// A process is left when the run is over.
    Survivor,
    /// A signal reached the caller's process group.
    Group,
    /// The caller's terminal changed.
    Terminal,
}

/// Who can do it when nothing confines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Able {
    Both,
    Root,
    /// Nobody on this host, and why; tried inside the sandbox all the same.
    Nobody(&'static str),
}

/// Which of the two confining modes promise that it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modes {
    Both,
    ReadOnly,
    WorkspaceWrite,
}

/// What stands around the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    /// Nothing: many such attacks share a scene and a run.
    Plain,
    /// A bystander in the caller's process group, in a PID namespace of the test's own.
    Group,
    /// A pseudo-terminal as standard input, output and error.
    Terminal,
    /// Descriptors 8 (a file of the host, for appending) and 9 (a directory of the host) left open.
    Descriptors,
    /// A bind mount inside the workspace that leads out of it (root only).
    Mount,
}

/// One attack.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    pub(crate) family: &'static str,
    pub(crate) name: String,
    /// Probe arguments split at spaces, or a shell command after `sh:`; `{names}` are filled in from the scene.
    pub(crate) args: String,
    pub(crate) effect: Effect,
    pub(crate) able: Able,
    pub(crate) modes: Modes,
    pub(crate) around: Around,
    /// Runs in a scene and a run of its own.
    pub(crate) alone: bool,
    /// `unshare` options for the unconfined run, so that the host itself is left alone.
    pub(crate) own: Option<&'static str>,
    /// Gaps any of which, when reported, excuses it.
    pub(crate) gaps: &'static [&'static str],
    /// A limit that no layer closes, named in SECURITY.md.
    pub(crate) limit: Option<&'static str>,
    /// Only the backend without namespaces promises that this fails: inside a namespace of its own it is harmless.
    pub(crate) landlock_only: bool,
}

impl Attack {
    pub(crate) fn new(family: &'static str, effect: Effect, args: &str) -> Self {
        Self {
            family,
            name: args.replace(['{', '}'], ""),
            args: args.to_owned(),
            effect,
            able: Able::Both,
            modes: Modes::Both,
            around: Around::Plain,
            alone: false,
            own: None,
            gaps: &[],
            limit: None,
            landlock_only: false,
        }
    }

    pub(crate) fn root(mut self) -> Self {
        self.able = Able::Root;
        self
    }

    pub(crate) fn nobody(mut self, why: &'static str) -> Self {
        self.able = Able::Nobody(why);
        self
    }

    pub(crate) fn read_only(mut self) -> Self {
        self.modes = Modes::ReadOnly;
        self
    }

    pub(crate) fn workspace_write(mut self) -> Self {
        self.modes = Modes::WorkspaceWrite;
        self
    }

    pub(crate) fn around(mut self, around: Around) -> Self {
        self.around = around;
        self
    }

    pub(crate) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Which of the scene's workspaces it is run in: the one its arguments name.
    pub(crate) fn place(&self) -> &'static str {
        ["bare", "linked"].into_iter().find(|name| self.args.contains(&format!("{{{name}}}"))).unwrap_or("ws")
    }

    pub(crate) fn own(mut self, unshare: &'static str) -> Self {
        self.own = Some(unshare);
        self
    }

    pub(crate) fn gap(mut self, names: &'static [&'static str]) -> Self {
        self.gaps = names;
        self
    }

    pub(crate) fn limit(mut self, name: &'static str) -> Self {
        self.limit = Some(name);
        self
    }

    pub(crate) fn landlock_only(mut self) -> Self {
        self.landlock_only = true;
        self
    }
}

/// An ordinary operation of a family that must go on working inside.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    pub(crate) family: &'static str,
    pub(crate) args: &'static str,
    pub(crate) modes: Modes,
    /// Without namespaces it is refused, and that is meant.
    pub(crate) namespaces_only: bool,
}

/// A control for both modes.
pub(crate) const fn control(family: &'static str, args: &'static str) -> Control {
    Control { family, args, modes: Modes::Both, namespaces_only: false }
}

/// A control that needs a writable workspace.
pub(crate) const fn control_in_workspace(family: &'static str, args: &'static str) -> Control {
    Control { family, args, modes: Modes::WorkspaceWrite, namespaces_only: false }
}

/// A control for the backend with namespaces of its own.
pub(crate) const fn control_in_namespaces(family: &'static str, args: &'static str) -> Control {
    Control { family, args, modes: Modes::Both, namespaces_only: true }
}
