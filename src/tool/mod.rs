//! The tools a model sees: `bash`, `bash_output`, `bash_kill`.
//!
//! Schema and text only: every process concern stays behind [`crate::executor::BashExecutor`], so that any executor can
//! be mounted without the model seeing another tool. Everything goes through one facade:
//!
//! 1. build a [`ToolHost`] over an executor, with an approver, protected paths and contributors of environment;
//! 2. hand the model [`ToolHost::definitions`] and [`ToolHost::prompt_sections`];
//! 3. pass each call to [`ToolHost::call`] with the session it belongs to and a token that cancels it;
//! 4. give the model [`ToolResult::text`], and everybody else the typed value and the card beside it;
//! 5. [`ToolHost::end_session`] when a session goes, [`ToolHost::dispose`] at the end.

mod args;
mod bash;
mod builder;
mod card;
mod definition;
mod environment;
mod escalate;
mod gate;
mod host;
mod locks;
mod marker;
mod notice;
mod permissions;
mod prompt;
mod protection;
mod render;
mod result;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod talker;
mod task;

pub use args::AdditionalPermissions;
pub use builder::{HostError, ToolHostBuilder};
pub use card::{CallCard, CardContent, ResultCard, present_call, present_result};
pub use definition::{Annotations, BASH, BASH_KILL, BASH_OUTPUT, ToolDefinition};
pub use environment::{EnvContributor, EnvError, EnvRegistry, EnvVariable, Registration, ToolExecution};
pub use gate::{GateError, Wanted, examine};
pub use host::ToolHost;
pub use marker::parse_exit_status;
pub use notice::{Attachment, Notice, NoticeSink};
pub use permissions::{GrantAccess, PermissionError, ProtectedList, ProtectedPaths, Protection, canonical_grant};
pub use prompt::PromptSection;
pub use protection::PolicyProtection;
pub use render::{render_output, render_run};
pub use result::{FailureCode, TaskRead, TaskStatus, ToolOutput, ToolResult};

pub use crate::session::ExitStatus;
