//! stockade runs the shell commands of AI agents on Linux, confined by a mode, and says what it refused.
//!
//! A [`SandboxMode`](policy::SandboxMode) and a policy say what a command may do. From them and from what the host
//! offers, [`plan`] computes, before anything starts, what will be enforced and which promises cannot be kept. A small
//! launcher process does what the plan says, and a [`RunResult`](executor::RunResult) brings back what the command did,
//! with every refusal as a [`Denial`](denial::Denial).
//!
//! # What is stopped
//!
//! Under `read-only` and `workspace-write`, with namespaces to be had: writes, and changes of mode, owner, times and
//! attributes, outside what the policy makes writable; inside it, those to what makes other programs run code later
//! (`.git/hooks`, editor and agent settings); reading of keys, tokens and the host's sockets; the network but for a
//! loopback of its own and the hosts that are named; seeing, signalling, tracing and outliving; mounts, namespaces,
//! keyrings, set-user-ID programs and the kernel calls that a command line does not need. As root as well as an
//! ordinary user.
//!
//! # What is not
//!
//! Kernel bugs that an unprivileged process can reach. Reading what nobody listed as secret. `flock` and read locks on
//! files that may be read. Writing through a hard link that was in the workspace before. Connecting to a host socket
//! that appears in a visible directory after the sandbox began, before Landlock ABI 9. Creating a protected name that
//! was not there, which is reported instead. What the host cannot enforce is named, as [`Gap`](executor::Gap)s, in each
//! result; [`SandboxedConfig::require_full`](sandboxed::SandboxedConfig::require_full) refuses to run with any.
//!
//! # An example
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use stockade::executor::{BashExecutor, ExecRequest};
//! use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
//! use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First of all, while there is one thread: this program is its own launcher when it is started as one.
//!     stockade::launcher::enter();
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let workspace = std::env::current_dir()?;
//!         let request = PolicyRequest::new(SandboxMode::WorkspaceWrite, workspace);
//!         let policy = LayeredPolicy::new(request, HostPaths::of_process()?)?;
//!         let executor = SandboxedExecutor::new(SandboxedConfig::new(Arc::new(policy)))?;
//!
//!         let spec = executor.resolve(ExecRequest::shell("make test > log; touch ../outside"))?;
//!         let result = executor.run(spec).await?;
//!         println!("exit code {:?}", result.exit_code);
//!         if let Some(sandbox) = result.sandbox {
//!             println!("{:?}, not kept: {:?}", sandbox.enforcement, sandbox.gaps);
//!             for denial in sandbox.denials.iter().filter(|denial| denial.blocking) {
//!                 println!("refused: {denial:?}");
//!             }
//!         }
//!         executor.dispose().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # The map
//!
//! | module | |
//! |---|---|
//! | [`executor`] | the seam: requests, results, [`BashExecutor`](executor::BashExecutor), processes |
//! | [`sandboxed`] | the confined executor; [`local`]: the unconfined one behind the same seam |
//! | [`policy`] | modes, policy files, which rule wins, what is protected |
//! | [`host`], [`plan`] | what this kernel offers; what will be enforced, computed before anything starts |
//! | [`launcher`] | the process that builds sandboxes; call [`enter`](launcher::enter) first in `main` |
//! | [`denial`] | refusals as facts, and their witnesses |
//! | [`network`] | host rules and the proxy behind `allowlist` |
//! | [`tool`] | `bash`, `bash_output`, `bash_kill` for a model, with escalation; [`approval`], [`session`] |
//! | [`environment`], [`output`] | what commands inherit; bounded capture and spill files |
//! | [`mcp`], [`acp`] | the tools over the Model Context Protocol and the Agent Client Protocol |
//! | [`doctor`] | what this host can enforce, found out by building sandboxes |
//! | [`journal`] | a hash-chained record of what ran |
//! | [`verify`] | the denial matrix and known ways out, tried on this host |

#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
mod embedding {}

pub mod acp;
pub mod approval;
pub mod denial;
pub mod doctor;
pub mod environment;
pub mod executor;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
pub mod journal;
mod kernel;
pub mod launcher;
pub mod local;
pub mod mcp;
pub mod network;
pub mod output;
pub mod plan;
pub mod policy;
pub mod sandboxed;
pub mod session;
pub mod tool;
pub mod verify;
