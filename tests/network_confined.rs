//! The network of commands inside the real sandbox, as root and as an ordinary user: off, allowlist, bypass attempts,
//! grants for one call, the end. Servers are on this host's loopback; names that are refused are reserved ones, which
//! are refused before anybody looks them up. No packet leaves the machine.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a test program: failures are panics")]

#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/cli.rs"]
mod cli;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/executor.rs"]
mod executor;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "network_support/files.rs"]
mod files;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "support/user.rs"]
mod user;

#[path = "network_confined/allow.rs"]
mod allow;
#[path = "network_confined/bypass.rs"]
mod bypass;
#[path = "network_confined/clients.rs"]
mod clients;
#[path = "network_confined/country.rs"]
mod country;
#[path = "network_confined/grants.rs"]
mod grants;
#[path = "network_confined/load.rs"]
mod load;
#[path = "network_confined/names.rs"]
mod names;
#[path = "network_confined/off.rs"]
mod off;
#[path = "network_confined/scene.rs"]
mod scene;
