//! Allow and deny entries: parsing, normal forms, which entry wins, which addresses are special.
#![forbid(unsafe_code)]

mod host;
mod rule;
mod set;
mod special;

pub use host::{Destination, Host, HostError};
pub use rule::{Rule, RuleError};
pub use set::{Refused, RuleSet};
pub use special::AddressClass;
