//! One captured stream: its tail, its spill file, and how far a reader has come.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decode;
use super::spill::{Spill, SpillStore};
use super::tail::Tail;

/// One captured stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamCapture {
    /// The kept tail, decoded; invalid bytes appear as U+FFFD.
    pub text: String,
    /// Bytes the command wrote in all.
    pub bytes: u64,
    /// True when `text` is not everything.
    pub truncated: bool,
    /// The complete stream on disk, when it was truncated and the file is complete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spill_path: Option<PathBuf>,
}

/// What an incremental read brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// New text.
    pub(crate) text: String,
    /// Bytes were dropped before anyone read them.
    pub(crate) lossy: bool,
    /// File that holds the whole stream so far, once the tail has overflowed.
    pub(crate) spill: Option<PathBuf>,
}

/// A stream being captured.
#[derive(Debug)]
pub(crate) struct Capture {
    tail: Tail,
    spill: Spill,
    delivered: u64,
    finished: bool,
}

impl Capture {
    /// Captures into a tail of `limit` bytes, spilling into `store` under a name beginning with `label`.
    pub(crate) fn new(limit: usize, store: Arc<SpillStore>, label: &'static str) -> Self {
        Self { tail: Tail::new(limit), spill: Spill::new(store, label), delivered: 0, finished: false }
    }

    /// Takes a piece of output. Allocates nothing once the tail has reached its limit.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if self.spill.is_waiting() && self.tail.would_overflow(chunk.len()) {
            // Nothing has been dropped yet, so the tail is the whole stream so far.
            let (older, newer) = self.tail.halves();
            self.spill.begin(&[older, newer]);
        }
        self.spill.append(chunk);
        self.tail.push(chunk);
    }

    /// Output since the previous read.
    pub(crate) fn read_fresh(&mut self) -> Fresh {
        let start = self.tail.start();
        let lossy = self.delivered < start;
        let from = self.delivered.max(start);
        let finished = self.finished;
        let bytes = self.tail.since(from);
        let skip = if lossy { decode::orphaned_prefix(bytes) } else { 0 };
        let hold = if finished { 0 } else { decode::unfinished_suffix(&bytes[skip..]) };
        let text = decode::text(&bytes[skip..bytes.len() - hold]);
        self.delivered = self.tail.total() - hold as u64;
        Fresh { text, lossy, spill: self.spill.path().map(Path::to_path_buf) }
    }

    /// The stream has ended: completes the spill or withholds it. Reads stay possible.
    pub(crate) fn finish(&mut self) -> StreamCapture {
        self.finished = true;
        self.spill.finish();
        let truncated = self.tail.start() > 0;
        let bytes = self.tail.total();
        let kept = self.tail.since(0);
        let skip = if truncated { decode::orphaned_prefix(kept) } else { 0 };
        StreamCapture {
            text: decode::text(&kept[skip..]),
            bytes,
            truncated,
            spill_path: self.spill.path().map(Path::to_path_buf),
        }
    }

    /// The kept bytes as they came.
    pub(crate) fn raw(&mut self) -> Vec<u8> {
        self.tail.since(0).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn capture(limit: usize, cap: u64) -> (tempfile::TempDir, Capture) {
        let root = tempfile::tempdir().unwrap();
        let store = Arc::new(SpillStore::new(root.path().to_path_buf(), cap, false));
        (root, Capture::new(limit, store, "stdout"))
    }

    #[test]
    fn small_output_makes_no_file() {
        let (root, mut capture) = capture(10, 100);
        capture.push(b"0123456789");
        let done = capture.finish();
        assert_eq!((done.text.as_str(), done.bytes, done.truncated), ("0123456789", 10, false));
        assert_eq!(done.spill_path, None);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_spill_holds_every_byte_as_written() {
        let (_root, mut capture) = capture(7, 10_000);
        let all: Vec<u8> = (0..=255_u8).cycle().take(3000).collect();
        all.chunks(11).for_each(|chunk| capture.push(chunk));
        let done = capture.finish();
        assert!(done.truncated);
        assert_eq!(done.bytes, 3000);
        assert_eq!(fs::read(done.spill_path.unwrap()).unwrap(), all);
        assert_eq!(capture.raw(), &all[2993..]);
    }

    #[test]
    fn reads_never_deliver_twice_and_never_split() {
        let sample = "ab€é🦀🦀é€zz".repeat(4);
        for step in 1..9 {
            let (_root, mut capture) = capture(1000, 10_000);
            let mut seen = String::new();
            for chunk in sample.as_bytes().chunks(step) {
                capture.push(chunk);
                let fresh = capture.read_fresh();
                assert!(!fresh.lossy && !fresh.text.contains('\u{fffd}'));
                seen.push_str(&fresh.text);
            }
            assert_eq!(seen, sample);
            assert_eq!(capture.read_fresh(), Fresh::default());
        }
    }

    #[test]
    fn a_read_that_came_too_late_is_lossy_and_points_at_the_whole() {
        let (_root, mut capture) = capture(8, 10_000);
        capture.push("éé".as_bytes());
        assert_eq!(capture.read_fresh().text, "éé");
        capture.push("€€€€".as_bytes());
        let fresh = capture.read_fresh();
        assert_eq!((fresh.text.as_str(), fresh.lossy), ("€€", true));
        assert_eq!(fs::read_to_string(fresh.spill.unwrap()).unwrap(), "éé€€€€");
        capture.push(b"x");
        assert!(!capture.read_fresh().lossy, "what was lost is reported once");
    }

    #[test]
    fn an_unfinished_character_is_shown_only_when_the_stream_ends() {
        let (_root, mut capture) = capture(100, 100);
        capture.push(b"a\xe2\x82");
        assert_eq!(capture.read_fresh().text, "a");
        assert_eq!(capture.finish().text, "a\u{fffd}");
        assert_eq!(capture.read_fresh().text, "\u{fffd}");
        assert_eq!(capture.read_fresh().text, "");
    }

    #[test]
    fn a_tail_edge_inside_a_character_drops_the_half() {
        let text = "🦀".repeat(10);
        for limit in 4..12 {
            let (_root, mut capture) = capture(limit, 1000);
            capture.push(text.as_bytes());
            assert_eq!(capture.finish().text, "🦀".repeat(limit / 4));
        }
    }

    #[test]
    fn a_spill_over_its_cap_is_withheld_and_deleted() {
        let (root, mut capture) = capture(10, 100);
        capture.push(&[b'a'; 60]);
        let path = capture.read_fresh().spill.unwrap();
        assert!(path.exists());
        capture.push(&[b'a'; 41]);
        assert_eq!(capture.read_fresh().spill, None);
        assert!(!path.exists());
        let done = capture.finish();
        assert_eq!((done.truncated, done.spill_path, done.bytes), (true, None, 101));
        assert_eq!(fs::read_dir(root.path().read_dir().unwrap().next().unwrap().unwrap().path()).unwrap().count(), 0);
    }

    #[test]
    fn a_capture_that_is_abandoned_leaves_no_file() {
        let (_root, mut capture) = capture(10, 1000);
        capture.push(&[b'a'; 60]);
        let path = capture.read_fresh().spill.unwrap();
        drop(capture);
        assert!(!path.exists());
    }
}
