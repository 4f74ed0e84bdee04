//! The last bytes of a stream, in a ring that grows up to its limit and never beyond.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Keeps the last `limit` bytes and counts them all.
#[derive(Debug)]
pub(crate) struct Tail {
    ring: VecDeque<u8>,
    limit: usize,
    total: u64,
}

impl Tail {
    /// An empty tail; memory is taken as output arrives.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { ring: VecDeque::new(), limit, total: 0 }
    }

    /// Appends, dropping what no longer fits from the front.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let kept = &chunk[chunk.len().saturating_sub(self.limit)..];
        let excess = (self.ring.len() + kept.len()).saturating_sub(self.limit);
        self.ring.drain(..excess);
        self.ring.extend(kept);
    }

    /// Whether `more` bytes would push others out.
    pub(crate) fn would_overflow(&self, more: usize) -> bool {
        self.ring.len().saturating_add(more) > self.limit
    }

    /// Bytes seen in all.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Offset in the stream of the first byte still held.
    pub(crate) fn start(&self) -> u64 {
        self.total - self.ring.len() as u64
    }

    /// What is held, as the two halves of the ring.
    pub(crate) fn halves(&self) -> (&[u8], &[u8]) {
        self.ring.as_slices()
    }

    /// What is held from stream offset `from` on, in one piece.
    pub(crate) fn since(&mut self, from: u64) -> &[u8] {
        let skip = usize::try_from(from.saturating_sub(self.start())).unwrap_or(usize::MAX).min(self.ring.len());
        &self.ring.make_contiguous()[skip..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_keeping_everything(
            limit in 0_usize..40,
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
            from in 0_u64..800,
        ) {
            let mut tail = Tail::new(limit);
            let mut model: Vec<u8> = Vec::new();
            for chunk in &chunks {
                let overflow = model.len().min(limit) + chunk.len() > limit;
                prop_assert_eq!(tail.would_overflow(chunk.len()), overflow);
                tail.push(chunk);
                model.extend_from_slice(chunk);
                let start = model.len().saturating_sub(limit);
                prop_assert_eq!(tail.total(), model.len() as u64);
                prop_assert_eq!(tail.start(), start as u64);
                let (a, b) = tail.halves();
                prop_assert_eq!([a, b].concat(), &model[start..]);
            }
            let start = model.len().saturating_sub(limit).max(usize::try_from(from).unwrap()).min(model.len());
            prop_assert_eq!(tail.since(from), &model[start..]);
        }
    }

    #[test]
    fn memory_stays_at_the_limit() {
        let mut tail = Tail::new(64_000);
        let chunk = vec![b'x'; 300_000];
        for _ in 0..50 {
            tail.push(&chunk);
        }
        assert_eq!(tail.halves().0.len() + tail.halves().1.len(), 64_000);
        assert!(tail.ring.capacity() < 200_000, "{}", tail.ring.capacity());
    }
}
