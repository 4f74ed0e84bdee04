//! The tools in an agent that speaks the Agent Client Protocol: cards for the editor, approval by the editor's prompt.
//!
//! An agent keeps its own connection and its own model. For each call of a tool it goes through [`perform`], which shows
//! the pending card, lets the tool layer run the call with a [`PermissionApprover`] mounted, and shows the result; or it
//! uses [`Cards`] alone and sends the updates itself. `examples/acp_agent.rs` is a complete agent without a model.

mod approve;
mod cards;
mod perform;

pub use approve::{Asking, PermissionApprover, asking};
pub use cards::{Cards, Pending};
pub use perform::{Call, perform};
