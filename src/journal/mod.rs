//! The journal: an append-only record of what ran, one JSON object a line, each line chained to the one before.
//!
//! Why a chain: a line that is changed, removed or moved no longer fits its neighbours, and [`verify`] says where. It is
//! no signature: whoever may write both the journal and its `.head` file can write a new history. Keep them where the
//! commands cannot reach (`stockade run` refuses a journal inside what its command may write), and keep the last hash
//! that `verify` prints elsewhere if more is needed.
//!
//! Beside the journal `FILE` stand `FILE.head` (the lock, and where the journal ends) and, once it has been rotated,
//! `FILE.1`, `FILE.2` and so on, oldest first. Nothing is ever removed.

#![forbid(unsafe_code)]

mod approval;
mod files;
mod mask;
mod read;
mod record;
mod store;
mod tail;
mod verify;

pub use files::segments;
pub use mask::Masker;
pub use read::{Filter, Follow, read_all};
pub use record::{Answer, Approval, Command, Ended, Entry, Question, Record, Repair, Run};
pub use store::{Journal, JournalError, JournalSettings};
pub use verify::{Finding, FindingKind, VerifyReport, verify};
