//! What a model is told about each tool: name, description, schema.

#![forbid(unsafe_code)]

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::args::{BashArgs, ESCALATION_KEYS, TaskArgs};

/// Name of the tool that runs a command.
pub const BASH: &str = "bash";
/// Name of the tool that reads a background task.
pub const BASH_OUTPUT: &str = "bash_output";
/// Name of the tool that kills a background task.
pub const BASH_KILL: &str = "bash_kill";

/// One tool as it is registered with a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// The name it is called by.
    pub name: &'static str,
    /// What it does and how to use it, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of its arguments.
    pub input_schema: Value,
    /// What it may do, for clients that show or gate tools by it.
    pub annotations: Annotations,
}

/// What a tool may do at most. Hints, not enforcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// It changes nothing.
    pub read_only_hint: bool,
    /// What it changes may be lost.
    pub destructive_hint: bool,
    /// Calling it again changes nothing more.
    pub idempotent_hint: bool,
    /// It may reach things outside this machine.
    pub open_world_hint: bool,
}

const BASH_BASE: &str = "\
Run a command with bash -c and return its standard output, its standard error and how it ended.

Every call is a fresh shell: variables, functions, aliases, shell options and cd do not carry over. Choose the directory \
with workdir instead of a leading cd; without it the command runs in the session's directory. Facts about this session \
are in the environment under $DSH_* names (list them with: env | grep ^DSH_).

The result is standard output, then standard error after a [stderr] line, then markers. [exit code: N] stands last when \
N is not zero; without it the command succeeded. Long output keeps its end: [output truncated; full output: PATH] names \
the file that has all of it, so read parts of that file rather than running the command again. \
[timed out after Nms] means that the time limit ended it: give a larger timeoutMs, or run it in the background.

For servers, watchers and long jobs set run_in_background: the call returns a task id at once. Poll it with \
bash_output and stop it with bash_kill; nothing wakes you when it finishes. Do not start background work with & or \
nohup: what a call leaves behind is killed with it.";

const BASH_SANDBOX: &str = "\
Commands run in a sandbox. [sandbox: file access denied under MODE mode] (or network access, or operation) means that \
policy refused an access: your command is not wrong and the machine is not broken. The [sandbox: denied ...] lines name \
what was refused. Do not try to get the same effect another way (another tool, path, copy, interpreter or permission \
change): that is forbidden and is refused as well.

When a wider permission would cure the denial, and only then, the result says that escalation is available. If the \
task needs that access, retry in the same turn: the same command once, unchanged, with justification and the narrowest \
of additional_permissions (just the paths or hosts that were refused) or sandbox_permissions (a wider mode). Do not ask in \
chat first, because the approval prompt is how the user is asked. Never escalate speculatively: there must be a real \
denial, of this command or earlier in this session of the same access. When the instructions of this session say that approvals are disabled, \
never escalate. A rejected escalation is final for that command: report it and go on without. An approval holds for \
that one call; the next runs under the session's mode again.";

const BASH_OUTPUT_TEXT: &str = "\
Read what a background task has written since the last bash_output call for it, and its status: running, \
completed with its exit code, or killed. Output is never delivered twice. When some was dropped from memory \
before it was read the result says so and names the file with all of it, if there is one. An empty read of a running task \
means that it wrote nothing new; do other work before polling again.";

const BASH_KILL_TEXT: &str = "\
Kill a background task and every process it started. Killing a task that has already finished does nothing and \
says so. Output it wrote before can still be read with bash_output.";

/// The three tools; the escalation arguments are there exactly when `advertised`.
pub(super) fn definitions(advertised: bool) -> Vec<ToolDefinition> {
    let mut bash = schema::<BashArgs>();
    let mut description = BASH_BASE.to_owned();
    if advertised {
        description.push_str("\n\n");
        description.push_str(BASH_SANDBOX);
    } else if let Some(properties) = bash.get_mut("properties").and_then(Value::as_object_mut) {
        for key in ESCALATION_KEYS {
            properties.remove(key);
        }
    }
    let hints = |read_only_hint, destructive_hint, idempotent_hint, open_world_hint| Annotations {
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
    };
    vec![
        ToolDefinition { name: BASH, description, input_schema: bash, annotations: hints(false, true, false, true) },
        ToolDefinition {
            name: BASH_OUTPUT,
            description: BASH_OUTPUT_TEXT.to_owned(),
            input_schema: schema::<TaskArgs>(),
            annotations: hints(true, false, false, false),
        },
        ToolDefinition {
            name: BASH_KILL,
            description: BASH_KILL_TEXT.to_owned(),
            input_schema: schema::<TaskArgs>(),
            annotations: hints(false, true, true, false),
        },
    ]
}

/// The schema of `T` with everything inline and nothing that models stumble over: no title, no null beside a type.
fn schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(plain).transform(&mut schema);
    schema.to_value()
}

fn plain(schema: &mut Schema) {
    for key in ["title", "format"] {
        schema.remove(key);
    }
    // An optional argument may be left out; that null is taken for leaving it out need not be said.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(names)) = schema.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    let sole = match schema.get_mut("anyOf") {
        Some(Value::Array(choices)) => {
            choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
            if let [only] = choices.as_slice() { only.as_object().cloned() } else { None }
        }
        _ => None,
    };
    if let Some(only) = sole {
        schema.remove("anyOf");
        for (key, value) in only {
            schema.ensure_object().entry(key).or_insert(value);
        }
    }
}
